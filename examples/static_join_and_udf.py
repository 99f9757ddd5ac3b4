"""A lookup table and Python functions in a stream. Run it: .venv/bin/python examples/static_join_and_udf.py

The static side is computed by Spark before the stream starts; the functions run inside the slots. A function that raises would
end the query with its own traceback, the operator and the row.
"""

from __future__ import annotations

import tempfile

import pandas as pd
from pyspark.sql import functions as F

import tidegate
from tidegate.connectors.nexmark.datasource import register

folder = tempfile.mkdtemp(prefix="tidegate-join-")
spark = tidegate.local_session("join")
register(spark)

bids = spark.readStream.format("tidegate-nexmark").option("table", "bid").option("events", 50_000).load()
fees = spark.createDataFrame([("Google", 0.05), ("Apple", 0.30), ("Baidu", 0.02)], "channel string, fee double")


@F.udf("string")
def tidy(channel):
    return channel.strip().lower()


@F.pandas_udf("double")
def in_euros(price: pd.Series) -> pd.Series:
    return (price * 0.908 / 100).round(2)


charged = (
    bids.join(F.broadcast(fees), "channel")
    .withColumn("euros", in_euros("price"))
    .select(tidy("channel").alias("channel"), "auction", (F.col("euros") * F.col("fee")).alias("charge"))
)
totals = charged.groupBy("channel").agg(F.count("*").alias("bids"), F.round(F.sum("charge"), 2).alias("charge"))

query = (
    tidegate.writeStream(totals)
    .format("memory")
    .queryName("totals")
    .outputMode("update")  # every change of a group; the last row of each is the current one
    .option("checkpointLocation", f"{folder}/checkpoints")
    .trigger(availableNow=True)
    .start()
)
query.awaitTermination()

current = spark.sql(
    "SELECT channel, max_by(charge, bids) AS charge, max(bids) AS bids FROM totals GROUP BY channel ORDER BY channel"
)
current.show()
assert current.count() == 3
