"""The driver process of ``tools/kafka_order.py``: one query copies a topic, one counts its keys in output mode update."""

from __future__ import annotations

import json
import logging
import sys

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from storm_driver import FOLDER, NAME, SILENCE, put_result, run_to_end
from storm_processes import COULD_NOT_START

import tidegate
from tidegate.connectors.kafka import register
from tidegate.model.errors import Unavailable
from tidegate.spark.session import local_session


def main() -> int:
    logging.basicConfig(format=f"%(asctime)s {NAME} %(levelname)s %(name)s: %(message)s")
    logging.getLogger("tidegate").setLevel(logging.INFO)
    work = json.loads((FOLDER / "work.json").read_text())
    spark = local_session("tidegate-kafka-order", cores=4)
    register(spark)
    try:
        queries = {
            "copy": started("copy", copy(source(spark, work)), work),
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
    return reader.option("kafka.bootstrap.servers", work["bootstrap"]).option("subscribe", work["source"]).load()


def copy(rows: DataFrame) -> DataFrame:
    """Into the partition where it came from."""
    return rows.select("key", "value", "partition")


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
        .option("parallelism", 2)
        .option("silenceTimeout", SILENCE)
        .trigger(availableNow=True, checkpoint=work["checkpoint"])
    )
    return writer.start()


if __name__ == "__main__":
    sys.exit(main())
