"""Whole queries into PostgreSQL, into the user's function and into the user's data source, as their pages show them."""

from __future__ import annotations

import re
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from tests.e2e.scenario import ROOT, assert_same_rows, while_active
from tests.servers.postgres import Server

import tidegate
from tidegate.model.errors import UserCodeFailed

pytestmark = pytest.mark.spark

SCHEMA = "customer string, amount bigint"


class Shop:
    """Orders in files: more of them with every run of the page's example."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark = spark
        self.orders_path = str(folder / "orders")
        self.names = {name: str(folder / name) for name in ("checkpoints", "output")}
        Path(self.names["output"]).mkdir()
        self._sold = 0

    def sell(self, count: int) -> None:
        rows = [(f"c{n % 7}", n) for n in range(self._sold, self._sold + count)]
        self._sold += count
        self.spark.createDataFrame(rows, SCHEMA).coalesce(1).write.mode("append").json(self.orders_path)

    def sold(self) -> DataFrame:
        return self.spark.read.schema(SCHEMA).json(self.orders_path)

    def orders(self) -> DataFrame:
        return self.spark.readStream.schema(SCHEMA).json(self.orders_path)

    def run(self, page: str, example: int = 0, **names: Any) -> dict[str, Any]:
        """What the example has defined."""
        examples = re.findall(r"```python\n(.*?)```", (ROOT / "docs/connectors" / page).read_text(), re.DOTALL)
        # Classes of a notebook or a script live in __main__, and travel by value.
        known = {"__name__": "__main__", "spark": self.spark, "orders": self.orders(), **self.names, **names}
        exec(compile(examples[example], page, "exec"), known)
        return known


@pytest.fixture
def shop(spark: SparkSession, tmp_path: Path) -> Shop:
    return Shop(spark, tmp_path)


def test_the_example_of_the_postgres_page_keeps_a_table_up_to_date(shop: Shop, postgres: Server) -> None:
    url = postgres.database()
    postgres.query(url, "CREATE SCHEMA shop")
    for _ in range(2):
        shop.sell(50)
        shop.run("postgres.md", url=url)
        found = postgres.query(url, "SELECT customer, total FROM shop.totals")
        expected = shop.sold().groupBy("customer").sum("amount").collect()
        assert sorted(found) == sorted(tuple(row) for row in expected) and len(found) == 7
    assert postgres.query(url, "SELECT count(*) FROM pg_prepared_xacts") == [(0,)]


def test_the_example_of_the_foreach_batch_page_writes_every_row_once(shop: Shop, spark: SparkSession) -> None:
    for run in range(2):
        shop.sell(50)
        shop.run("foreach-batch.md")
        written = spark.read.parquet(shop.names["output"])
        assert assert_same_rows(written.select("customer", "amount"), shop.sold()) == 50 * (run + 1)
        assert written.select("batch").distinct().count() >= run + 1


def test_the_recipe_of_the_foreach_batch_page_is_right_over_repetitions_savepoints_and_forks(
    shop: Shop, tmp_path: Path
) -> None:
    """T76: run, savepoint, run on; a second location goes on from the savepoint into the same target, which skips what it has noted."""
    database, saved = tmp_path / "target.db", str(tmp_path / "saved")
    shop.sell(50)
    save = shop.run("foreach-batch.md", example=1, database=database)["save"]
    calls: list[tuple[str, int]] = []

    def watched(batch: DataFrame, batch_id: int) -> None:
        save(batch, batch_id)
        calls.append((tidegate.batch().name, batch_id))
        if len(calls) > 1 and calls[-1][0] != calls[-2][0]:
            raise ValueError("the target has the rows, and the answer is lost")

    def start(location: str, **options: str) -> Any:
        writer = tidegate.writeStream(shop.orders()).foreachBatch(watched).trigger(checkpoint="300 ms")
        return writer.option("checkpointLocation", str(tmp_path / location)).options(**options).start()

    def written() -> Counter[int]:
        with closing(sqlite3.connect(database)) as target:
            return Counter(amount for (amount,) in target.execute("SELECT amount FROM orders"))

    first = start("first")
    while_active(first, lambda: len(written()) == 50, "the first fifty")
    first.savepoint(saved)
    shop.sell(50)
    while_active(first, lambda: len(written()) == 100, "the second fifty")
    first.stop()
    assert {batch for _, batch in calls} == set(range(len(set(calls))))
    assert written() == Counter(range(100))

    second = start("second", startFrom=saved)
    with pytest.raises(UserCodeFailed, match="the answer is lost"):
        second.awaitTermination(180)
    shop.sell(50)
    second = start("second")
    while_active(second, lambda: len(written()) == 150, "the third fifty")
    second.stop()
    names = list(dict.fromkeys(name for name, _ in calls))
    of_second = [batch for name, batch in calls if name == names[1]]
    assert len(names) == 2 and of_second[:2] == [0, 0], "another name, ids from 0, and the call that raised is repeated"
    assert set(of_second) & {batch for name, batch in calls if name == names[0]}, "a target that goes by ids would skip"
    # Both have gone on from the savepoint, so what follows it is there from both: each batch once, and none is missing.
    assert written() == Counter({n: 2 if 50 <= n < 100 else 1 for n in range(150)})


def test_the_function_runs_its_jobs_while_the_slots_run_on(shop: Shop, spark: SparkSession) -> None:
    """Batches too large to travel inside the checkpoint are read by Spark's executors from the location, and leave it afterwards."""
    seen: dict[int, tuple[int, int]] = {}
    stored: list[set[Path]] = []

    def waiting() -> set[Path]:
        return set(Path(shop.names["checkpoints"]).glob("batches/*/waiting/*"))

    def first_have_gone() -> bool:
        first = next((files for files in stored if files), None)
        return first is not None and not first & waiting()

    def save(batch: DataFrame, batch_id: int) -> None:
        stored.append(waiting())
        found = batch.agg(F.count("*"), F.sum(F.length("noise"))).first()
        assert found is not None
        seen[batch_id] = (found[0], found[1])

    rates = spark.readStream.format("rate").option("rowsPerSecond", 4_000).load()
    noisy = rates.select("value", F.sha2(F.col("value").cast("string"), 512).alias("noise"))
    writer = tidegate.writeStream(noisy).foreachBatch(save).trigger(checkpoint="500 ms")
    query = writer.option("checkpointLocation", shop.names["checkpoints"]).start()
    try:
        done = "two batches, and the rows of the first that travelled by file are deleted"
        while_active(query, lambda: len(seen) >= 2 and first_have_gone(), done, timeout_s=240)
        assert query.snapshot().restarts == 0
    finally:
        query.stop()
    assert list(seen) == sorted(seen), "one checkpoint after the other"
    assert all(count and characters == 128 * count for count, characters in seen.values())


def test_an_error_of_the_function_reaches_the_user_and_the_batch_comes_again(shop: Shop) -> None:
    shop.sell(20)
    seen: list[tuple[int, list[int]]] = []

    def save(batch: DataFrame, batch_id: int) -> None:
        seen.append((batch_id, sorted(row.amount for row in batch.collect())))
        if len(seen) == 1:
            raise ValueError("the warehouse is closed")

    def query() -> Any:
        writer = tidegate.writeStream(shop.orders()).foreachBatch(save).trigger(availableNow=True)
        return writer.option("checkpointLocation", shop.names["checkpoints"]).start()

    with pytest.raises(UserCodeFailed, match=r"ValueError: the warehouse is closed") as raised:
        query().awaitTermination(180)
    assert f"batch {seen[0][0]}" in str(raised.value) and __file__ in str(raised.value)
    shop.sell(5)
    again = query()
    again.awaitTermination(180)
    assert seen[1] == seen[0] and seen[0][1] == list(range(20))
    assert [amount for _, amounts in seen[2:] for amount in amounts] == list(range(20, 25))
    assert "at_least_once" in again.explain_text()


def test_the_example_of_the_python_sink_page_writes_every_row_once(shop: Shop) -> None:
    for run in range(2):
        shop.sell(50)
        shop.run("python-sink.md")
        lines = [line for path in Path(shop.names["output"]).glob("*.csv") for line in path.read_text().splitlines()]
        assert sorted(lines) == sorted(f"{row.customer},{row.amount}" for row in shop.sold().collect())
        assert len(lines) == 50 * (run + 1)
    assert not list(Path(shop.names["output"]).glob("_*"))
