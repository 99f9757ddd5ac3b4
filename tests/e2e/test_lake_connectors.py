"""Whole queries into Delta and Iceberg tables, as their pages show them, and into tables of Spark's catalogue."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog
from pyspark.sql import DataFrame, SparkSession
from tests.e2e.scenario import ROOT, assert_same_rows

import tidegate
from tidegate.model.errors import InvalidQuery

pytestmark = pytest.mark.spark

SCHEMA = "id bigint, region string, amount decimal(12,2), at timestamp"


class Shop:
    """Orders in files: more of them with every run of a page's example."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark = spark
        self.folder = folder
        self.orders_path = str(folder / "orders")
        self._sold = 0

    def sell(self, count: int) -> None:
        rows = self.spark.range(self._sold, self._sold + count, numPartitions=1).selectExpr(
            "id",
            "concat('r', id % 3) AS region",
            "cast(id / 7 AS decimal(12,2)) AS amount",
            "timestamp_seconds(1700000000 + id) AS at",
        )
        self._sold += count
        rows.write.mode("append").parquet(self.orders_path)

    def sold(self) -> DataFrame:
        return self.spark.read.schema(SCHEMA).parquet(self.orders_path)

    def orders(self) -> DataFrame:
        return self.spark.readStream.schema(SCHEMA).parquet(self.orders_path)

    def run(self, page: str, **names: Any) -> None:
        (example,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs/connectors" / page).read_text(), re.DOTALL)
        known = {"orders": self.orders(), "checkpoints": str(self.folder / "checkpoints"), **names}
        exec(compile(example, page, "exec"), known)

    def keeps_up(self, run: Callable[[], None], read: Callable[[], list[dict[str, Any]]]) -> None:
        """Every row once, also of those that come after a restart."""
        for _ in range(2):
            self.sell(60)
            run()
            found = sorted(read(), key=lambda row: row["id"])
            assert [row["id"] for row in found] == list(range(self._sold))
            expected = self.sold().orderBy("id").toPandas()
            assert [row["amount"] for row in found] == list(expected["amount"])
            assert [row["region"] for row in found] == list(expected["region"])


@pytest.fixture
def shop(spark: SparkSession, tmp_path: Path) -> Shop:
    return Shop(spark, tmp_path)


def test_the_example_of_the_delta_page_keeps_a_table_up_to_date(shop: Shop) -> None:
    table = str(shop.folder / "table")
    shop.keeps_up(lambda: shop.run("delta.md", table=table), lambda: DeltaTable(table).to_pyarrow_table().to_pylist())
    made = DeltaTable(table)
    assert made.metadata().partition_columns == ["region"] and made.version() >= 2
    assert not [path for path in (shop.folder / "table/_tidegate").rglob("*") if path.is_file()]


def test_the_example_of_the_iceberg_page_keeps_a_table_up_to_date(shop: Shop) -> None:
    names = {"catalog": f"sqlite:///{shop.folder}/catalog.db", "warehouse": f"file://{shop.folder}/warehouse"}

    def read() -> list[dict[str, Any]]:
        catalog = load_catalog("default", type="sql", uri=names["catalog"], warehouse=names["warehouse"])
        return catalog.load_table("shop.orders").scan().to_arrow().to_pylist()

    shop.keeps_up(lambda: shop.run("iceberg.md", **names), read)


def test_a_table_of_sparks_catalogue_is_made_and_written(shop: Shop, spark: SparkSession) -> None:
    """With partitions and without; Spark reads it by its name, as it reads what its own toTable writes."""
    spark.sql(f"CREATE DATABASE lake_test LOCATION '{shop.folder}/warehouse'")
    try:
        for name, keys in (("plain", ()), ("divided", ("region",))):
            shop.sell(40)
            query = (
                tidegate.writeStream(shop.orders())
                .partitionBy(*keys)
                .trigger(availableNow=True)
                .toTable(f"lake_test.{name}", checkpointLocation=str(shop.folder / f"checkpoints-{name}"))
            )
            query.awaitTermination(180)
            spark.sql(f"REFRESH TABLE lake_test.{name}")
            written = spark.table(f"lake_test.{name}").select("id", "region", "amount", "at")
            assert assert_same_rows(written, shop.sold()) == shop.sold().count()
        started = tidegate.writeStream(shop.orders()).option("checkpointLocation", str(shop.folder / "other"))
        with pytest.raises(InvalidQuery, match="is made of parquet, but the query writes json"):
            started.format("json").toTable("lake_test.plain")
        with pytest.raises(InvalidQuery, match=r"partitionBy names id, but the table lake_test.divided is partitioned"):
            started.format("parquet").partitionBy("id").toTable("lake_test.divided")
        narrow = tidegate.writeStream(shop.orders().selectExpr("cast(id AS int) AS id", "region", "amount AS sum"))
        with pytest.raises(
            InvalidQuery, match=r"sum is not there; amount is missing .* id is int here and bigint there"
        ):
            narrow.option("checkpointLocation", str(shop.folder / "other")).toTable("lake_test.plain")
        with pytest.raises(InvalidQuery, match="format 'memory' writes no tables"):
            started.partitionBy().format("memory").toTable("lake_test.plain")
        with pytest.raises(InvalidQuery, match=r"there is no table 'lake_test.new' in Spark's catalogue"):
            started.format("delta").toTable("lake_test.new")
    finally:
        spark.sql("DROP DATABASE lake_test CASCADE")
