"""Queries from every source into every sink, stopped in the middle: what a version stores for each of them.

Every source yields numbers from 0 that rise by one, and a query writes some of them: a target has each once, or it does not.
Only PySpark's names, ``tidegate.writeStream`` and registrations are used, so that every version can run it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from tests.golden import users_code
from tests.golden.world import PLACE, with_time

import tidegate
from tidegate.connectors import kafka
from tidegate.connectors.nexmark import datasource as nexmark

FILE_ROWS = (1_500, 60_000, 60_000)
"""The first file is read to its end early; the others are open when the golden checkpoint is taken."""
STEP_MS = 50
EVERY = 20
"""One row of so many is written: archives stay small."""
SCHEMA = "ts timestamp, v bigint"
KAFKA_ROWS = 600
"""What is in the topic before the query starts; as many come later."""


@dataclass(frozen=True)
class Servers:
    """Addresses of what a case needs; empty: it needs none."""

    postgres: str = ""
    kafka: str = ""


def _none() -> None:
    """No input of files."""


@dataclass(frozen=True)
class Case:
    """One query. ``numbers``: what the target holds."""

    rows: Callable[[SparkSession, Servers], DataFrame]
    write: Callable[[Any, Servers, str], Any]
    """``run`` is a new name for everything that starts from a savepoint."""
    numbers: Callable[[SparkSession, Servers], list[int]]
    write_input: Callable[[], None] = _none
    packed_input: bool = False
    """Its bytes depend on the version of a library."""
    stands: str = ""
    """The server that the target stands in."""
    endless: bool = False
    wanted: Callable[[list[int]], list[int]] = lambda found: list(range(0, sum(FILE_ROWS), EVERY))
    """What the target holds at the end."""
    repeats: bool = False
    """The target promises each row at least once."""

    @property
    def has_files(self) -> bool:
        return self.write_input is not _none


# --- sources --------------------------------------------------------------------------------------------------------------


def _numbered() -> Iterator[tuple[int, range]]:
    first = 0
    for number, rows in enumerate(FILE_ROWS):
        yield number, range(first, first + rows)
        first += rows


def _at(row: int) -> str:
    minutes, rest = divmod(row * STEP_MS, 60_000)
    hours, minutes = divmod(minutes, 60)
    return f"2024-01-01T{hours:02}:{minutes:02}:{rest / 1_000:06.3f}Z"


def write_lines(form: str, line: Callable[[int], str]) -> Callable[[], None]:
    def write() -> None:
        directory = PLACE / "in"
        directory.mkdir(parents=True, exist_ok=True)
        for number, rows in _numbered():
            (directory / f"{number}.{form}").write_text("".join(map(line, rows)))

    return write


def write_parquet() -> None:
    directory = PLACE / "in"
    directory.mkdir(parents=True, exist_ok=True)
    for number, rows in _numbered():
        times = pa.array([1_704_067_200_000_000 + row * STEP_MS * 1_000 for row in rows], pa.timestamp("us", "UTC"))
        table = pa.table({"ts": times, "v": pa.array(rows, pa.int64())})
        pq.write_table(table, directory / f"{number}.parquet", row_group_size=5_000)


write_json = write_lines("json", lambda row: f'{{"ts":"{_at(row)}","v":{row}}}\n')
write_csv = write_lines("csv", lambda row: f"{_at(row)},{row}\n")
write_text = write_lines("txt", lambda row: f"{row}\n")


def few(rows: DataFrame) -> DataFrame:
    return rows.where(f"v % {EVERY} = 0")


def from_files(form: str) -> Callable[[SparkSession, Servers], DataFrame]:
    def rows(spark: SparkSession, _: Servers) -> DataFrame:
        return few(spark.readStream.schema(SCHEMA).format(form).load(str(PLACE / "in"))).select("v")

    return rows


def from_parquet(spark: SparkSession, _: Servers) -> DataFrame:
    """Its times are known before it is read, and there is state."""
    rows = few(with_time(spark.readStream.schema(SCHEMA).parquet(str(PLACE / "in"))))
    return rows.dropDuplicates(["ts", "v"]).select("v")


def from_text(spark: SparkSession, _: Servers) -> DataFrame:
    return few(
        spark.readStream.format("text").load(str(PLACE / "in")).selectExpr("CAST(value AS bigint) AS v")
    ).selectExpr("CAST(v AS string) AS value")


def from_rate(spark: SparkSession, _: Servers) -> DataFrame:
    return spark.readStream.format("rate").option("rowsPerSecond", 10).load().selectExpr("value AS v")


def from_nexmark(spark: SparkSession, _: Servers) -> DataFrame:
    nexmark.register(spark)
    rows = spark.readStream.format("tidegate-nexmark").options(table="auction", events=400_000, partitions=2).load()
    return few(rows.selectExpr("id - 1000 AS v"))


def from_python(spark: SparkSession, _: Servers) -> DataFrame:
    spark.dataSource.register(users_code.Counter)
    return spark.readStream.format("golden-counter").option("rows", 6_000).load()


def from_kafka(spark: SparkSession, servers: Servers) -> DataFrame:
    kafka.register(spark)
    reader = spark.readStream.format("tidegate-kafka").option("kafka.bootstrap.servers", servers.kafka)
    rows = reader.option("subscribe", "golden-in").option("startingOffsets", "earliest").load()
    return rows.selectExpr("CAST(value AS string) AS value")


def produce(bootstrap: str, numbers: range) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    for number in numbers:
        producer.produce("golden-in", str(number).encode(), partition=number % 2)
    assert producer.flush(60) == 0


# --- sinks ----------------------------------------------------------------------------------------------------------------

OUT = PLACE / "out"


def into_files(form: str) -> Callable[[Any, Servers, str], Any]:
    return lambda df, _, run: tidegate.writeStream(df).format(form).option("path", str(OUT))


def numbers_in_files(form: str, column: str = "v") -> Callable[[SparkSession, Servers], list[int]]:
    def numbers(spark: SparkSession, _: Servers) -> list[int]:
        schema = "value string" if form == "text" else "v bigint"
        rows = spark.read.schema(schema).format(form).load(str(OUT)).selectExpr(f"CAST({column} AS bigint) AS v")
        return sorted(row.v for row in rows.collect())

    return numbers


def into_delta(df: DataFrame, _: Servers, run: str) -> Any:
    return tidegate.writeStream(df).format("delta").option("path", str(OUT))


def numbers_in_delta(_: SparkSession, __: Servers) -> list[int]:
    from deltalake import DeltaTable

    return sorted(DeltaTable(str(OUT)).to_pyarrow_table()["v"].to_pylist())


CATALOG = {"type": "sql", "uri": f"sqlite:///{OUT}/catalog.db", "warehouse": f"file://{OUT}/warehouse"}


def into_iceberg(df: DataFrame, _: Servers, run: str) -> Any:
    OUT.mkdir(exist_ok=True)
    options = {f"catalog.{name}": value for name, value in CATALOG.items()}
    return tidegate.writeStream(df).format("iceberg").options(path="db.t", **options)


def numbers_in_iceberg(_: SparkSession, __: Servers) -> list[int]:
    from pyiceberg.catalog import load_catalog

    return sorted(load_catalog("default", **CATALOG).load_table("db.t").scan().to_arrow()["v"].to_pylist())


def into_function(df: DataFrame, _: Servers, run: str) -> Any:
    """A batch that comes again takes the place of what it left behind."""

    def put(batch: DataFrame, batch_id: int) -> None:
        directory = OUT / run
        directory.mkdir(parents=True, exist_ok=True)
        (directory / f"{batch_id}.json").write_text(json.dumps(sorted(row.v for row in batch.collect())))

    return tidegate.writeStream(df).foreachBatch(put)


def numbers_of_batches(_: SparkSession, __: Servers) -> list[int]:
    return sorted(number for path in OUT.glob("*/*.json") for number in json.loads(path.read_text()))


def into_rows(df: DataFrame, _: Servers, run: str) -> Any:
    OUT.mkdir(exist_ok=True)
    return tidegate.writeStream(df).foreach(users_code.Lines(str(OUT)))


def into_python(df: DataFrame, _: Servers, run: str) -> Any:
    df.sparkSession.dataSource.register(users_code.Numbers)
    OUT.mkdir(exist_ok=True)
    return tidegate.writeStream(df).format("golden-numbers").option("folder", str(OUT))


def numbers_in_lines(_: SparkSession, __: Servers) -> list[int]:
    return sorted(int(line) for path in OUT.glob("visible/*") for line in path.read_text().split())


def into_postgres(**options: str) -> Callable[[Any, Servers, str], Any]:
    def write(df: DataFrame, servers: Servers, run: str) -> Any:
        writer = tidegate.writeStream(df).format("postgres").options(url=servers.postgres, dbtable="numbers", **options)
        return writer.outputMode("update") if options else writer

    return write


def numbers_in_postgres(_: SparkSession, servers: Servers) -> list[int]:
    import psycopg

    with psycopg.connect(servers.postgres) as connection:
        return sorted(row[0] for row in connection.execute("SELECT v FROM numbers").fetchall())


def into_kafka(df: DataFrame, servers: Servers, run: str) -> Any:
    writer = tidegate.writeStream(df).format("kafka").option("kafka.bootstrap.servers", servers.kafka)
    return writer.option("topic", "golden-out")


def numbers_in_kafka(_: SparkSession, servers: Servers) -> list[int]:
    from tests.servers.kafka import Reading

    reading = Reading(servers.kafka, "golden-out")
    try:
        found = reading.until(2 * KAFKA_ROWS, 30) + reading.rest()
    finally:
        reading.close()
    return sorted(int(message.value() or b"") for message in found)


def slowly(frames: Any) -> Any:
    for frame in frames:
        time.sleep(0.05)
        yield frame


def so_far(found: list[int]) -> list[int]:
    """Without a gap, in each of two splits: one may be ahead of the other."""
    newest = [max((number for number in found if number % 2 == split), default=-1) for split in (0, 1)]
    return [number for split in (0, 1) for number in range(split, newest[split] + 1, 2)]


CASES: dict[str, Case] = {
    "json-delta": Case(from_files("json"), into_delta, numbers_in_delta, write_json),
    "csv-json": Case(from_files("csv"), into_files("json"), numbers_in_files("json"), write_csv),
    "text-text": Case(from_text, into_files("text"), numbers_in_files("text", "value"), write_text),
    "parquet-iceberg": Case(from_parquet, into_iceberg, numbers_in_iceberg, write_parquet, packed_input=True),
    "json-csv": Case(from_files("json"), into_files("csv"), numbers_in_files("csv"), write_json),
    "rate-parquet": Case(from_rate, into_files("parquet"), numbers_in_files("parquet"), endless=True, wanted=so_far),
    "nexmark-foreachBatch": Case(
        from_nexmark, into_function, numbers_of_batches, wanted=lambda _: list(range(0, 24_000, EVERY))
    ),
    "python-python": Case(from_python, into_python, numbers_in_lines, wanted=lambda _: list(range(6_000))),
    "json-foreach": Case(from_files("json"), into_rows, numbers_in_lines, write_json, repeats=True),
    "json-postgres": Case(from_files("json"), into_postgres(), numbers_in_postgres, write_json, stands="postgres"),
    "csv-postgres-upsert": Case(
        from_files("csv"), into_postgres(keys="v"), numbers_in_postgres, write_csv, stands="postgres"
    ),
    "kafka-kafka": Case(
        from_kafka, into_kafka, numbers_in_kafka, stands="kafka", wanted=lambda _: list(range(2 * KAFKA_ROWS))
    ),
}


def writer(
    spark: SparkSession, name: str, servers: Servers, run: str = "first", *, slow: bool = False, **options: object
) -> Any:
    """``slow``: input that is there takes some seconds. No operator has another name or other state for that."""
    case = CASES[name]
    rows = case.rows(spark, servers)
    if slow and case.stands != "kafka":
        rows = rows.mapInPandas(slowly, rows.schema)
    if slow:
        options["batchRowsMax"] = 40
    made = case.write(rows, servers, run)
    return made.options(**{"parallelism": 2, **options})


def new_run() -> str:
    return f"run-{uuid4().hex}"


def wait_until(ready: Callable[[], bool], seconds: float = 100) -> None:
    until = time.monotonic() + seconds
    while not ready():
        assert time.monotonic() < until, "it takes too long"
        time.sleep(0.05)


def files_below(directory: Path) -> list[Path]:
    return [path for path in directory.rglob("*") if path.is_file()]
