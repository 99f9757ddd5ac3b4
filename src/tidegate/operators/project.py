"""Computes new columns from the old ones."""

from __future__ import annotations

from collections.abc import Iterator

from tidegate.model.elements import Batch, Output
from tidegate.operators.expressions import Projection
from tidegate.operators.protocol import Operator
from tidegate.plan.relational import Project


class ProjectOperator(Operator):
    def __init__(self, node: Project) -> None:
        super().__init__()
        self._projection = Projection(node.columns, node.schema)

    def on_batch(self, batch: Batch) -> Iterator[Output]:
        yield batch.with_rows(self._projection.apply(batch.rows))
