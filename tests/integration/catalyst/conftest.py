"""Streams that the tests translate, and a short way to do it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader

from tidegate.catalyst.translate import SinkRequest, Translation, translate
from tidegate.model.output_mode import OutputMode
from tidegate.plan.relational import Plan, Sink

Translate = Callable[..., Sink]


class NoRows(DataSourceStreamReader):
    def initialOffset(self) -> dict:
        return {"at": 0}

    def latestOffset(self) -> dict:
        return {"at": 0}

    def partitions(self, start: dict, end: dict) -> list:
        return []

    def read(self, partition: object) -> object:
        return iter(())


class Bids(DataSource):
    @classmethod
    def name(cls) -> str:
        return "catalyst_bids"

    def schema(self) -> str:
        return "auction bigint, bidder bigint, price bigint, channel string, url string, date_time timestamp"

    def streamReader(self, schema: object) -> NoRows:
        return NoRows()


@pytest.fixture(scope="session")
def bids(spark: SparkSession) -> DataFrame:
    spark.dataSource.register(Bids)
    frame = spark.readStream.format("catalyst_bids").option("eventsPerSecond", 100).load()
    frame.createOrReplaceTempView("catalyst_bid")
    return frame


@pytest.fixture(scope="session")
def timed(bids: DataFrame) -> DataFrame:
    return bids.withWatermark("date_time", "4 seconds")


@pytest.fixture(scope="session")
def files(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> DataFrame:
    directory: Path = tmp_path_factory.mktemp("files")
    return (
        spark.readStream.schema("id long, kind string, at timestamp")
        .option("maxFilesPerTrigger", 1)
        .json(str(directory))
    )


def translation(frame: DataFrame, mode: str = "append", *, format: str = "memory", **sink: object) -> Translation:
    return translate(frame, mode=OutputMode(mode), sink=SinkRequest(format, **sink))  # type: ignore[arg-type]


@pytest.fixture(scope="session")
def plan_of() -> Translate:
    return lambda frame, mode="append": translation(frame, mode).plan


@pytest.fixture(scope="session")
def translated() -> Callable[..., Translation]:
    return translation


@pytest.fixture(scope="session")
def shape_of() -> Callable[[Plan], list[str]]:
    """Class names from the sink down, first inputs first."""

    def shape(plan: Plan) -> list[str]:
        return [type(plan).__name__, *(name for child in plan.inputs for name in shape(child))]

    return shape
