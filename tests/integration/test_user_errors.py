"""A function of the user that raises: their traceback first, then operator and row, and the query ends when it happens again."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import tidegate
from tidegate.connectors.nexmark.datasource import register
from tidegate.model.errors import UserCodeFailed

pytestmark = pytest.mark.spark
ROWS = 1_000_000


def test_one_row_in_a_million_is_named_and_the_second_time_ends_the_query(spark: SparkSession, tmp_path: Path) -> None:
    register(spark)
    bids = (
        spark.readStream.format("tidegate-nexmark").options(table="bid", events=str(ROWS * 50 // 46), seed="5").load()
    )
    batch = spark.read.format("tidegate-nexmark").options(table="bid", events=str(ROWS * 50 // 46), seed="5").load()
    target = batch.orderBy(F.desc("price"), "bidder", "url").select("price", "bidder", "url").first()
    assert target is not None
    bad = (target.price, target.bidder, target.url)

    @F.udf("long")
    def picky(price, bidder, url):
        if (price, bidder, url) == bad:
            raise RuntimeError("cannot digest this bid")
        return price

    query = (
        tidegate.writeStream(bids.select(picky("price", "bidder", "url").alias("price")))
        .format("noop")
        .option("checkpointLocation", str(tmp_path / "checkpoints"))
        .trigger(availableNow=True)
        .start()
    )
    with pytest.raises(UserCodeFailed) as failure:
        query.awaitTermination(240)
    text = failure.value.message
    assert text.startswith("Traceback (most recent call last):")
    assert "in picky" in text
    assert "RuntimeError: cannot digest this bid" in text
    assert "in user function picky(price, bidder, url)" in text
    assert f"price={target.price}" in text
    assert target.url in text
    assert "org.apache.spark" not in text
    assert [failed.attempt for failed in query.recoveries] == [1, 2], "tried once more, then it is terminal"
