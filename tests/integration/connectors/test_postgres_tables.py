"""Tables of the PostgreSQL sink against a real server: types, what is made, what is refused, and what is said about it."""

from __future__ import annotations

import datetime as dt
import socket
from decimal import Decimal
from typing import Any

import polars as pl
import pytest
from tests.integration.connectors.postgres_sinks import (
    committer,
    numbers,
    prepared,
    rows,
    sink_to,
    upsert_to,
    writer,
    wrote,
)
from tests.nodes import planned_sink
from tests.servers.postgres import PASSWORD, Server, postgres_server

from tidegate.model import types as t
from tidegate.model.errors import DataError, InvalidQuery, Unavailable
from tidegate.model.types import DataType, Field
from tidegate.operators.columns import polars_type
from tidegate.plan.explain import describe

EPOCH = dt.datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=dt.UTC)
POINT = t.Struct(
    (Field("x", t.INTEGER), Field('odd "name"', t.Array(t.STRING)), Field("at", t.TIMESTAMP), Field("f", t.DOUBLE))
)

# Type, the type of the column made for it, a value as Polars has it, the value that PostgreSQL gives back.
VALUES: list[tuple[DataType, str, Any, Any]] = [
    (t.BOOLEAN, "boolean", True, True),
    (t.BYTE, "smallint", -128, -128),
    (t.SHORT, "smallint", 32_767, 32_767),
    (t.INTEGER, "integer", -(1 << 31), -(1 << 31)),
    (t.LONG, "bigint", (1 << 63) - 1, (1 << 63) - 1),
    (t.FLOAT, "real", 0.1, 0.1),
    (t.DOUBLE, "double precision", 5e-324, 5e-324),
    (t.DOUBLE, "double precision", float("-inf"), float("-inf")),
    (t.STRING, "text", "tab\t nl\n cr\r \\ \\N \\. \" ' ü€😀", "tab\t nl\n cr\r \\ \\N \\. \" ' ü€😀"),
    (t.STRING, "text", "", ""),
    (t.BINARY, "bytea", b"\x00\xff\\\n\t", b"\x00\xff\\\n\t"),
    (t.DATE, "date", dt.date(1, 1, 1), dt.date(1, 1, 1)),
    (t.TIMESTAMP, "timestamp with time zone", EPOCH, EPOCH),
    (t.TIMESTAMP_NTZ, "timestamp without time zone", dt.datetime.max, dt.datetime.max),
    (t.DAY_TIME_INTERVAL, "interval", dt.timedelta(days=-3, microseconds=7), dt.timedelta(days=-3, microseconds=7)),
    (t.Decimal(38, 6), "numeric(38,6)", Decimal("-" + "9" * 32 + ".123456"), Decimal("-" + "9" * 32 + ".123456")),
    (t.Array(t.INTEGER), "integer[]", [1, None, 3], [1, None, 3]),
    (t.Array(t.STRING), "text[]", ['a,b"c\\d', "NULL", "", None, "\t{}"], ['a,b"c\\d', "NULL", "", None, "\t{}"]),
    (t.Array(t.BINARY), "bytea[]", [b"\x01\\", None], [b"\x01\\", None]),
    (t.Array(t.TIMESTAMP), "timestamp with time zone[]", [EPOCH], [EPOCH]),
    (t.Array(t.STRING), "text[]", [], []),
    (t.Array(t.Array(t.LONG)), "jsonb", [[1], [], None, [2, 3]], [[1], [], None, [2, 3]]),
    (
        POINT,
        "jsonb",
        {"x": 1, 'odd "name"': ['x"y\n', None], "at": EPOCH, "f": float("nan")},
        {"x": 1, 'odd "name"': ['x"y\n', None], "at": "1969-12-31T23:59:59.999999Z", "f": "NaN"},
    ),
    (
        t.Map(t.STRING, t.Decimal(4, 2)),
        "jsonb",
        [{"key": 'a"b', "value": Decimal("1.50")}, {"key": "c", "value": None}],
        {'a"b': 1.5, "c": None},
    ),
    (t.Map(t.INTEGER, t.BINARY), "jsonb", [{"key": 5, "value": b"\x00"}], {"5": "AA=="}),
    (t.Map(t.STRING, t.LONG), "jsonb", [], {}),
]


def test_every_type_has_a_column_and_comes_back_as_it_went(postgres: Server) -> None:
    url = postgres.database()
    schema = tuple(Field(f"c{n}", kind) for n, (kind, *_) in enumerate(VALUES))
    types = {field.name: polars_type(field.type) for field in schema}
    sink = sink_to(url, schema)
    driver = committer(sink)
    values = [value for _, _, value, _ in VALUES]
    frame = pl.DataFrame([values, [None] * len(values)], schema=types, orient="row")
    driver.commit(wrote(sink, frame, 1))
    made = postgres.query(
        url,
        "SELECT format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = 'out'::regclass AND attnum > 0 ORDER BY attnum",
    )
    assert [kind for (kind,) in made] == [kind for _, kind, _, _ in VALUES]
    full, empty = postgres.query(url, "SELECT * FROM out")
    assert list(full) == [expected for *_, expected in VALUES]
    assert list(empty) == [None] * len(VALUES)
    committer(sink)  # The table it made is one it takes.


@pytest.mark.parametrize(
    ("columns", "complaint"),
    [
        ("k text", "it has no column 'n'"),
        ('k text, "N" bigint', "it has no column 'n' \\(but 'N'\\)"),
        ("k text, n integer", "column 'n' is integer, the result's bigint"),
        ("k text, n numeric(10,2)", "column 'n' is numeric\\(10,2\\), the result's bigint"),
        ("k bytea, n bigint", "column 'k' is bytea"),
        ("k integer, n bigint", "column 'k' is integer, the result's string"),
        ("k text, n bigint, more text NOT NULL", "column 'more' must not be null"),
        ("k text, n bigint GENERATED ALWAYS AS IDENTITY", "column 'n' is generated"),
    ],
)
def test_a_table_that_rows_do_not_fit_is_refused_at_start(postgres: Server, columns: str, complaint: str) -> None:
    url = postgres.database()
    postgres.query(url, f"CREATE TABLE out ({columns})")
    with pytest.raises(InvalidQuery, match=complaint):
        committer(sink_to(url))


def test_wider_columns_and_columns_with_defaults_are_taken(postgres: Server) -> None:
    url = postgres.database()
    postgres.query(url, "CREATE TYPE mood AS ENUM ('k1', 'k2')")
    postgres.query(
        url,
        "CREATE TABLE out (id bigint GENERATED ALWAYS AS IDENTITY, k mood, n numeric, at timestamptz NOT NULL DEFAULT now(),"
        " twice numeric GENERATED ALWAYS AS (n * 2) STORED)",
    )
    for sink in (sink_to(url), sink_to(url, commitStrategy="staged", sink="sink-1")):
        committer(sink).commit(wrote(sink, numbers(1, 2), 1))
    assert sorted(postgres.query(url, "SELECT k::text, n, twice FROM out")) == [("k1", 1, 2)] * 2 + [("k2", 2, 4)] * 2


@pytest.mark.parametrize(
    ("setup", "complaint"),
    [
        ("CREATE TABLE out (k text, n bigint)", "no primary key or unique index on exactly"),
        ("CREATE TABLE out (k text, n bigint, PRIMARY KEY (k, n))", "no primary key or unique index on exactly"),
        ("CREATE VIEW out AS SELECT 'a'::text k, 1::bigint n", "is no ordinary table"),
    ],
)
def test_keys_need_a_unique_index_on_a_table(postgres: Server, setup: str, complaint: str) -> None:
    url = postgres.database()
    postgres.query(url, setup)
    with pytest.raises(InvalidQuery, match=complaint):
        committer(upsert_to(url))


def test_a_null_key_is_refused_where_it_would_be_added_again_and_again(postgres: Server) -> None:
    url = postgres.database()
    postgres.query(url, "CREATE TABLE out (k text UNIQUE, n bigint)")
    sink = upsert_to(url)
    committer(sink)
    with pytest.raises(DataError, match=r"key column 'k' of a row for .* is null"):
        writer(sink).write(rows(("a", 1), (None, 2)))


def test_a_missing_table_is_made_only_if_that_is_wanted(postgres: Server) -> None:
    url = postgres.database()
    with pytest.raises(InvalidQuery, match='there is no table "out"') as raised:
        committer(sink_to(url, createTable="false"))
    assert "createTable" in raised.value.hint
    with pytest.raises(InvalidQuery, match='"nowhere" does not exist'):
        committer(sink_to(url, dbtable="nowhere.out"))
    postgres.query(url, "CREATE SCHEMA app")
    sink = upsert_to(url, dbtable='app."Odd Name"')
    committer(sink).commit(wrote(sink, numbers(1), 1))
    assert postgres.query(url, 'SELECT n FROM app."Odd Name"') == [(1,)]
    assert postgres.query(url, "SELECT rows FROM app.tidegate_ledger") == [(1,)]


def test_missing_rights_are_named_with_the_statement_that_gives_them(postgres: Server) -> None:
    url = postgres.database()
    postgres.query(url, "CREATE TABLE out (k text PRIMARY KEY, n bigint)")
    postgres.query(url, "DROP ROLE IF EXISTS guest")
    postgres.query(url, "CREATE ROLE guest LOGIN PASSWORD 'g'")
    database = url.rpartition("/")[2]
    as_guest = postgres.url(database, user="guest", password="g")
    with pytest.raises(InvalidQuery, match="guest lacks the right to INSERT") as raised:
        committer(upsert_to(as_guest))
    postgres.query(url, raised.value.hint)
    with pytest.raises(InvalidQuery, match=r"tidegate_ledger.* cannot be made: permission denied") as raised:
        committer(upsert_to(as_guest))
    postgres.query(url, "CREATE SCHEMA own AUTHORIZATION guest")
    postgres.query(url, "GRANT CREATE ON SCHEMA public TO guest")
    sink = upsert_to(as_guest, ledger="own.ledger")
    committer(sink).commit(wrote(sink, numbers(1), 1))
    assert postgres.query(url, "SELECT n FROM out") == [(1,)]


@pytest.mark.parametrize("strategy", ["prepared", "staged"])
@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        (("longer than five", 1), "value too long .*line 2, column k"),
        (("a", 13), "violates check constraint"),
        (("a", None), "null value in column"),
        (("nul\0", 1), "invalid byte sequence"),
    ],
)
def test_a_row_that_breaks_a_rule_of_the_table_is_found_before_the_checkpoint(
    postgres: Server, strategy: str, row: tuple[str, int | None], complaint: str
) -> None:
    """Later, at the commit, the checkpoint would be complete and its output stuck."""
    url = postgres.database()
    postgres.query(url, "CREATE TABLE out (k varchar(5), n bigint NOT NULL CHECK (n <> 13))")
    sink = sink_to(url, commitStrategy=strategy)
    committer(sink)
    to = writer(sink)
    with pytest.raises(DataError, match=complaint):
        to.write(rows(("ok", 1), row))
        prepared(to, 1)
    to.close()


def test_a_table_that_goes_while_the_query_runs_is_one_clear_error(postgres: Server) -> None:
    url = postgres.database()
    sink = sink_to(url)
    committer(sink)
    postgres.query(url, "DROP TABLE out")
    with pytest.raises(InvalidQuery, match="is not what it was"):
        writer(sink).write(numbers(1))


def test_a_server_without_prepared_transactions_is_refused_with_both_ways_out() -> None:
    with postgres_server(max_prepared_transactions=0) as server:
        url = server.database()
        with pytest.raises(InvalidQuery, match="max_prepared_transactions = 0") as raised:
            committer(sink_to(url))
        assert "max_prepared_transactions = 64" in raised.value.hint and "commitStrategy" in raised.value.hint
        for n, sink in enumerate(
            (sink_to(url, commitStrategy="staged"), upsert_to(url, dbtable="keyed", sink="sink-1"))
        ):
            committer(sink).commit(wrote(sink, numbers(n), 1))
        assert server.query(url, "SELECT n FROM out UNION ALL SELECT n FROM keyed ORDER BY n") == [(0,), (1,)]


def test_more_prepared_transactions_than_the_server_keeps_say_so() -> None:
    with postgres_server(max_prepared_transactions=1) as server:
        sink = sink_to(server.database())
        committer(sink)
        wrote(sink, numbers(1), 1)
        with pytest.raises(Unavailable, match="maximum number of prepared transactions reached") as raised:
            wrote(sink, numbers(2), 1, subtask=1)
        assert "max_prepared_transactions" in raised.value.hint


def test_a_server_that_cannot_be_used_is_named_with_the_reason(postgres: Server) -> None:
    with pytest.raises(InvalidQuery, match="password authentication failed") as raised:
        committer(sink_to(postgres.url(password="wrong")))
    assert "user and password" in raised.value.hint
    with pytest.raises(InvalidQuery, match='database "nowhere" does not exist'):
        committer(sink_to(postgres.url("nowhere")))
    with pytest.raises(InvalidQuery, match="SSL was required"):
        committer(sink_to(postgres.url() + "?sslmode=require"))
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
        with pytest.raises(Unavailable, match=f"127.0.0.1:{port}/x: .*refused"):
            committer(sink_to(f"postgresql://127.0.0.1:{port}/x"))


def test_a_server_that_does_not_answer_is_given_up_in_time(postgres: Server) -> None:
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen()
        url = f"postgresql://127.0.0.1:{deaf.getsockname()[1]}/x"
        with pytest.raises(Unavailable, match="timeout"):
            committer(sink_to(url, connectTimeout=2))


def test_a_password_stands_in_no_message_and_no_plan(postgres: Server) -> None:
    url = postgres.url("nowhere")
    with pytest.raises(InvalidQuery) as raised:
        committer(sink_to(url))
    with pytest.raises(InvalidQuery) as unreadable:
        committer(sink_to(url + "?nonsense=1"))
    as_text = f"host=127.0.0.1 user=tide password='{PASSWORD}' dbname=x".replace("'s", "\\'s")
    plans = [sink_to(url), sink_to(as_text), sink_to("host=h", password=PASSWORD)]
    told = [str(raised.value), str(unreadable.value), *(describe(planned_sink(plan)) for plan in plans)]
    assert len(told) == 5 and not any("secret" in one for one in told)
