"""Options and names of the PostgreSQL sink, without a server."""

from __future__ import annotations

from typing import Any

import pytest

from tidegate.connectors.legacy import Sink
from tidegate.connectors.options import Options
from tidegate.connectors.postgres.column_types import created_type
from tidegate.connectors.postgres.config import PostgresConfig, parse_sink, parse_table
from tidegate.connectors.postgres.names import SinkNames, Table, session_attempt
from tidegate.model import types as t
from tidegate.model.errors import InvalidQuery
from tidegate.model.ids import Attempt, CheckpointId, OperatorId, SlotIndex
from tidegate.model.output_mode import OutputMode
from tidegate.model.types import Field, Schema

URL = "postgresql://me@db:5433/shop"
SCHEMA: Schema = (Field("k", t.STRING), Field("n", t.LONG), Field("w", t.Struct((Field("start", t.TIMESTAMP),))))


def parse(
    mode: OutputMode = OutputMode.APPEND, schema: Schema = SCHEMA, partition_by: tuple[str, ...] = (), **options: Any
) -> PostgresConfig:
    given = {"url": URL, "dbtable": "out", "tidegate.pipeline": "p"} | {k: str(v) for k, v in options.items()}
    return parse_sink(
        Sink(
            id=OperatorId("sink-0"),
            format="postgres",
            options={k: v for k, v in given.items() if v},
            columns=tuple((field.name, field.name) for field in schema),
            schema=schema,
            mode=mode,
            partition_by=partition_by,
        )
    )


@pytest.mark.parametrize(
    ("text", "table"),
    [
        ("events", Table("events")),
        ("Events", Table("events")),
        ("app.events", Table("events", "app")),
        ('App."Odd ""Name"".x"', Table('Odd "Name".x', "app")),
    ],
)
def test_a_table_is_named_as_in_sql(text: str, table: Table) -> None:
    assert parse_table(text, Options({}, "postgres sink")) == table


@pytest.mark.parametrize("text", ["a.b.c", "a b", "a; DROP TABLE b", '"a', "a.", ".a", "1a"])
def test_what_is_no_table_name_is_refused(text: str) -> None:
    with pytest.raises(InvalidQuery, match="dbtable"):
        parse_table(text, Options({}, "postgres sink"))


@pytest.mark.parametrize("url", [URL, f"jdbc:{URL}", "host=db port=5433 dbname=shop user=me"])
def test_a_server_is_named_by_any_kind_of_url(url: str) -> None:
    config = parse(url=url)
    assert config.connection == {"host": "db", "port": "5433", "dbname": "shop", "user": "me"}
    assert config.where == "db:5433/shop"


def test_single_options_stand_over_the_url() -> None:
    config = parse(user="you", password="x y", database="other", url="postgresql://me:secret@db/shop")
    assert config.connection == {"host": "db", "user": "you", "password": "x y", "dbname": "other"}


def test_rows_wait_in_a_transaction_unless_keys_or_whole_results_forbid_it() -> None:
    assert parse().strategy == "prepared"
    assert parse(commitStrategy="staged").strategy == "staged"
    assert parse(keys="k").strategy == "staged"
    assert parse(OutputMode.UPDATE, keys="k , n").keys == ("k", "n")
    assert parse(OutputMode.COMPLETE).strategy == "staged"


@pytest.mark.parametrize(
    ("asked", "complaint"),
    [
        ({"url": ""}, "'url'"),
        ({"url": "postgresql://h/x?no=1"}, "'url'"),
        ({"dbtable": ""}, "'path'"),
        ({"mode": OutputMode.UPDATE}, "which row of the table"),
        ({"mode": OutputMode.COMPLETE, "keys": "k"}, "complete"),
        ({"keys": "k, z"}, "names z"),
        ({"keys": "k, k"}, "without repetition"),
        ({"keys": "w"}, "struct<start:timestamp>"),
        ({"keys": "k", "commitStrategy": "prepared"}, "block itself"),
        ({"commitStrategy": "hope"}, "prepared or staged"),
        ({"lockTimeout": 0}, "at least 1"),
        ({"partition_by": ("k",)}, "partitionBy"),
        ({"schema": (Field("x", t.NULL),)}, "void"),
        ({"schema": (Field("x", t.Array(t.Struct((Field("y", t.YEAR_MONTH_INTERVAL),)))),)}, "interval year to month"),
    ],
)
def test_options_that_make_no_sense_are_refused(asked: dict[str, Any], complaint: str) -> None:
    with pytest.raises(InvalidQuery) as refused:
        parse(**asked)
    assert complaint in str(refused.value)


def test_names_of_transactions_fit_and_tell_whose_they_are() -> None:
    plain, long = (
        SinkNames("p-1", "sink-0"),
        SinkNames.of(
            Sink(
                id=OperatorId("s" * 200),
                format="postgres",
                options={"tidegate.pipeline": "ü/" * 90},
                columns=(),
                schema=(),
            )
        ),
    )
    for names in (plain, long):
        gid = names.transaction(Attempt(3), SlotIndex(14), CheckpointId(1 << 40))
        assert len(gid.encode()) < 200 and names.attempt_of(gid) == 3
        assert len(names.staging(SCHEMA)) <= 63 and len(names.session(Attempt(10**9), SlotIndex(10**5))) <= 63
    gid = plain.transaction(Attempt(3), SlotIndex(0), CheckpointId(1))
    for other in (SinkNames("p-1", "sink-00"), SinkNames("p-1x", "sink-0"), SinkNames("p", "1")):
        assert other.attempt_of(gid) is None and other.digest != plain.digest
    assert plain.attempt_of("somebody else's") is None
    assert session_attempt(plain.session(Attempt(7), SlotIndex(0))) == 7 and session_attempt("psql") is None


def test_another_result_gets_another_staging_table() -> None:
    names = SinkNames("p", "s")
    assert names.staging(SCHEMA) == names.staging(SCHEMA) != names.staging(SCHEMA[:2])


def test_arrays_of_arrays_are_json_because_their_rows_may_differ_in_length() -> None:
    assert created_type(t.Array(t.LONG), "c") == "bigint[]"
    assert created_type(t.Array(t.Array(t.LONG)), "c") == "jsonb"
