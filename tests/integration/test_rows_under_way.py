"""A changed query and a checkpoint whose barriers overtook rows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from tests.golden import world

from tidegate.model.errors import InvalidQuery

pytestmark = pytest.mark.spark
LOCATION = Path(__file__).parents[1] / "golden" / "13a88b1" / "overtaken.tar.xz"
"""Rows wait in front of a function of the user, in the middle of the input."""


def changed(rows: DataFrame) -> DataFrame:
    """The same result; the function reads one more column."""

    def seen(frames: Iterator[Any]) -> Iterator[Any]:
        yield from frames

    wider = world.with_time(rows).withColumn("again", F.col("v") + 1)
    shown = wider.repartition(2, "k").mapInPandas(seen, f"{world.SCHEMA}, again bigint")
    return shown.select("ts", "k", (F.col("again") * 2 - 2).alias("double"))


def test_a_changed_query_gives_up_exactly_the_rows_under_way_and_says_how_many(
    spark: SparkSession, caplog: pytest.LogCaptureFixture
) -> None:
    with world.place():
        world.unpack(LOCATION)
        rows = world.rows_of(spark, streaming=True)

        def writer(query: DataFrame, **options: object) -> Any:
            place = {"checkpointLocation": str(world.PLACE / "ck"), "atEnd": "drain"}
            return world.writer(query, "overtaken", **place, **options).trigger(availableNow=True)

        with pytest.raises(InvalidQuery, match=r"with \d+ rows on their way to sink-parquet") as refused:
            writer(changed(rows)).start()
        assert 'option("inFlightRows", "drop")' in refused.value.hint
        with caplog.at_level("WARNING", logger="tidegate"):
            assert writer(changed(rows), inFlightRows="drop").start().awaitTermination(120)
        said = re.search(
            r"(\d+) rows on their way to sink-parquet in checkpoint \S+ of attempt \d+ are given up", caplog.text
        )
        assert said is not None
        shown = world.comparable(spark.read.parquet(str(world.PLACE / "overtaken")))
        whole = world.expected(spark, "overtaken")
        assert len(set(shown)) == len(shown) and set(shown) < set(whole)
        assert len(whole) - len(shown) == int(said[1]) > 0


def test_the_query_that_was_running_gets_its_rows_back_although_they_may_be_dropped(spark: SparkSession) -> None:
    with world.place():
        world.unpack(LOCATION)
        rows = world.rows_of(spark, streaming=True)
        options = {"checkpointLocation": str(world.PLACE / "ck"), "atEnd": "drain", "inFlightRows": "drop"}
        running = world.writer(world.overtaken(rows), "overtaken", **options).trigger(availableNow=True).start()
        assert running.awaitTermination(120)
        shown = world.comparable(spark.read.parquet(str(world.PLACE / "overtaken")))
        assert shown == world.expected(spark, "overtaken")
