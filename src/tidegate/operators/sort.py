"""``orderBy`` and ``limit`` over a result that arrives whole before every barrier."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from tidegate.model.elements import Batch, Output
from tidegate.model.ids import CheckpointId, OperatorId
from tidegate.model.types import Schema
from tidegate.operators.pieces import pieces
from tidegate.operators.protocol import Operator, OperatorContext
from tidegate.operators.whole_results import check_size
from tidegate.plan.ordering import Sort, SortKey
from tidegate.state.leaves import leaf_expression, leaves_of


class SortOperator(Operator):
    """Holds rows between two barriers only: at a barrier it is empty, so there is nothing to store."""

    flushes = True

    def __init__(self, node: Sort, context: OperatorContext) -> None:
        super().__init__()
        self._context = context
        self._limit = node.limit
        self._by, self._descending, self._nulls_last = _ordering(node.order, node.schema)
        self._rows: list[pl.DataFrame] = []

    def on_batch(self, batch: Batch) -> Iterator[Output]:
        self._rows.append(batch.rows)
        self.counters.state_rows += batch.rows.height
        check_size(self.counters.state_rows, self._context, OperatorId("orderBy() or limit()"))
        return iter(())

    def on_barrier(self, checkpoint: CheckpointId) -> Iterator[Output]:
        if not self._rows:
            return
        rows = pl.concat(self._rows)
        self._rows, self.counters.state_rows = [], 0
        if self._by:
            rows = rows.sort(self._by, descending=self._descending, nulls_last=self._nulls_last, maintain_order=True)
        if self._limit is not None:
            rows = rows.head(self._limit)
        for piece in pieces(rows.height):
            yield Batch(rows[piece])


def _ordering(order: tuple[SortKey, ...], schema: Schema) -> tuple[list[pl.Expr], list[bool], list[bool]]:
    """Structs are compared field by field. Inside one null is the smallest value, whatever the query says about whole nulls."""
    fields = {field.name: field for field in schema}
    by: list[pl.Expr] = []
    descending: list[bool] = []
    nulls_last: list[bool] = []
    for key in order:
        for leaf in leaves_of((fields[key.column],)):
            whole = len(leaf.path) == 1
            by.append(leaf_expression(leaf))
            descending.append(not key.nulls_first if leaf.presence and whole else not key.ascending)
            nulls_last.append(not key.nulls_first if whole else not key.ascending)
    return by, descending, nulls_last
