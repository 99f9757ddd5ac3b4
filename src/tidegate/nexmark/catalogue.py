"""What each query asks, in which output mode it runs, and where its text says something else than Nexmark's.

The text of a query is in ``sql/``, one file each. The same text over the same events, read as a batch, is its oracle.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files

from tidegate.model.errors import InvalidQuery


@dataclass(frozen=True, slots=True, kw_only=True)
class NexmarkQuery:
    name: str
    title: str
    tables: tuple[str, ...] = ("bid",)
    needs: str = "projection"
    """What it takes to run it."""
    deviation: str = ""
    """How the text differs from Nexmark's, and why; empty: it does not."""
    mode: str = "append"
    keys: tuple[str, ...] = ()
    """In update mode: what a row stands for, …"""
    version: tuple[str, ...] = ()
    """… and columns that only grow: of the rows of a key, the one with the largest is the last."""
    auctions_by_expiry: bool = False
    """The event time of an auction is when it closes, not when it opens."""
    partition_by: tuple[str, ...] = ()

    @property
    def sql(self) -> str:
        return files("tidegate.nexmark").joinpath("sql", f"{self.name}.sql").read_text(encoding="utf-8").strip()


_WINNING = "an auction's highest bid is final when event time reaches its end: groups are closed by `expires`, the event time of auctions here"
_PER_WINDOW = "per 10 seconds of auction ends; Nexmark's result is a running one, and Spark chains aggregations in append mode only"
_TIE = "of equal bids one is chosen by its other columns, where `row_number` may choose any"

QUERIES: tuple[NexmarkQuery, ...] = (
    NexmarkQuery(name="q0", title="pass through"),
    NexmarkQuery(name="q1", title="prices in another currency"),
    NexmarkQuery(name="q2", title="bids on some auctions", needs="filter"),
    NexmarkQuery(
        name="q3",
        title="who sells in some states and a category",
        tables=("auction", "person"),
        needs="stream–stream join without a time limit",
    ),
    NexmarkQuery(
        name="q4",
        title="average final price per category",
        tables=("auction", "bid"),
        needs="interval join, two chained aggregations",
        deviation=f"{_PER_WINDOW}; {_WINNING}",
        auctions_by_expiry=True,
    ),
    NexmarkQuery(
        name="q5",
        title="hot items",
        needs="sliding windows, chained aggregation, explode",
        deviation="the auctions of a window are collected and compared with its maximum, instead of joined with it: the same rows",
    ),
    NexmarkQuery(
        name="q6",
        title="average selling price of a seller's last ten auctions",
        tables=("auction", "bid"),
        needs="interval join, three chained aggregations, max_by of ten rows, inline",
        deviation=f"the last ten {_PER_WINDOW}; {_WINNING}",
        auctions_by_expiry=True,
    ),
    NexmarkQuery(
        name="q7",
        title="highest bid",
        needs="tumbling windows, max of a struct",
        deviation="of equally high bids of a window the latest one, instead of a join that gives all of them",
    ),
    NexmarkQuery(
        name="q8",
        title="new users who sell at once",
        tables=("person", "auction"),
        needs="two windowed aggregations joined on their window",
    ),
    NexmarkQuery(
        name="q9",
        title="winning bids",
        tables=("auction", "bid"),
        needs="interval join, max of a struct",
        deviation=f"`row_number() = 1` written as the maximum of (price, earlier time, bidder, …): {_TIE}; {_WINNING}",
        auctions_by_expiry=True,
    ),
    NexmarkQuery(
        name="q10",
        title="log to files by day and minute",
        needs="date_format, partitioned files",
        partition_by=("dt", "hm"),
    ),
    NexmarkQuery(name="q11", title="user sessions", needs="session windows"),
    NexmarkQuery(
        name="q12",
        title="bids per user and window",
        needs="tumbling windows",
        deviation="windows of event time: which row belongs to which window of processing time cannot be told again after a failure",
    ),
    NexmarkQuery(name="q13", title="join with static data", needs="stream–static join"),
    NexmarkQuery(name="q14", title="calculation with a user function", needs="Python function, filter"),
    NexmarkQuery(
        name="q15",
        title="bidding statistics per day",
        needs="distinct counts of two columns, with filters",
        mode="update",
        keys=("day",),
        version=("total_bids",),
    ),
    NexmarkQuery(
        name="q16",
        title="statistics per channel",
        needs="distinct counts of two columns, with filters",
        mode="update",
        keys=("channel", "day"),
        version=("total_bids",),
    ),
    NexmarkQuery(
        name="q17",
        title="statistics per auction",
        needs="updating aggregates with filters",
        mode="update",
        keys=("auction", "day"),
        version=("total_bids",),
    ),
    NexmarkQuery(
        name="q18",
        title="last bid of each bidder on each auction",
        needs="max of a struct",
        deviation=f"`row_number() = 1` written as the maximum of (time, price, …): {_TIE}",
        mode="update",
        keys=("auction", "bidder"),
        version=("date_time", "price", "channel", "url", "extra"),
    ),
    NexmarkQuery(
        name="q19",
        title="ten best bids on each auction",
        needs="max_by of ten rows, posexplode",
        deviation=f"per auction and 10 seconds, so that state stays bounded: Spark streams no `row_number`; {_TIE}",
    ),
    NexmarkQuery(
        name="q20",
        title="bids with their auctions",
        tables=("bid", "auction"),
        needs="stream–stream join without a time limit",
    ),
    NexmarkQuery(name="q21", title="channel ids", needs="regular expressions"),
    NexmarkQuery(name="q22", title="directories of a URL", needs="split"),
)


def find_query(name: str) -> NexmarkQuery:
    """By ``q7`` or ``7``. Raises InvalidQuery."""
    wanted = name.lower().removeprefix("q")
    for query in QUERIES:
        if query.name == f"q{wanted}":
            return query
    raise InvalidQuery(f"there is no Nexmark query {name!r}", hint=f"the queries are q0 to {QUERIES[-1].name}")
