"""One query, two engines, the same rows: run it on Tidegate, ask an oracle, compare.

The oracle is Spark batch: over bounded input that is drained, append output equals its multiset of rows, in update mode the last row per
key does, and in complete mode the last result. Where several answers are right, ``admits`` judges the result instead.
"""

from __future__ import annotations

import functools
import itertools
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType
from tests.differential.compare import EXACT, Rules, canonical, difference

import tidegate

Build = Callable[["Sources"], DataFrame]
Admits = Callable[["Sources", list[Any]], str]
QUICK = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.leafNodeDefaultParallelism": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
"""For small jobs over few rows: one task each, no generated code to compile. Answers are the same."""
_numbers = itertools.count()


@contextmanager
def quickly(spark: SparkSession) -> Iterator[None]:
    """``QUICK`` for a while, in a session that others use too."""
    before = {name: spark.conf.get(name, None) for name in QUICK}
    for name, value in QUICK.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, value)


@dataclass(frozen=True)
class Sources:
    """The tables of ``data.write_tables``: streams for Tidegate, batches for the oracle."""

    spark: SparkSession
    root: Path
    streaming: bool

    def table(self, name: str) -> DataFrame:
        reader = self.spark.readStream if self.streaming else self.spark.read
        return reader.schema(_schema(self.root / name)).parquet(str(self.root / name))

    def json(self, name: str, schema: str) -> DataFrame:
        reader = self.spark.readStream if self.streaming else self.spark.read
        return reader.schema(schema).json(str(self.root / name))

    def static(self, name: str) -> DataFrame:
        """Always a batch: the other side of a stream–static join."""
        return self.spark.read.schema(_schema(self.root / name)).parquet(str(self.root / name))

    @property
    def events(self) -> DataFrame:
        return self.table("events")

    @property
    def bids(self) -> DataFrame:
        return self.table("bids")

    def view(self, name: str, of: DataFrame) -> str:
        """A temp view for SQL text; the same name in both runs, each sees its own."""
        of.createOrReplaceTempView(name)
        return name


@functools.cache
def _schema(folder: Path) -> StructType:
    """Read once, without a Spark job: sixty queries ask for it twice each."""
    return from_arrow_schema(pq.read_schema(next(folder.glob("*.parquet"))))


@dataclass(frozen=True)
class Query:
    """A query and how its result is judged.

    ``keys``: in update mode, the columns whose last row counts. ``empty``: it is meant to have no result. ``format``: of the sink.
    """

    name: str
    build: Build
    mode: Literal["append", "update", "complete"] = "append"
    keys: tuple[str, ...] = ()
    rules: Rules = EXACT
    admits: Admits | None = None
    partition_by: tuple[str, ...] = ()
    format: Literal["parquet", "memory", "json"] = "memory"
    empty: bool = False


class Oracle:
    """Answers of Spark batch, each computed once: the same query is run in several ways."""

    def __init__(self, spark: SparkSession, root: Path) -> None:
        self._batch = Sources(spark, root, streaming=False)
        self._answers: dict[str, tuple[list[str], list[tuple[Any, ...]]]] = {}

    def judge(self, query: Query, columns: list[str], actual: list[tuple[Any, ...]]) -> int:
        """Raises AssertionError with a readable difference; returns how many rows were equal."""
        if query.mode == "update":
            actual = last_per_key(columns, actual, query.keys)
        if query.admits is not None:
            problem = query.admits(self._batch, actual)
            assert not problem, problem
            return len(actual)
        wanted, expected = self._answer(query)
        assert wanted == columns, f"columns: expected {wanted}, got {columns}"
        assert expected or query.empty, "the query has no result: it would prove nothing"
        rules = Rules(query.rules.approximate, query.rules.unordered, query.rules.keys or query.keys)
        problem = difference(columns, expected, actual, rules)
        assert not problem, f"Tidegate differs from Spark batch: {problem}"
        return len(expected)

    def _answer(self, query: Query) -> tuple[list[str], list[tuple[Any, ...]]]:
        if query.name not in self._answers:
            with quickly(self._batch.spark):
                answer = query.build(self._batch)
                self._answers[query.name] = (answer.columns, [tuple(row) for row in answer.collect()])
        return self._answers[query.name]


def check(spark: SparkSession, query: Query, root: Path) -> int:
    """One query on Spark's stage, compared: what the corpus test does, for trying a query out."""
    columns, rows = run_tidegate(
        query.build(Sources(spark, root, streaming=True)),
        mode=query.mode,
        partition_by=query.partition_by,
        format=query.format,
    )
    return Oracle(spark, root).judge(query, columns, rows)


def run_tidegate(
    df: DataFrame,
    *,
    mode: str = "append",
    partition_by: tuple[str, ...] = (),
    format: str = "memory",
    parallelism: int = 2,
) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Runs the query to its drained end; its columns and committed rows, in commit order where the sink has one."""
    spark = df.sparkSession
    name = f"differential_{next(_numbers)}"
    with tempfile.TemporaryDirectory(prefix="tidegate-differential-") as scratch:
        writer = (
            tidegate.writeStream(df)
            .format(format)
            .outputMode(mode)
            .queryName(name)
            .option("checkpointLocation", f"{scratch}/checkpoints")
            .option("parallelism", parallelism)
            .option("atEnd", "drain")
            .option("progress", "off")
            .trigger(availableNow=True)
        )
        if partition_by:
            writer = writer.partitionBy(*partition_by)
        query = writer.start() if format == "memory" else writer.start(f"{scratch}/output")
        query.awaitTermination()
        if format == "memory":
            result = spark.table(name)
        elif any(Path(f"{scratch}/output").rglob(f"*.{format}")):
            result = spark.read.schema(df.schema).format(format).load(f"{scratch}/output").select(*df.columns)
        else:
            return df.columns, []
        rows = [tuple(row) for row in result.collect()]
        if format == "memory":
            spark.catalog.dropTempView(name)
    return df.columns, rows


def last_per_key(columns: Sequence[str], rows: list[tuple[Any, ...]], keys: tuple[str, ...]) -> list[tuple[Any, ...]]:
    positions = [columns.index(key) for key in keys]
    return list({tuple(canonical(row[position]) for position in positions): row for row in rows}.values())
