"""Programs with ``StatefulProcessor`` and ``GroupState`` written from PySpark's documentation run unchanged on both engines.

The oracle is Spark's own streaming engine. Rows are equal as multisets. Two effects of micro-batches are taken out of the comparison, not
of the programs: a program that reports its state once per call (``LAST_PER``) is compared by the last row per key, because how many calls there are
depends on how rows are cut; and a ``SENTINEL`` far in the future moves the watermark past everything else, because an engine that
works in batches sees a new watermark only in its next one.
"""

from __future__ import annotations

import importlib
import json
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from pyspark import cloudpickle
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from tests.differential.harness import last_per_key

import tidegate

pytestmark = pytest.mark.spark
PROGRAMS = sorted(path.stem for path in (Path(__file__).parent / "stateful_programs").glob("*.py"))
ROCKSDB_STORE = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
LIVE_TIMEOUT_S = 300.0
SPARK_TRIES = 4


@pytest.fixture(scope="module", autouse=True)
def rocksdb_store(spark: SparkSession):
    """Spark keeps the state of transformWithState in no other store."""
    spark.conf.set("spark.sql.streaming.stateStore.providerClass", ROCKSDB_STORE)
    yield
    spark.conf.unset("spark.sql.streaming.stateStore.providerClass")


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_gives_the_same_on_both_engines(spark: SparkSession, tmp_path: Path, name: str) -> None:
    program = importlib.import_module(f"tests.differential.stateful_programs.{name}")
    # As a notebook or a script would: its classes are not on the workers' path.
    cloudpickle.register_pickle_by_value(program)
    files = tmp_path / "input"
    files.mkdir()
    rows = [*program.ROWS, *([program.SENTINEL] if hasattr(program, "SENTINEL") else [])]
    (files / "rows.json").write_text("\n".join(map(json.dumps, rows)))
    frame = program.query(spark.readStream.schema(program.SCHEMA).json(str(files)))
    expected = judged(program, frame, on_spark(program, frame, tmp_path))
    actual = judged(program, frame, on_tidegate(program, frame, tmp_path))
    assert expected, "a program without a result proves nothing"
    assert actual == expected


def test_there_are_at_least_ten_programs_with_every_feature() -> None:
    text = "\n".join((Path(__file__).parent / "stateful_programs" / f"{name}.py").read_text() for name in PROGRAMS)
    assert (
        sum(
            "StatefulProcessor" in importlib.import_module(f"tests.differential.stateful_programs.{name}").__dict__
            for name in PROGRAMS
        )
        >= 10
    )
    for feature in (
        "getValueState", "getListState", "getMapState", "ttlDurationMs", '"ProcessingTime"', '"EventTime"', "handleInitialState",
        "handleExpiredTimer", "deleteTimer", "listTimers", "transformWithStateInPandas", "transformWithState(", "applyInPandasWithState",
        "eventTimeColumnName",
    ):  # fmt: skip
        assert feature in text, feature


def judged(program: ModuleType, frame: DataFrame, rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    keys = getattr(program, "LAST_PER", ())
    return sorted(last_per_key(frame.columns, rows, keys) if keys else rows, key=repr)


def on_spark(program: ModuleType, frame: DataFrame, scratch: Path) -> list[tuple[Any, ...]]:
    """Spark starts a Python process for every micro-batch and gives it ten seconds: on a busy machine that takes another try."""
    for again in range(SPARK_TRIES):
        name = f"spark_{program.__name__.rpartition('.')[2]}_{again}"
        writer = frame.writeStream.format("memory").queryName(name).outputMode(mode_of(program))
        writer = writer.option("checkpointLocation", str(scratch / name))
        if hasattr(program, "LIVE_ROWS"):
            writer = writer.trigger(processingTime="2 seconds")
        try:
            return finished(program, frame, name, writer)
        except StreamingQueryException as error:
            if "connect back" not in str(error) or again == SPARK_TRIES - 1:
                raise
    return []


def on_tidegate(program: ModuleType, frame: DataFrame, scratch: Path) -> list[tuple[Any, ...]]:
    name = f"tidegate_{program.__name__.rpartition('.')[2]}"
    writer = tidegate.writeStream(frame).format("memory").queryName(name).outputMode(mode_of(program))
    writer = writer.option("checkpointLocation", str(scratch / "tidegate")).option("progress", "off")
    writer = writer.option("parallelism", 2)
    if hasattr(program, "LIVE_ROWS"):
        writer = writer.trigger(checkpoint="300ms")
    return finished(program, frame, name, writer)


def finished(program: ModuleType, frame: DataFrame, name: str, writer: Any) -> list[tuple[Any, ...]]:
    """To the end of the input; with timers in processing time, until all rows are there: Spark's availableNow never ends with them."""
    spark = frame.sparkSession
    live = getattr(program, "LIVE_ROWS", None)
    query = (writer if live is not None else writer.trigger(availableNow=True)).start()
    try:
        if live is None:
            query.awaitTermination()
        else:
            wait_for(lambda: query.exception() is not None or spark.table(name).count() >= live)
        if (error := query.exception()) is not None:
            raise error
        return [tuple(row) for row in spark.table(name).collect()]
    finally:
        query.stop()


def wait_for(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + LIVE_TIMEOUT_S
    while not condition():
        assert time.monotonic() < until, "the rows have not come"
        time.sleep(2.0)  # Looking is a Spark job of its own, and Spark gives its Python processes ten seconds to start.


def mode_of(program: ModuleType) -> str:
    return (
        "update"
        if hasattr(program, "LAST_PER") or program.__name__.endswith(("running_count", "downtime_detector"))
        else "append"
    )
