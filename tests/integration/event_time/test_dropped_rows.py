"""Which rows each operator drops: Structured Streaming and Tidegate side by side, over files that bring untidy rows.

Each file is one micro-batch of Spark, and both engines rest before the next one appears: so both know the same when they judge it.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StatefulProcessor
from tests.differential.harness import quickly

import tidegate

ROCKSDB_STORE = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
SCHEMA = "id bigint, k string, ts timestamp, v bigint"
DELAY = "10 seconds"
FILES: tuple[tuple[tuple[int, str, float | None], ...], ...] = (
    ((1, "a", 1_000.0), (2, "b", 995.5), (3, "c", 1_000.0), (4, "d", 31.0)),
    # The watermark stands at 990 s: rows at it are late by their event time, and not by their window.
    (
        (10, "a", 500.0),
        (11, "e", 500.0),
        (12, "f", 989.999999),
        (13, "g", 990.0),
        (14, "h", 990.0003),
        (15, "i", 990.001),
        (16, "j", 2_000.0),
        (17, "k", None),
        (18, "l", 979.0),
    ),
    # Now at 1,990 s.
    (
        (20, "m", 1_000.0),
        (21, "n", 1_990.0),
        (22, "o", 1_999.0),
        (23, "a", 2_100.0),
        (24, "p", None),
        (25, "b", 1_985.0),
    ),
    ((30, "q", 2_050.0), (31, "r", 2_100.0)),
)
"""Id, key, seconds. No key comes twice in a file."""
OLD = ((-50.0, 1), (0.0, 2), (0.0005, 3))
_numbers = itertools.count()


@dataclass(frozen=True)
class Query:
    """``build`` gets the rows with a watermark, and the same rows without one."""

    build: Callable[[DataFrame, DataFrame], DataFrame]
    mode: str = "append"


def windows(rows: DataFrame, _: DataFrame) -> DataFrame:
    return rows.groupBy(F.window("ts", "10 seconds"), "id").count()


def sessions(rows: DataFrame, _: DataFrame) -> DataFrame:
    return rows.groupBy(F.session_window("ts", "5 seconds"), "id").count()


def renamed(rows: DataFrame) -> DataFrame:
    return rows.selectExpr("id as r_id", "k as r_k", "ts as r_ts")


def joined(how: str, *, timed: bool = True) -> Callable[[DataFrame, DataFrame], DataFrame]:
    near = "id = r_id and r_ts between ts - interval 5 seconds and ts + interval 5 seconds"

    def build(rows: DataFrame, plain: DataFrame) -> DataFrame:
        return rows.join(renamed(rows if timed else plain), F.expr(near), how)

    return build


class Ids(StatefulProcessor):
    """Lets every row pass: what is missing was dropped."""

    def init(self, handle: Any) -> None:
        pass

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:
        for frame in rows:
            yield frame[["id"]]

    def close(self) -> None:
        pass


def ids(key: Any, frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
    for frame in frames:
        yield frame[["id"]]


def applied(timeout: str) -> Query:
    return Query(
        lambda rows, _: rows.groupBy("k").applyInPandasWithState(ids, "id long", "n long", "append", timeout),
    )


def transformed(mode: str) -> Query:
    return Query(lambda rows, _: rows.groupBy("k").transformWithStateInPandas(Ids(), "id long", "append", mode))


QUERIES = {
    "windows, append": Query(windows),
    "windows, update": Query(windows, "update"),
    "windows, complete": Query(windows, "complete"),
    "groups by event time": Query(lambda rows, _: rows.groupBy("ts", "id").count(), "update"),
    "groups without event time": Query(lambda rows, _: rows.groupBy("id").count(), "update"),
    "sessions, append": Query(sessions),
    "sessions, complete": Query(sessions, "complete"),
    "dropDuplicates by key and time": Query(lambda rows, _: rows.dropDuplicates(["k", "ts"])),
    "dropDuplicates by key": Query(lambda rows, _: rows.dropDuplicates(["k"])),
    "dropDuplicatesWithinWatermark": Query(lambda rows, _: rows.dropDuplicatesWithinWatermark(["k"])),
    "distinct": Query(lambda rows, _: rows.select("k", "ts").distinct(), "update"),
    "inner join": Query(joined("inner")),
    "inner join with a side without watermark": Query(joined("inner", timed=False)),
    "left outer join": Query(joined("left")),
    "left semi join": Query(joined("left_semi")),
    "applyInPandasWithState in event time": applied("EventTimeTimeout"),
    "applyInPandasWithState without time": applied("NoTimeout"),
    "transformWithState in event time": transformed("EventTime"),
    "transformWithState without time": transformed("None"),
}
STATES = {
    "windows, append": "stateStoreSave",
    "sessions, append": "sessionWindowStateStoreSaveExec",
    "dropDuplicates by key": "dedupe",
    "dropDuplicatesWithinWatermark": "dedupeWithinWatermark",
    "inner join": "symmetricHashJoin",
    "applyInPandasWithState in event time": "applyInPandasWithState",
    "transformWithState in event time": "transformWithStateInPandasExec",
}


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> Iterator[SparkSession]:
    with quickly(spark):
        spark.conf.set("spark.sql.streaming.stateStore.providerClass", ROCKSDB_STORE)
        yield spark
        spark.conf.unset("spark.sql.streaming.stateStore.providerClass")


@pytest.mark.parametrize("name", list(QUERIES))
def test_the_same_rows_are_dropped_and_as_many_are_reported(session: SparkSession, tmp_path: Path, name: str) -> None:
    """T26: row by row, and the last report holds all of them."""
    query = QUERIES[name]
    spark_rows, spark_late, spark_names = run(session, query, tmp_path / "spark", lambda df: df.writeStream)
    rows, late, names = run(session, query, tmp_path / "tidegate", chosen)
    assert rows == spark_rows
    assert late == spark_late
    assert names == spark_names
    if name in STATES:
        assert names == [STATES[name]]


def test_rows_before_1970_are_kept(session: SparkSession, tmp_path: Path) -> None:
    """In Structured Streaming the watermark begins at 0 and drops them. Here it begins nowhere."""
    lines = [{"id": number, "k": f"k{number}", "ts": moment(at), "v": 0} for at, number in OLD]
    query = Query(lambda rows, _: rows.dropDuplicates(["k"]))
    rows, late, _ = run(session, query, tmp_path, chosen, [lines])
    assert (len(rows), late) == (len(OLD), 0)


def test_the_last_report_of_a_run_is_final_and_totals_go_on_in_the_next_one(
    session: SparkSession, tmp_path: Path
) -> None:
    """T26: late stays late over starts, and is counted with the state."""
    source = tmp_path / "in"
    source.mkdir()
    told: list[tuple[int, int, int]] = []
    for number, times in enumerate(((1_000.0,), (500.0, 1_001.0, 501.0), (502.0,), ())):
        put(tmp_path, source, number, list(lines(tuple((10 * number + i, f"k{i}", at) for i, at in enumerate(times)))))
        rows = session.readStream.schema(SCHEMA).json(str(source)).withWatermark("ts", DELAY)
        writer = chosen(rows.dropDuplicates(["id"])).format("parquet").trigger(availableNow=True)
        running = writer.option("checkpointLocation", str(tmp_path / "ck")).start(str(tmp_path / "out"))
        assert running.awaitTermination(120)
        (operator,) = running.lastProgress["stateOperators"]
        custom = operator["customMetrics"]
        of_reports = sum(one["stateOperators"][0]["numRowsDroppedByWatermark"] for one in running.recentProgress)
        told.append((of_reports, custom["rowsDroppedByWatermarkSinceStart"], custom["rowsDroppedByWatermarkTotal"]))
        assert operator["id"].startswith("deduplicate") and operator["memoryUsedBytes"] > 0
    assert told == [(0, 0, 0), (2, 2, 2), (1, 1, 3), (0, 0, 3)]


def chosen(df: DataFrame) -> Any:
    return tidegate.writeStream(df).option("parallelism", 2).option("discoveryInterval", "100 ms")


def run(
    spark: SparkSession, query: Query, folder: Path, writer: Callable[[DataFrame], Any], files: Any = None
) -> tuple[list[str], int, list[str]]:
    """Rows of the result, sorted; how many rows were reported as dropped; the operators with state."""
    source = folder / "in"
    source.mkdir(parents=True)
    plain = spark.readStream.schema(SCHEMA).json(str(source))
    df = query.build(plain.withWatermark("ts", DELAY), plain)
    name = f"dropped_{next(_numbers)}"
    chosen = writer(df).outputMode(query.mode).format("memory").queryName(name)
    running = chosen.option("checkpointLocation", str(folder / "checkpoints")).start()
    try:
        for number, rows in enumerate(files or [list(lines(file)) for file in FILES]):
            put(folder, source, number, rows)
            running.processAllAvailable()
        found = sorted(str(row) for row in spark.table(name).collect())
    finally:
        running.stop()
    spark.catalog.dropTempView(name)
    reports = running.recentProgress
    late = sum(one["numRowsDroppedByWatermark"] for report in reports for one in report["stateOperators"])
    if isinstance(running, tidegate.StreamingQuery):
        totals = [one["customMetrics"] for one in running.lastProgress["stateOperators"]]  # type: ignore[index]
        assert late == sum(one["rowsDroppedByWatermarkSinceStart"] for one in totals)
    return found, late, [one["operatorName"] for one in reports[-1]["stateOperators"]]


def lines(file: tuple[tuple[int, str, float | None], ...]) -> Iterator[dict[str, object]]:
    for number, key, at in file:
        yield {"id": number, "k": key, "ts": None if at is None else moment(at), "v": number * 2}


def moment(seconds: float) -> str:
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)).isoformat()


def put(folder: Path, source: Path, number: int, rows: list[dict[str, object]]) -> None:
    """At once, and later than the file before it."""
    staged = folder / f"{number}.json"
    staged.write_text("".join(json.dumps(row) + "\n" for row in rows))
    os.utime(staged, (1_750_000_000 + number, 1_750_000_000 + number))
    staged.rename(source / staged.name)
