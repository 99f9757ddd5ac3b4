"""``current_timestamp()`` and its relatives: a row is given the time at which it comes by."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from tidegate.model.elements import Batch, Output
from tidegate.model.types import TIMESTAMP
from tidegate.operators.columns import polars_type
from tidegate.operators.protocol import Operator
from tidegate.plan.relational import StampTime

_US_PER_MS = 1_000


class StampTimeOperator(Operator):
    """It is told what the clock shows, and has no timers."""

    def __init__(self, node: StampTime) -> None:
        super().__init__()
        self._column = node.column
        self._now_ms = 0

    def tell_time(self, now_ms: int) -> None:
        # A clock that is set back, or another slot's that is behind, must not make a row older than the one before it.
        self._now_ms = max(self._now_ms, now_ms)

    def on_batch(self, batch: Batch) -> Iterator[Output]:
        now = pl.lit(self._now_ms * _US_PER_MS, pl.Int64).cast(polars_type(TIMESTAMP)).alias(self._column)
        yield batch.with_rows(batch.rows.with_columns(now))
