"""The tables that the queries read: as streams for the engine, as batches for the oracle, row by row the same."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from tidegate.connectors.nexmark import register
from tidegate.connectors.nexmark.config import EVENTS_PER_EPOCH, FORMAT, TABLES
from tidegate.connectors.nexmark.generator import AUCTIONS_IN_FLIGHT
from tidegate.nexmark.catalogue import NexmarkQuery

DELAY_MIN_S = 4
SIDE_INPUT_ROWS = 10_000


@dataclass(frozen=True, slots=True)
class Events:
    """One stream of auctions, persons and bids; equal values, equal rows."""

    count: int
    seed: int = 0
    event_rate: int = 10_000

    @property
    def delay(self) -> str:
        """Of the watermark: not shorter than an auction runs, so that one that is still to come never closes too early."""
        longest_s = -(-2 * AUCTIONS_IN_FLIGHT * EVENTS_PER_EPOCH // (3 * self.event_rate))
        return f"{max(DELAY_MIN_S, longest_s)} seconds"

    def options(self, table: str) -> dict[str, str]:
        return {
            "table": table,
            "events": str(self.count),
            "seed": str(self.seed),
            "eventRate": str(self.event_rate),
        }


def as_stream(session: SparkSession, query: NexmarkQuery, events: Events) -> DataFrame:
    """The query over streams."""
    _prepare(session)
    for table in TABLES:
        frame = session.readStream.format(FORMAT).options(**events.options(table)).load()
        time = "expires" if table == "auction" and query.auctions_by_expiry else "date_time"
        frame.withWatermark(time, events.delay).createOrReplaceTempView(table)
    return session.sql(query.sql)


def as_batch(session: SparkSession, query: NexmarkQuery, events: Events) -> DataFrame:
    """The same query over the same rows, for Spark to answer."""
    _prepare(session)
    for table in TABLES:
        session.read.format(FORMAT).options(**events.options(table)).load().createOrReplaceTempView(table)
    return session.sql(query.sql)


def _prepare(session: SparkSession) -> None:
    register(session)
    session.udf.register("count_char", count_char, "bigint")
    side = session.range(SIDE_INPUT_ROWS).selectExpr("id AS key", "concat('value ', id) AS value")
    side.createOrReplaceTempView("side_input")


def count_char(text: str | None, character: str) -> int:
    """How often ``character`` occurs in ``text``."""
    return 0 if text is None else text.count(character)
