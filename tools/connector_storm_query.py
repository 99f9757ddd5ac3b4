"""The driver process of ``tools/connector_storm.py``: Kafka → join and windows → a sink, to the end; then the comparison with Spark batch."""

from __future__ import annotations

import json
import logging
import sys
import time
from collections import Counter
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from storm_driver import FOLDER, NAME, SILENCE, difference, put_result, run_to_end
from storm_processes import COULD_NOT_START

import tidegate
from tidegate.connectors.kafka import register as register_kafka
from tidegate.model.errors import Unavailable
from tidegate.spark.session import local_session

ROWS_MAX, NAP_S = 200, 0.1
"""Of a batch, and after each: the pace of the query, so that any machine has as much time to kill in."""
COLUMNS = ("start", "auction", "seller", "bids", "total")
BID = "auction bigint, price bigint, date_time bigint"
AUCTION = "id bigint, seller bigint, date_time bigint"


def main() -> int:
    logging.basicConfig(format=f"%(asctime)s {NAME} %(levelname)s %(name)s: %(message)s")
    logging.getLogger("tidegate").setLevel(logging.INFO)
    work = json.loads((FOLDER / "work.json").read_text())
    spark = local_session("tidegate-connector-storm", cores=3)
    register_kafka(spark)
    try:
        query = start(spark, work)
    except Unavailable as error:  # Whoever starts drivers does it again.
        print(error, flush=True)
        return COULD_NOT_START
    if failures := run_to_end({work["sink"]: query}, int(work["events"]["events"]), int(work["events"]["eventRate"])):
        print("\n".join(failures), flush=True)
        return 1
    put_result(*compare(spark, work))
    return 0


# --- the query ------------------------------------------------------------------------------------------------------------


def start(spark: SparkSession, work: dict):
    bids = topic(spark, work, "bid", BID).mapInArrow(slowly, BID.replace("date_time bigint", "date_time timestamp"))
    rows = joined(bids, topic(spark, work, "auction", AUCTION))
    if work["sink"] == "kafka":
        rows = rows.select(F.to_json(F.struct(*COLUMNS)).alias("value"))
    writer = (
        tidegate.writeStream(rows)
        .queryName(work["sink"])
        .format(work["sink"])
        .options(**work["options"])
        .option("checkpointLocation", str(FOLDER / "checkpoints"))
        .option("atEnd", "drain")
        .option("parallelism", 2)
        .option("silenceTimeout", SILENCE)
        .option("batchRowsMax", ROWS_MAX)
        .trigger(availableNow=True, checkpoint="1 second")
    )
    return writer.start()


def topic(spark: SparkSession, work: dict, name: str, columns: str) -> DataFrame:
    messages = (
        spark.readStream.format("tidegate-kafka")
        .option("kafka.bootstrap.servers", work["bootstrap"])
        .option("subscribe", work["topics"][name])
        .option("startingOffsets", "earliest")
        .load()
    )
    row = F.from_json(F.col("value").cast("string"), columns).alias("row")
    return in_time(messages.select(row).select("row.*"))


def in_time(rows: DataFrame) -> DataFrame:
    return rows.withColumn("date_time", F.timestamp_micros("date_time"))


def slowly(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        time.sleep(NAP_S)
        yield batch


def joined(bids: DataFrame, auctions: DataFrame) -> DataFrame:
    """Bids of the first seconds of an auction, by auction, seller and window."""
    bids = bids.withColumnRenamed("date_time", "bid_at").withWatermark("bid_at", "1 second")
    auctions = auctions.withColumnRenamed("date_time", "opened_at").withWatermark("opened_at", "1 second")
    early = bids.join(
        auctions,
        F.expr("auction = id AND bid_at >= opened_at AND bid_at <= opened_at + INTERVAL 5 SECONDS"),
    )
    windows = early.groupBy(F.window("bid_at", "2 seconds"), "auction", "seller")
    return windows.agg(F.count("*").alias("bids"), F.sum("price").alias("total")).select(
        F.unix_micros("window.start").alias("start"), *COLUMNS[1:]
    )


# --- the comparison -------------------------------------------------------------------------------------------------------


def compare(spark: SparkSession, work: dict) -> tuple[int, list[str]]:
    """How many rows Spark batch has, and in words what is wrong with ours."""
    bids, auctions = (in_time(spark.read.parquet(str(FOLDER / f"{table}.parquet"))) for table in ("bid", "auction"))
    wanted = Counter(tuple(row) for row in joined(bids, auctions).collect())
    found = Counter(visible(spark, work, wanted.total()))
    return wanted.total(), difference(wanted, found)


def visible(spark: SparkSession, work: dict, rows: int) -> list[tuple[int, ...]]:
    """What a reader sees who knows nothing of us; of Kafka, one that reads what is committed."""
    options = work["options"]
    match work["sink"]:
        case "kafka":
            from tests.servers.kafka import Reading

            reading = Reading(work["bootstrap"], options["topic"])
            messages = reading.until(rows, 30.0) + reading.rest()
            found = [json.loads(message.value() or b"") for message in messages]
            return [tuple(row[name] for name in COLUMNS) for row in found]
        case "delta":
            from deltalake import DeltaTable

            table = DeltaTable(options["path"]).to_pyarrow_table()
        case "iceberg":
            from pyiceberg.catalog import load_catalog

            catalog = {
                name.removeprefix("catalog."): value for name, value in options.items() if name.startswith("catalog.")
            }
            table = load_catalog("default", **catalog).load_table(options["path"]).scan().to_arrow()
        case "postgres":
            import psycopg

            with psycopg.connect(options["url"]) as connection:
                return connection.execute(f"SELECT {', '.join(COLUMNS)} FROM {options['dbtable']}").fetchall()  # pyright: ignore
        case _:
            return [tuple(row) for row in spark.read.parquet(options["path"]).select(*COLUMNS).collect()]
    return list(zip(*(table[name].to_pylist() for name in COLUMNS), strict=True))


if __name__ == "__main__":
    sys.exit(main())
