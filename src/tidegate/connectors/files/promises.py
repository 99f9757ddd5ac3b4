"""What a file said of its event times before it was read: windows may have closed because of it, so it has to be true."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import polars as pl

from tidegate.model.errors import DataError


@dataclass(frozen=True, slots=True)
class TimePromise:
    column: str
    """Under the plan's name."""
    earliest_us: int

    def check(self, rows: pl.DataFrame, where: str) -> None:
        smallest = cast("int | None", rows.get_column(self.column).to_physical().min())
        if smallest is not None and smallest < self.earliest_us:
            raise DataError(
                f"{where} holds rows earlier than the statistics in its footer say ({smallest} < {self.earliest_us} µs since 1970):"
                " windows may have closed without them",
                hint="write the file anew with a correct writer, or set the option fileStatistics to off, and start from an older checkpoint",
            )
