"""The smallest query: JSON files in, Parquet files out, exactly once. Run it: .venv/bin/python examples/quickstart.py"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from pyspark.sql import functions as F

import tidegate

folder = Path(tempfile.mkdtemp(prefix="tidegate-quickstart-"))
(folder / "in").mkdir()
for day, temperatures in (("mon", [3, 5, 8]), ("tue", [4, 9, 12])):
    lines = (json.dumps({"day": day, "celsius": celsius}) for celsius in temperatures)
    (folder / "in" / f"{day}.json").write_text("\n".join(lines))

spark = tidegate.local_session("quickstart")  # on a cluster: the session you have
readings = spark.readStream.schema("day string, celsius int").json(str(folder / "in"))
warm = readings.where("celsius >= 5").select("day", (F.col("celsius") * 9 / 5 + 32).alias("fahrenheit"))

query = (
    tidegate.writeStream(warm)  # instead of warm.writeStream
    .format("parquet")
    .option("checkpointLocation", str(folder / "checkpoints"))
    .trigger(availableNow=True)  # leave this out and it runs for ever
    .start(str(folder / "out"))
)
query.awaitTermination()

result = spark.read.parquet(str(folder / "out")).orderBy("day", "fahrenheit")
result.show()
assert result.count() == 4
