"""Options of the Nexmark generator. With the same options the three tables are one consistent stream, on every engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tidegate.model import types as t
from tidegate.ports.kinds import Choice, WholeNumber
from tidegate.ports.options import Options, option

FORMAT = "tidegate-nexmark"
WHAT = "Nexmark source"
IGNORED = frozenset({"path"})

BASE_TIME_MS = 1_436_918_400_000
"""2015-07-15T00:00:00Z, where Nexmark's time begins."""

TABLES: dict[str, t.Schema] = {
    "person": (
        t.Field("id", t.LONG),
        t.Field("name", t.STRING),
        t.Field("email_address", t.STRING),
        t.Field("credit_card", t.STRING),
        t.Field("city", t.STRING),
        t.Field("state", t.STRING),
        t.Field("date_time", t.TIMESTAMP),
        t.Field("extra", t.STRING),
    ),
    "auction": (
        t.Field("id", t.LONG),
        t.Field("item_name", t.STRING),
        t.Field("description", t.STRING),
        t.Field("initial_bid", t.LONG),
        t.Field("reserve", t.LONG),
        t.Field("date_time", t.TIMESTAMP),
        t.Field("expires", t.TIMESTAMP),
        t.Field("seller", t.LONG),
        t.Field("category", t.LONG),
        t.Field("extra", t.STRING),
    ),
    "bid": (
        t.Field("auction", t.LONG),
        t.Field("bidder", t.LONG),
        t.Field("price", t.LONG),
        t.Field("channel", t.STRING),
        t.Field("url", t.STRING),
        t.Field("date_time", t.TIMESTAMP),
        t.Field("extra", t.STRING),
    ),
}

PROPORTIONS = {"person": (0, 1), "auction": (1, 3), "bid": (4, 46)}
"""First place and number of places of each table among 50 consecutive events."""
EVENTS_PER_EPOCH = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class NexmarkConfig:
    table: str = option("table", Choice(*TABLES), "bid", doc="which of the three tables", aliases=("type",))
    events: int | None = option(
        "events", WholeNumber(), None, doc="events of all three tables together", shown="without end"
    )
    seed: int = option("seed", WholeNumber(), 0, doc="another seed gives other rows at the same times")
    rate: int = option("rate", WholeNumber(), 0, doc="events per second, all tables together; 0: as fast as possible")
    partitions: int = option("partitions", WholeNumber(), 0, doc="splits; 0: as many as there are slots (Spark: 2)")
    event_rate: int = option("eventRate", WholeNumber(1), 10_000, doc="events per second of event time")
    base_time_ms: int = option("baseTimeMs", WholeNumber(), BASE_TIME_MS, doc="where event time begins")

    @property
    def rows(self) -> int | None:
        """Rows of this table."""
        return None if self.events is None else self.rows_before(self.events)

    def rows_before(self, event: int) -> int:
        """How many rows of this table come before event number ``event``."""
        first, places = PROPORTIONS[self.table]
        epoch, place = divmod(event, EVENTS_PER_EPOCH)
        return epoch * places + min(max(place - first, 0), places)


def parse_nexmark(given: Mapping[str, str]) -> NexmarkConfig:
    return NexmarkConfig(**Options(given, WHAT).read_all(NexmarkConfig, {}, IGNORED))
