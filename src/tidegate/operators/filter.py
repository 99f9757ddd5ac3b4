"""Keeps the rows for which a condition is true."""

from __future__ import annotations

from collections.abc import Iterator

from tidegate.model.elements import Batch, Output
from tidegate.operators.expressions import Predicate
from tidegate.operators.protocol import Operator
from tidegate.plan.relational import Filter


class FilterOperator(Operator):
    def __init__(self, node: Filter) -> None:
        super().__init__()
        self._predicate = Predicate(node.condition)

    def on_batch(self, batch: Batch) -> Iterator[Output]:
        """Empty results are not sent."""
        rows = self._predicate.apply(batch.rows)
        if rows.height:
            yield batch.with_rows(rows)
