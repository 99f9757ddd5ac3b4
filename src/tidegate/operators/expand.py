"""One row becomes one per projection: sliding windows, grouping sets."""

from __future__ import annotations

from collections.abc import Iterator

from tidegate.model.elements import Batch, Output
from tidegate.operators.expressions import Projection
from tidegate.operators.protocol import Operator
from tidegate.plan.expressions import Named
from tidegate.plan.relational import Expand


class ExpandOperator(Operator):
    """Yields one batch per projection, so no output is larger than the input."""

    def __init__(self, node: Expand) -> None:
        super().__init__()
        self._projections = tuple(
            Projection(
                [Named(field.name, expression) for field, expression in zip(node.schema, projection, strict=True)],
                node.schema,
            )
            for projection in node.projections
        )

    def on_batch(self, batch: Batch) -> Iterator[Output]:
        for projection in self._projections:
            yield batch.with_rows(projection.apply(batch.rows))
