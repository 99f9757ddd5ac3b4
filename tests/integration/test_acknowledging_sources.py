"""Python data sources that acknowledge: ``commit`` and ``stop`` of PySpark's stream readers."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition, SimpleDataSourceStreamReader

import tidegate
from tidegate.model.errors import TidegateError

pytestmark = pytest.mark.spark


class Queue(DataSource):
    """Numbers below the one in the file ``until``. Writes down every call of the driver, with what the output shows at that moment."""

    @classmethod
    def name(cls) -> str:
        return "acknowledged_queue"

    def schema(self) -> str:
        return "n long"

    def streamReader(self, schema: Any) -> DataSourceStreamReader:
        return QueueReader(Path(self.options["place"]))


class QueueReader(DataSourceStreamReader):
    def __init__(self, place: Path) -> None:
        self._place = place

    def _note(self, call: str, **more: Any) -> None:
        shown = ds.dataset(self._place / "out", format="parquet").to_table() if (self._place / "out").exists() else None
        visible = sorted(shown["n"].to_pylist()) if shown is not None and shown.num_rows else []
        with (self._place / "calls").open("a") as calls:
            calls.write(json.dumps({"call": call, "reader": id(self), "visible": visible, **more}) + "\n")

    def initialOffset(self) -> dict[str, int]:
        return {"n": 0}

    def latestOffset(self, start: dict[str, int], limit: Any) -> dict[str, int]:
        return {"n": int((self._place / "until").read_text())}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        return [InputPartition(list(range(start["n"] + part, end["n"], 2))) for part in range(2)]

    def read(self, partition: InputPartition) -> Iterator[tuple[int]]:
        for number in partition.value:
            yield (number,)

    def commit(self, end: dict[str, int]) -> None:
        if (self._place / "refuse").exists():
            raise ValueError("the queue does not take it")
        self._note("commit", end=end["n"])

    def stop(self) -> None:
        self._note("stop")


class SimpleQueue(Queue):
    @classmethod
    def name(cls) -> str:
        return "simple_queue"

    def streamReader(self, schema: Any) -> DataSourceStreamReader:
        return DataSource.streamReader(self, schema)  # pyright: ignore[reportArgumentType]

    def simpleStreamReader(self, schema: Any) -> SimpleDataSourceStreamReader:
        return SimpleReader(Path(self.options["place"]))


class SimpleReader(SimpleDataSourceStreamReader):
    def __init__(self, place: Path) -> None:
        self._queue = QueueReader(place)

    def initialOffset(self) -> dict[str, int]:
        return {"n": 0}

    def read(self, start: dict[str, int]) -> tuple[Iterator[tuple[int]], dict[str, int]]:
        end = self._queue.latestOffset(start, None)
        return self.readBetweenOffsets(start, end), end

    def readBetweenOffsets(self, start: dict[str, int], end: dict[str, int]) -> Iterator[tuple[int]]:
        return ((number,) for number in range(start["n"], end["n"]))

    def commit(self, end: dict[str, int]) -> None:
        self._queue.commit(end)


def start(spark: SparkSession, place: Path, source: type[DataSource] = Queue, **options: str) -> Any:
    spark.dataSource.register(source)
    if not (place / "until").exists():
        let_grow(place, 35)
    writer = tidegate.writeStream(spark.readStream.format(source.name()).option("place", str(place)).load())
    writer = writer.format("parquet").option("path", str(place / "out"))
    for name, value in {"checkpointLocation": str(place / "ck"), "discoveryInterval": "50ms", **options}.items():
        writer = writer.option(name, value)
    return writer


def let_grow(place: Path, until: int) -> None:
    """Whoever reads the file meanwhile finds the old number or the new one."""
    (place / "new").write_text(str(until))
    (place / "new").replace(place / "until")


def calls(place: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (place / "calls").read_text().splitlines()]


def commits(place: Path) -> list[dict[str, Any]]:
    return [one for one in calls(place) if one["call"] == "commit"]


def assert_only_visible_rows_are_acknowledged(place: Path) -> None:
    for one in commits(place):
        assert set(range(one["end"])) <= set(one["visible"]), f"rows below {one['end']} are acknowledged too early"


@pytest.mark.parametrize("source", [Queue, SimpleQueue])
def test_a_source_hears_what_is_visible_and_at_the_end_of_a_bounded_run_all_of_it(
    spark: SparkSession, tmp_path: Path, source: type[DataSource]
) -> None:
    query = start(spark, tmp_path, source).trigger(availableNow=True).start()
    assert query.awaitTermination(120)
    assert_only_visible_rows_are_acknowledged(tmp_path)
    assert commits(tmp_path)[-1]["end"] == 35
    # As in Spark, a simple reader is not told that the query is over.
    assert calls(tmp_path)[-1]["call"] == ("stop" if source is Queue else "commit")


def test_a_source_is_stopped_before_the_next_attempt_makes_its_own(spark: SparkSession, tmp_path: Path) -> None:
    query = start(spark, tmp_path).trigger(checkpoint="200 milliseconds").start()
    query.processAllAvailable()
    os.kill(query.snapshot().pids[0], signal.SIGKILL)
    let_grow(tmp_path, 70)
    query.processAllAvailable()
    let_grow(tmp_path, 95)
    query.processAllAvailable()
    query.stop()
    assert_only_visible_rows_are_acknowledged(tmp_path)
    assert sorted(row.n for row in spark.read.parquet(str(tmp_path / "out")).collect()) == list(range(95))
    told = calls(tmp_path)
    ends = [one["end"] for one in told if one["call"] == "commit"]
    assert ends == sorted(ends)
    stopped: set[int] = set()
    for one in told:
        assert one["reader"] not in stopped, "a reader is called after its stop()"
        stopped |= {one["reader"]} if one["call"] == "stop" else set()
    assert told[-1]["call"] == "stop"


def test_a_commit_that_raises_ends_the_query_with_the_words_of_the_source(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "refuse").touch()
    query = start(spark, tmp_path).trigger(checkpoint="200 milliseconds").start()
    with pytest.raises(TidegateError, match=r"(?s)the queue does not take it.*in commit\(.*\) on the driver") as failed:
        query.awaitTermination(120)
    assert "acknowledged_queue" in failed.value.message
    (tmp_path / "refuse").unlink()
    again = start(spark, tmp_path).trigger(availableNow=True).start()
    assert again.awaitTermination(120)
    assert sorted(row.n for row in spark.read.parquet(str(tmp_path / "out")).collect()) == list(range(35))
    assert commits(tmp_path)[-1]["end"] == 35
