"""Nexmark's persons, auctions and bids, computed from their row numbers alone: any row, in any order, on any machine.

Event ``n`` belongs to epoch ``n // 50``; of its 50 events one is a person, three are auctions, 46 are bids. Half of the bids
go to a hot auction, three of four come from a hot bidder, three of four auctions from a hot seller, as in the original.
Chance is splitmix64 of (row number, column, seed).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from tidegate.connectors.nexmark.config import EVENTS_PER_EPOCH, PROPORTIONS, TABLES, NexmarkConfig

Integers: TypeAlias = npt.NDArray[np.int64]

FIRST_AUCTION, FIRST_PERSON, FIRST_CATEGORY = 1_000, 1_000, 10
CATEGORIES = 5
AUCTIONS_IN_FLIGHT = 100
PERSONS_ACTIVE = 1_000
PERSON_LEAD, AUCTION_LEAD = 10, 10
"""Ids a little ahead of what exists are used too: joins have rows without partner."""
HOT_AUCTION, HOT_BIDDER, HOT_SELLER, HOT_CHANNEL = 2, 4, 4, 2
"""One in so many is *not* hot."""
HOT_STRIDE = 100
CHANNELS = 10_000
TEXTS = 4_096

_STATES = ("AZ", "CA", "ID", "OR", "WA", "WY")
_CITIES = (
    "Phoenix",
    "Los Angeles",
    "San Francisco",
    "Boise",
    "Portland",
    "Bend",
    "Redmond",
    "Seattle",
    "Kent",
    "Cheyenne",
)
_FIRST = ("Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter")
_LAST = ("Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris")
_HOT_CHANNELS = ("Google", "Facebook", "Baidu", "Apple")
_GOLDEN = 0x9E3779B97F4A7C15
_MASK = (1 << 64) - 1
_LETTERS = np.frombuffer(b"abcdefghijklmnopqrstuvwxyz ", dtype=np.uint8)


class NexmarkGenerator:
    """``rows(numbers, columns)``: the rows of one table with these numbers. Pure: equal numbers, equal rows."""

    def __init__(self, config: NexmarkConfig) -> None:
        self._config = config
        self._first, self._places = PROPORTIONS[config.table]
        self._columns: dict[str, Callable[[Integers], pl.Series | Integers]] = getattr(self, f"_{config.table}")()

    def rows(self, numbers: Integers, columns: tuple[str, ...] | None = None) -> pl.DataFrame:
        names = tuple(field.name for field in TABLES[self._config.table]) if columns is None else columns
        if not names:
            return pl.DataFrame(height=len(numbers))
        return pl.DataFrame([pl.Series(name, self._columns[name](numbers)) for name in names])

    # --- the tables -----------------------------------------------------------------------------------------------

    def _person(self) -> dict[str, Callable[[Integers], pl.Series | Integers]]:
        return {
            "id": lambda i: i + FIRST_PERSON,
            "name": self._name,
            "email_address": self._email,
            "credit_card": self._credit_card,
            "city": lambda i: self._pick(_CITIES, i, "city"),
            "state": lambda i: self._pick(_STATES, i, "state"),
            "date_time": self._date_time,
            "extra": lambda i: self._text(i, "person extra", 40, 120),
        }

    def _auction(self) -> dict[str, Callable[[Integers], pl.Series | Integers]]:
        return {
            "id": lambda i: i + FIRST_AUCTION,
            "item_name": lambda i: self._text(i, "item", 4, 20),
            "description": lambda i: self._text(i, "description", 20, 100),
            "initial_bid": lambda i: self._price(i, "initial bid"),
            "reserve": lambda i: self._price(i, "initial bid") + self._price(i, "reserve"),
            "date_time": self._date_time,
            "expires": self._expires,
            "seller": lambda i: self._who(i, "seller", HOT_SELLER, 0),
            "category": lambda i: FIRST_CATEGORY + self._chance(i, "category", CATEGORIES),
            "extra": lambda i: self._text(i, "auction extra", 100, 300),
        }

    def _bid(self) -> dict[str, Callable[[Integers], pl.Series | Integers]]:
        return {
            "auction": self._auction_bid_on,
            "bidder": lambda i: self._who(i, "bidder", HOT_BIDDER, 1),
            "price": lambda i: self._price(i, "price"),
            "channel": lambda i: self._channels.gather(self._channel(i)),
            "url": lambda i: self._urls.gather(self._channel(i)),
            "date_time": self._date_time,
            "extra": lambda i: self._text(i, "bid extra", 4, 60),
        }

    # --- columns --------------------------------------------------------------------------------------------------

    def _event(self, i: Integers) -> Integers:
        return i // self._places * EVENTS_PER_EPOCH + self._first + i % self._places

    def _time_us(self, i: Integers) -> Integers:
        # Whole milliseconds, as in Nexmark.
        return (self._config.base_time_ms + self._event(i) * 1_000 // self._config.event_rate) * 1_000

    def _date_time(self, i: Integers) -> pl.Series:
        return pl.Series(self._time_us(i)).cast(pl.Datetime("us", "UTC"))

    def _expires(self, i: Integers) -> pl.Series:
        """About when the auctions in flight will have been replaced, at random."""
        events_ahead = AUCTIONS_IN_FLIGHT * EVENTS_PER_EPOCH // 3
        horizon_ms = max(1, events_ahead * 1_000 // self._config.event_rate)
        length_ms = 1 + np.maximum(self._chance(i, "expires", 2 * horizon_ms), 1)
        return pl.Series(self._time_us(i) + length_ms * 1_000).cast(pl.Datetime("us", "UTC"))

    def _auction_bid_on(self, i: Integers) -> Integers:
        newest = i // self._places * 3 + 2
        oldest = np.maximum(newest - AUCTIONS_IN_FLIGHT, 0)
        cold = oldest + self._chance(i, "auction", 1 << 40) % (newest - oldest + 1 + AUCTION_LEAD)
        hot = newest // HOT_STRIDE * HOT_STRIDE
        return np.where(self._chance(i, "hot auction", HOT_AUCTION) > 0, hot, cold) + FIRST_AUCTION

    def _who(self, i: Integers, salt: str, ratio: int, offset: int) -> Integers:
        """A person that exists when row ``i`` happens (or will soon)."""
        newest = i // self._places
        active = np.minimum(newest + 1, PERSONS_ACTIVE)
        cold = newest + 1 - active + self._chance(i, salt, 1 << 40) % (active + PERSON_LEAD)
        hot = newest // HOT_STRIDE * HOT_STRIDE + offset
        return np.where(self._chance(i, "hot " + salt, ratio) > 0, hot, cold) + FIRST_PERSON

    def _price(self, i: Integers, salt: str) -> Integers:
        """Log-uniform between 1 and 10 million."""
        exponent = self._chance(i, salt, 1 << 30).astype(np.float64) * (6.0 / (1 << 30))
        return np.rint(np.power(10.0, exponent) * 100.0).astype(np.int64)

    def _channel(self, i: Integers) -> Integers:
        hot = self._chance(i, "hot channel", HOT_CHANNEL) > 0
        chance = self._chance(i, "channel", CHANNELS * len(_HOT_CHANNELS))
        return np.where(hot, CHANNELS + chance % len(_HOT_CHANNELS), chance // len(_HOT_CHANNELS))

    @cached_property
    def _channels(self) -> pl.Series:
        return pl.Series([f"channel-{n}" for n in range(CHANNELS)] + list(_HOT_CHANNELS))

    @cached_property
    def _urls(self) -> pl.Series:
        n = np.arange(CHANNELS + len(_HOT_CHANNELS), dtype=np.int64)
        parts = [self._pool("url", 3, 6).gather(self._chance(n, f"url {part}", TEXTS)) for part in range(3)]
        table = pl.DataFrame({"a": parts[0], "b": parts[1], "c": parts[2], "n": n})
        base = pl.format(
            "https://www.nexmark.com/{}/{}/{}/item.htm?query=1", *[pl.col(c).str.replace_all(" ", "-") for c in "abc"]
        )
        cold = pl.format("{}&channel_id={}", base, pl.col("n") * 2_654_435_761 % (1 << 31))
        return table.select(pl.when(pl.col("n") < CHANNELS).then(cold).otherwise(base)).to_series()

    def _name(self, i: Integers) -> pl.Series:
        table = pl.DataFrame({"f": self._pick(_FIRST, i, "first name"), "l": self._pick(_LAST, i, "last name")})
        return table.select(pl.format("{} {}", "f", "l")).to_series()

    def _email(self, i: Integers) -> pl.Series:
        table = pl.DataFrame({"a": self._text(i, "email", 5, 10), "b": self._text(i, "domain", 5, 8)})
        plain = [pl.col(column).str.replace_all(" ", "_") for column in "ab"]
        return table.select(pl.format("{}@{}.com", *plain)).to_series()

    def _credit_card(self, i: Integers) -> pl.Series:
        parts = {f"p{n}": self._chance(i, f"card {n}", 10_000) for n in range(4)}
        digits = [pl.col(name).cast(pl.String).str.zfill(4) for name in parts]
        return pl.DataFrame(parts).select(pl.concat_str(digits, separator=" ")).to_series()

    def _pick(self, words: tuple[str, ...], i: Integers, salt: str) -> pl.Series:
        return pl.Series(words).gather(self._chance(i, salt, len(words)))

    def _text(self, i: Integers, salt: str, shortest: int, longest: int) -> pl.Series:
        """One of 4,096 random texts: choosing is a hundred times cheaper than spelling."""
        return self._pool(salt, shortest, longest).gather(self._chance(i, salt, TEXTS))

    # --- chance ---------------------------------------------------------------------------------------------------

    @cached_property
    def _pools(self) -> dict[str, pl.Series]:
        return {}

    def _pool(self, salt: str, shortest: int, longest: int) -> pl.Series:
        pool = self._pools.get(salt)
        if pool is None:
            numbers = np.arange(TEXTS * longest, dtype=np.int64)
            letters = _LETTERS[self._chance(numbers, "letters of " + salt, len(_LETTERS))].tobytes().decode()
            lengths = shortest + self._chance(numbers[:TEXTS], "length of " + salt, longest - shortest + 1)
            pool = pl.Series([letters[n * longest : n * longest + int(length)] for n, length in enumerate(lengths)])
            self._pools[salt] = pool
        return pool

    def _chance(self, i: Integers, salt: str, below: int) -> Integers:
        """Uniform in [0, below), by row, column and seed."""
        offset = np.uint64((_salt(salt) + self._config.seed * _GOLDEN) & _MASK)
        z: Any = (i.astype(np.uint64) + offset) * np.uint64(_GOLDEN)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
        if below & (below - 1) == 0:
            return (z & np.uint64(below - 1)).astype(np.int64)
        # High bits times the bound instead of a remainder: no division.
        return ((z >> np.uint64(32)) * np.uint64(below) >> np.uint64(32)).astype(np.int64)


def _salt(text: str) -> int:
    """FNV-1a of a column's name: the same in every process."""
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = ((value ^ byte) * 0x100000001B3) & _MASK
    return value
