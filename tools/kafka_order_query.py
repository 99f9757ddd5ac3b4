"""The driver process of ``tools/kafka_order.py``: one query copies a topic, one counts its keys in output mode update."""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from storm_driver import FOLDER, NAME, SILENCE, put_result, run_to_end
from storm_processes import COULD_NOT_START

import tidegate
from tidegate.connectors.kafka import register
from tidegate.model.errors import Unavailable
from tidegate.spark.session import local_session

SLOTS, NAP_S = 2, 0.1
"""Of a query; and after each of its batches, if it is not to be over before there was time to kill it."""


def main() -> int:
    logging.basicConfig(format=f"%(asctime)s {NAME} %(levelname)s %(name)s: %(message)s")
    logging.getLogger("tidegate").setLevel(logging.INFO)
    work = json.loads((FOLDER / "work.json").read_text())
    spark = local_session("tidegate-kafka-order", cores=4)
    register(spark)
    try:
        queries = {
            "copy": started("copy", source(spark, work), work),
            "counts": started("counts", counts(source(spark, work), work["keys"]), work, mode="update"),
        }
    except Unavailable as error:  # Whoever starts drivers does it again.
        print(error, flush=True)
        return COULD_NOT_START
    if failures := run_to_end(queries, events=0, event_rate=1):
        print("\n".join(failures), flush=True)
        return 1
    put_result(0, [])
    return 0


def source(spark: SparkSession, work: dict) -> DataFrame:
    reader = spark.readStream.format("tidegate-kafka").option("startingOffsets", "earliest")
    reader = reader.option("kafka.bootstrap.servers", work["bootstrap"]).option("subscribe", work["source"])
    rows = reader.load().select("key", "value", "partition")
    return rows.mapInArrow(slowly, "key binary, value binary, partition int") if work["rows_per_s"] else rows


def slowly(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        time.sleep(NAP_S)
        yield batch


def counts(rows: DataFrame, keys: int) -> DataFrame:
    """How often a key has come; it has one of ``keys`` remainders in its name."""
    remainder = F.col("value").cast("string").cast("long") % keys
    key = F.concat_ws("-", F.col("key").cast("string"), remainder.cast("string")).alias("key")
    return rows.groupBy(key).agg(F.count("*").cast("string").alias("value"))


def started(name: str, rows: DataFrame, work: dict, mode: str = "append"):
    writer = (
        tidegate.writeStream(rows)
        .queryName(name)
        .outputMode(mode)
        .format("kafka")
        .option("kafka.bootstrap.servers", work["bootstrap"])
        .option("topic", work[name])
        .option("checkpointLocation", str(FOLDER / f"{name}-checkpoints"))
        .option("parallelism", SLOTS)
        .option("silenceTimeout", SILENCE)
        .trigger(availableNow=True, checkpoint=work["checkpoint"])
    )
    if work["rows_per_s"]:
        writer = writer.option("batchRowsMax", max(1, int(work["rows_per_s"] * NAP_S / SLOTS)))
    return writer.start()


if __name__ == "__main__":
    sys.exit(main())
