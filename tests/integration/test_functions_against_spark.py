"""Every function from SQL to its values: translated from Spark's optimised plan, evaluated here, compared with Spark row by row.

The guards of an expression say which rows are in error. Spark must agree on both sides: over the other rows it gives
equal values, and on the rows in error it raises the same error class. Cases stand in ``function_cases/``, one per line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from tests.differential.harness import quickly
from tests.integration.expression_rows import FRAME, SPARK_SCHEMA, TABLE
from tests.integration.function_cases import collections, moments, numbers, strings
from tests.integration.translated_sql import Answer, evaluate, plain_values, same

from tidegate.model import types as t
from tidegate.model.types import Field
from tidegate.operators.columns import from_arrow

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

BATCH = 60
"""Cases per query: a session is slow to plan and fast to compute."""
UTC, NEW_YORK = "UTC", "America/New_York"


def _lines(text: str) -> list[str]:
    return text.strip().splitlines()


INEXACT = _lines(numbers.INEXACT)
PLAIN = [*_lines(strings.CASES), *_lines(numbers.CASES), *INEXACT, *_lines(collections.CASES)]
ZONED = _lines(moments.CASES)
CASES = [(sql, UTC) for sql in (*PLAIN, *ZONED)] + [(sql, NEW_YORK) for sql in ZONED]


@dataclass(frozen=True)
class Inputs:
    """The same rows twice: as a table for Spark, as a stream for Tidegate."""

    table: DataFrame
    stream: DataFrame


@pytest.fixture(scope="module")
def inputs(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Inputs:
    path: Path = tmp_path_factory.mktemp("functions") / "rows"
    spark.createDataFrame(TABLE, SPARK_SCHEMA).coalesce(1).write.parquet(str(path))
    return Inputs(
        spark.read.schema(SPARK_SCHEMA).parquet(str(path)), spark.readStream.schema(SPARK_SCHEMA).parquet(str(path))
    )


@pytest.fixture(scope="module")
def answers(spark: SparkSession, inputs: Inputs) -> Iterator[dict[tuple[str, str], tuple[Answer, list[Any] | str]]]:
    before = {key: spark.conf.get(key) for key in ("spark.sql.session.timeZone", "spark.sql.ansi.enabled")}
    spark.conf.set("spark.sql.ansi.enabled", "true")
    result: dict[tuple[str, str], tuple[Answer, list[Any] | str]] = {}
    for zone in (UTC, NEW_YORK):
        spark.conf.set("spark.sql.session.timeZone", zone)
        sqls = [sql for sql, of in CASES if of == zone]
        for start in range(0, len(sqls), BATCH):
            batch = sqls[start : start + BATCH]
            ours = evaluate(inputs.stream, batch)
            for sql, mine, theirs in zip(batch, ours, _theirs(inputs.table, batch, ours), strict=True):
                result[sql, zone] = (mine, theirs)
    yield result
    for key, value in before.items():
        spark.conf.set(key, value)


def _theirs(table: DataFrame, sqls: list[str], ours: list[Answer]) -> list[list[Any] | str]:
    """Spark evaluates only the branch that a row takes: rows that we say are in error are asked about separately."""
    columns = [
        f"if(id in ({', '.join(map(str, answer.failed)) or '-1'}), null, {sql}) as v{n}"
        for n, (sql, answer) in enumerate(zip(sqls, ours, strict=True))
    ]
    try:
        return _collected(table, columns, ours)
    except (PySparkException, Py4JJavaError):
        return [_alone(table, column, answer) for column, answer in zip(columns, ours, strict=True)]


def _collected(table: DataFrame, columns: list[str], ours: list[Answer]) -> list[list[Any] | str]:
    fields = [Field(f"v{n}", answer.type) for n, answer in enumerate(ours)]
    rows = table.selectExpr("id", *columns).toArrow()
    frame = from_arrow(rows, (Field("id", t.INTEGER), *fields)).sort("id")
    return [plain_values(frame[field.name]) for field in fields]


def _alone(table: DataFrame, column: str, answer: Answer) -> list[Any] | str:
    try:
        return _collected(table, [re.sub(r" as v\d+$", " as v0", column)], [answer])[0]
    except (PySparkException, Py4JJavaError) as error:
        return f"Spark raises where we do not: {str(error)[:300]}"


@pytest.mark.parametrize(("sql", "zone"), CASES, ids=[f"{sql} [{zone}]" for sql, zone in CASES])
def test_a_function_equals_spark(
    answers: dict[tuple[str, str], tuple[Answer, list[Any] | str]], sql: str, zone: str
) -> None:
    mine, theirs = answers[sql, zone]
    if isinstance(theirs, str):
        pytest.fail(theirs)
    different = [
        f"{_values_of(sql, row)} → ours {a!r}, Spark's {b!r}"
        for row, (a, b) in enumerate(zip(mine.values, theirs, strict=True))
        if row not in mine.failed and not same(a, b, inexact=sql in INEXACT)
    ]
    assert not different, "\n".join(different[:12])
    assert len(mine.failed) < FRAME.height or sql.startswith("raise"), "every row is in error: nothing was compared"


def test_where_we_raise_spark_raises_the_same(
    answers: dict[tuple[str, str], tuple[Answer, list[Any] | str]], inputs: Inputs, spark: SparkSession
) -> None:
    spark.conf.set("spark.sql.session.timeZone", UTC)
    wrong = []
    with quickly(spark):
        for (sql, zone), (mine, _) in answers.items():
            if zone != UTC or not mine.failed or sql in OUR_CALENDAR_ENDS_EARLIER:
                continue
            row, error = next(iter(mine.failed.items()))
            if other := _other_than(error, inputs.table.where(f"id = {row}").selectExpr(f"{sql} as v")):
                wrong.append(f"{sql} of {_values_of(sql, row)}: we say {error}, Spark {other}")
    assert not wrong, "\n".join(wrong)


def _other_than(error: str, asked: DataFrame) -> str:
    """What Spark does instead of raising ``error``; nothing if it does."""
    try:
        return f"gives {asked.toArrow()['v'][0]}"
    except PySparkException as raised:
        condition = str(raised.getCondition())
        return "" if condition.split(".")[0] == error else f"raises {condition}"
    except Py4JJavaError:
        return ""  # An exception of Java's own library, which has no class of Spark's.


OUR_CALENDAR_ENDS_EARLIER = frozenset({"timestampadd(HOUR, l, ts)", "timestampadd(DAY, l, ts)"})
"""Spark goes on to the year 294247 where we stop, with an error, in 262142."""


def _values_of(sql: str, row: int) -> dict[str, Any]:
    used = [name for name in FRAME.columns if re.search(rf"\b{name}\b", sql)]
    return FRAME.select(used).row(row, named=True) if used else {}
