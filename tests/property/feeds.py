"""Splits that appear one by one, in bursts and after silence, in no order of time; and which of their rows may be late."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random

import polars as pl
from tests.property import pipelines as p
from tests.property.lateness import NEVER, Looks, judged_by

from tidegate.testing.scripted import ScriptedSource, ScriptedSplit

DELAY_US = p.DELAY_S * p.SECOND_US
ALWAYS = 1 << 62


@dataclass(frozen=True)
class Row:
    number: int
    """Unlike that of any other row of the run."""
    split: int
    at_us: int | None
    window_us: int
    """The end of its window."""
    allowed_us: int
    """No watermark beyond this may judge it."""


@dataclass
class Feed:
    """One source. ``log``: rows stand in splits in the order in which they came about, and are appended; otherwise splits are whole."""

    random: Random
    suffix: str
    log: bool
    first_number: int
    nulls: bool
    """Some splits have no event time at all."""
    seen: Counter[str] = field(default_factory=Counter)
    beside: list[Feed] = field(default_factory=list)
    """Other sources of whole splits in the same stream."""

    def __post_init__(self) -> None:
        random = self.random
        self.source = ScriptedSource(
            [], batch_rows=random.choice([1, 3, 100]), hiccup=random.choice([0, 0, 2]), log=self.log
        )
        self.limit = 0 if self.log else random.choice([0, 0, 1, 2, 3])
        self.told = 0.0 if self.log else random.choice([0.0, 0.0, 0.5, 1.0])
        self.fixed = self.log and random.random() < 0.5
        """One partition, and no other appears."""
        self.looks = Looks(DELAY_US, statistics=self.told > 0)
        self._now_s = 0
        self._rows = 0
        if self.log:
            for _ in range(1 if self.fixed else random.randint(1, 4)):
                self._split(p.rows(random, random.randrange(8), self.suffix))

    def more(self) -> None:
        """A new split, or more rows for one that is there."""
        random = self.random
        self._now_s += random.choice([0, 0, 5, 40])
        start_s = random.choice([self._now_s, self._now_s, 0, max(0, self._now_s - 2 * p.DELAY_S)])
        size = random.choice((0, random.randrange(1, 12), random.randrange(1, 12)))
        make = p.rows if self.log and random.random() < 0.5 else p.untidy
        rows = make(random, size, self.suffix, start_s=start_s)
        if self.nulls and random.random() < 0.1:
            rows = rows.with_columns(pl.lit(None, rows.schema[self._name("ts")]).alias(self._name("ts")))
            self.seen["splits without any time"] += 1
        if self.log and (self.fixed or random.random() < 0.8):
            random.choice(self.source.splits).append(self._numbered(rows))
        else:
            self._split(rows)

    def _split(self, rows: pl.DataFrame) -> None:
        splits = self.source.splits
        earliest = rows[self._name("ts")].to_physical().min()
        splits.append(
            ScriptedSplit(
                self._numbered(rows),
                closed=not self.log,
                earliest_us=earliest if isinstance(earliest, int) and self.random.random() < self.told else None,
                cut=bool(self.limit) and bool(splits) and len(splits) % self.limit == 0,
            )
        )

    def _numbered(self, rows: pl.DataFrame) -> pl.DataFrame:
        start = self.first_number + self._rows
        self._rows += rows.height
        return rows.with_columns(pl.int_range(start, start + rows.height).cast(pl.Int64).alias(self._name("v")))

    def _name(self, column: str) -> str:
        return column + self.suffix

    def rows(self) -> Iterator[Row]:
        """All of them, in the order of their splits."""
        judges = [judged_by(self.looks, other.looks, other.times()) for other in (self, *self.beside)]
        by_split = [max(allowed) for allowed in zip(*judges, strict=True)]
        for number, split in enumerate(self.source.splits):
            columns = split.rows.select(self._name("v"), pl.col(self._name("ts"), self._name("w")).to_physical())
            # Rows that others had read before a partition was found may make those of it late.
            before_us = ALWAYS if self.looks.first[number] > 0 else NEVER
            for name, at_us, window_us in columns.rows():
                yield Row(name, number, at_us, window_us, before_us if self.log else by_split[number])
                if at_us is not None:
                    before_us = max(before_us, self.looks.watermark_us(at_us))

    def reached_us(self) -> tuple[int, int]:
        """Where time stands when everything has been read: at least, and at most, as partitions found later may begin before."""
        tops = [max(times, default=NEVER) for feed in (self, *self.beside) for times in feed.times()]
        ends = min(tops, default=NEVER), max(tops, default=NEVER)
        first, last = (NEVER if top == NEVER else self.looks.watermark_us(top) for top in ends)
        return (first, last) if self.log else (last, last)

    def times(self) -> list[list[int]]:
        """Of the rows of each split that have one."""
        return [split.rows[self._name("ts")].drop_nulls().to_physical().to_list() for split in self.source.splits]
