"""Options of Spark's ``rate`` source, and its arithmetic: how many values are due when."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from tidegate.model.errors import InvalidQuery
from tidegate.ports.kinds import Made, Unfit, WholeNumber
from tidegate.ports.options import option

_DURATION = re.compile(
    r"\s*(\d+)\s*(s|sec|secs|second|seconds|m|min|mins|minute|minutes|h|hour|hours)?\s*", re.IGNORECASE
)
_UNIT_SECONDS = {"s": 1, "m": 60, "h": 3600}


def _seconds(text: str) -> int:
    found = _DURATION.fullmatch(text)
    if found is None:
        raise Unfit("a duration such as 5s or 1 minute")
    return int(found[1]) * _UNIT_SECONDS[(found[2] or "s")[0].lower()]


@dataclass(frozen=True, slots=True)
class RateConfig:
    rows_per_second: int = option("rowsPerSecond", WholeNumber(1), 1, doc="rows per second")
    ramp_up_s: int = option(
        "rampUpTime", Made(_seconds, "`5s`, `1 minute`"), 0, doc="time until that speed is reached, in equal steps"
    )
    partitions: int = option("numPartitions", WholeNumber(), 0, doc="splits; 0: as many as there are slots")

    def __post_init__(self) -> None:
        if self.ramp_up_s >= self.rows_per_second and self.ramp_up_s > 0:
            raise InvalidQuery(
                f"option 'rampUpTime' of the rate source is '{self.ramp_up_s}s'",
                hint="it must be shorter than rowsPerSecond seconds: the steps would be less than a row",
            )

    def due(self, elapsed_ms: int) -> int:
        """How many values the source has produced after so long: whole seconds as Spark counts them, linear in between."""
        second, rest_ms = divmod(elapsed_ms, 1_000)
        start = self.due_at_second(second)
        return start + (self.due_at_second(second + 1) - start) * rest_ms // 1_000

    def due_at_second(self, second: int) -> int:
        """The speed rises in equal steps while it ramps up, then stays."""
        step = self.rows_per_second // (self.ramp_up_s + 1)
        if second <= self.ramp_up_s:
            return step * second * (second + 1) // 2 if self.ramp_up_s else self.rows_per_second * second
        ramp = step * self.ramp_up_s * (self.ramp_up_s + 1) // 2
        return ramp + (second - self.ramp_up_s) * self.rows_per_second

    def offsets_us(self, values: np.ndarray) -> np.ndarray:
        """When each value is due, in microseconds since the start."""
        seconds = np.arange(self.ramp_up_s + 1)
        totals = np.array([self.due_at_second(int(s)) for s in seconds])
        if self.ramp_up_s == 0:
            return values * 1_000_000 // self.rows_per_second
        ramped = np.interp(values, totals, seconds * 1_000_000.0).astype(np.int64)
        after = self.ramp_up_s * 1_000_000 + (values - totals[-1]) * 1_000_000 // self.rows_per_second
        return np.where(values < totals[-1], ramped, after)
