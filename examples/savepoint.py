"""Move a running query: stop it with a savepoint, start it elsewhere from there. Run it: .venv/bin/python examples/savepoint.py

The second query has another checkpoint location and another number of slots; the open window of the first one goes on in it.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import tidegate

folder = Path(tempfile.mkdtemp(prefix="tidegate-savepoint-"))
spark = tidegate.local_session("savepoint", cores=2)


def write_minutes(minutes: range) -> None:
    """One event per second of these minutes, as a file that the stream will find."""
    seconds = spark.range(minutes.start * 60, minutes.stop * 60)
    events = seconds.select(F.timestamp_seconds("id").alias("at"), (F.col("id") % 3).alias("door"))
    events.coalesce(1).write.mode("append").parquet(str(folder / "in"))


def visits(events: DataFrame) -> DataFrame:
    return events.withWatermark("at", "0 seconds").groupBy(F.window("at", "10 minutes"), "door").count()


def start(location: str, **options: object) -> tidegate.StreamingQuery:
    stream = spark.readStream.schema("at timestamp, door long").parquet(str(folder / "in"))
    writer = tidegate.writeStream(visits(stream)).format("parquet").option("checkpointLocation", str(folder / location))
    return writer.options(**options).start(str(folder / "out"))


write_minutes(range(15))
query = start("old place")
query.processAllAvailable()
saved = query.stop(savepoint=str(folder / "saved"))
print(f"stopped; the window from minute 10 on is open, in {saved}")

write_minutes(range(15, 31))
query = start("new place", startFrom=saved, startFromMode="claim", parallelism=1)
query.processAllAvailable()
query.stop()

found = spark.read.parquet(str(folder / "out")).orderBy("window.start", "door").select("window.start", "door", "count")
found.show(truncate=False)
assert [row["count"] for row in found.collect()] == [200] * 9, "three doors, three closed windows of 600 seconds"
spark.stop()
