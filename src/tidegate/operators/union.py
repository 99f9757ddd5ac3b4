"""``union``: rows of every input under one set of names."""

from __future__ import annotations

from collections.abc import Iterator

from tidegate.model.elements import Batch, Output
from tidegate.operators.protocol import Operator
from tidegate.plan.relational import Union


class UnionOperator(Operator):
    """Matches columns by position. Types agree already: Spark's analyser casts the inputs of a union."""

    def __init__(self, node: Union) -> None:
        super().__init__()
        self._names = [column.name for column in node.schema]

    def on_batch(self, batch: Batch) -> Iterator[Output]:
        if batch.rows.columns == self._names:
            yield batch
            return
        rows = batch.rows.clone()
        rows.columns = self._names
        yield batch.with_rows(rows)
