"""Several queries as one job: the bids are read once and every query publishes the same part of them. Run it: .venv/bin/python examples/several_queries.py"""

from __future__ import annotations

import tempfile

import tidegate
from tidegate.connectors.nexmark.datasource import register

folder = tempfile.mkdtemp(prefix="tidegate-job-")
spark = tidegate.local_session("several-queries")
register(spark)

bids = spark.readStream.format("tidegate-nexmark").option("table", "bid").option("events", 100_000).load()
bids.withWatermark("date_time", "2 seconds").createOrReplaceTempView("bids")
queries = {
    "per_window": "SELECT window.start, count(*) AS bids FROM bids GROUP BY window(date_time, '1 second')",
    "dear": "SELECT auction, bidder, price FROM bids WHERE price > 5000000",
}

job = tidegate.Job(
    "auctions", checkpointLocation=f"{folder}/checkpoints"
)  # one location for all, a directory per pipeline
for name, text in queries.items():
    job.add(tidegate.writeStream(spark.sql(text)).queryName(name).format("memory"))
running = job.option("atEnd", "drain").trigger(availableNow=True).start()

running.query("dear").explain()  # one stage reads the bids, and both queries read that stage
running.awaitTermination()

for name in queries:
    print(name, spark.table(name).count(), "rows")
assert len(running.queries) == 1  # they share a source: one pipeline, one coordinator, one consistent cut
assert spark.sql("SELECT sum(bids) FROM per_window").first()[0] == 92_000
