"""Event time: sliding windows over bids, from SQL text. Run it: .venv/bin/python examples/windows.py"""

from __future__ import annotations

import tempfile

import tidegate
from tidegate.connectors.nexmark.datasource import register

folder = tempfile.mkdtemp(prefix="tidegate-windows-")
spark = tidegate.local_session("windows")
register(spark)

# A generator of auction bids; any source with a timestamp column will do.
bids = spark.readStream.format("tidegate-nexmark").option("table", "bid").option("events", 200_000).load()
bids.withWatermark("date_time", "2 seconds").createOrReplaceTempView("bids")
busiest = spark.sql("""
    SELECT window.start AS start, auction, count(*) AS bids, max(price) AS top
    FROM bids GROUP BY window(date_time, '10 seconds', '5 seconds'), auction HAVING count(*) > 50
""")

query = (
    tidegate.writeStream(busiest)
    .format("memory")  # committed rows as a temp view named like the query
    .queryName("busiest")
    .outputMode("append")
    .option("checkpointLocation", f"{folder}/checkpoints")
    .option("atEnd", "drain")  # close the last windows when the input ends, so that the result equals a batch query's
    .trigger(availableNow=True)
    .start()
)
query.explain()
query.awaitTermination()

spark.sql("SELECT * FROM busiest ORDER BY bids DESC LIMIT 5").show(truncate=False)
assert spark.table("busiest").count() > 0
