"""Small seeded tables for random queries, as files for the stream and as local rows for Spark batch."""

from __future__ import annotations

import datetime
import decimal
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from tests.differential.data import KEYS, dealt
from tests.differential.fuzz.terms import BOOLEAN, DATE, DECIMAL, DOUBLE, LONG, STRING, STRINGS, TIMESTAMP

COLUMNS = {
    "id": LONG,
    "k": STRING,
    "g": LONG,
    "a": LONG,
    "p": DOUBLE,
    "c": DECIMAL,
    "f": BOOLEAN,
    "ts": TIMESTAMP,
    "d": DATE,
    "t": STRING,
    "tags": STRINGS,
}
SCHEMA = "id bigint, k string, g int, a bigint, p double, c decimal(12,2), f boolean, ts timestamp, d date, t string, tags array<string>"
ARROW = pa.schema(
    [
        ("id", pa.int64()),
        ("k", pa.string()),
        ("g", pa.int32()),
        ("a", pa.int64()),
        ("p", pa.float64()),
        ("c", pa.decimal128(12, 2)),
        ("f", pa.bool_()),
        ("ts", pa.timestamp("us", "UTC")),
        ("d", pa.date32()),
        ("t", pa.string()),
        ("tags", pa.list_(pa.string())),
    ]
)
LABELS = [(0, "zero", 10), (1, "one", 20), (1, "uno", 21), (3, None, 30), (None, "none", 40)]
START = datetime.datetime(2026, 3, 1, 23, 59, 30, tzinfo=datetime.UTC)


def rows(seed: int, count: int) -> list[dict[str, Any]]:
    """Times with microseconds, some at a full second, some null; doubles are dyadic."""
    random = Random(seed)

    def maybe(value: Any, nulls: float = 0.12) -> Any:
        return None if random.random() < nulls else value

    def moment(number: int) -> datetime.datetime:
        made = START + datetime.timedelta(microseconds=700_000 * number - random.randrange(4_000_000))
        return made.replace(microsecond=0) if random.random() < 0.2 else made

    return [
        {
            "id": number,
            "k": maybe(random.choice(KEYS[:5])),
            "g": maybe(random.randrange(-1, 5)),
            "a": maybe(random.randrange(-1_000, 1_000)),
            "p": maybe(random.choice((0.0, -0.0, 1.5, -2.25, 1024.125, float("nan"), float("inf")))),
            "c": maybe(decimal.Decimal(random.randrange(-(10**6), 10**6)).scaleb(-2)),
            "f": maybe(random.random() < 0.5),
            "ts": maybe(moment(number), nulls=0.03),
            "d": maybe(datetime.date(2023, 12, 25) + datetime.timedelta(days=random.randrange(800))),
            "t": maybe(f"{random.choice(KEYS)} {random.choice(('the Quick', 'naïve', '', '12'))}"),
            "tags": maybe([maybe(random.choice(KEYS)) for _ in range(random.randrange(4))]),
        }
        for number in range(count)
    ]


@dataclass(frozen=True)
class Tables:
    """Written once, read by any number of programs. Every file covers the whole time, its rows in random order."""

    seed: int
    events: list[dict[str, Any]]
    more: list[dict[str, Any]]

    def of(self, name: str) -> list[dict[str, Any]]:
        return self.events if name == "events" else self.more

    def write(self, root: Path) -> None:
        for name in ("events", "more"):
            folder = root / name
            folder.mkdir(parents=True)
            for number, piece in enumerate(dealt(Random(self.seed), self.of(name), count=3)):
                pq.write_table(pa.Table.from_pylist(piece, schema=ARROW), folder / f"part-{number}.parquet")


def tables(seed: int) -> Tables:
    random = Random(seed)
    return Tables(seed, rows(seed, random.randint(30, 90)), rows(seed + 1, random.randint(0, 40)))


class FuzzSources:
    """``s`` in a program: streams of files, or the same rows as a local batch, with which Spark needs no job to read them."""

    def __init__(self, spark: SparkSession, of: Tables, root: Path | None) -> None:
        self._spark = spark
        self._of = of
        self._root = root
        self._batches: dict[str, DataFrame] = {}

    def table(self, name: str) -> DataFrame:
        if self._root is not None:
            return self._spark.readStream.schema(SCHEMA).parquet(str(self._root / name))
        if name not in self._batches:
            # An Arrow table becomes a local relation: projections of it need no Spark job.
            self._batches[name] = self._spark.createDataFrame(
                pa.Table.from_pylist(self._of.of(name), schema=ARROW), SCHEMA
            )
        return self._batches[name]

    def static(self, name: str) -> DataFrame:
        assert name == "labels", name
        if name not in self._batches:
            columns = zip(*LABELS, strict=True)
            made = pa.table(dict(zip(("g", "label", "weight"), map(list, columns), strict=True)))
            self._batches[name] = self._spark.createDataFrame(made, "g bigint, label string, weight bigint")
        return self._batches[name]
