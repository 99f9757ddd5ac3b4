"""The dead-letter sink of a stage: transactional like any other, but its rows come from the side."""

from __future__ import annotations

import polars as pl

from tidegate.model.elements import Rejected
from tidegate.model.ids import CheckpointId
from tidegate.operators.columns import polars_type
from tidegate.operators.protocol import OperatorContext, OperatorState
from tidegate.operators.sink import SinkOperator
from tidegate.plan.dead_letters import LETTERS
from tidegate.plan.relational import Sink
from tidegate.ports.sink import SinkWriter


class DeadLetterOperator(SinkOperator):
    """Letters become visible with the checkpoint that covers their rows: after a failure the rows come again, and so do
    their letters, while those that were only staged are swept."""

    def __init__(self, node: Sink, context: OperatorContext, writer: SinkWriter) -> None:
        super().__init__(node, context, writer)
        self._attempt = context.attempt
        self._passed: CheckpointId | None = None

    def reject(self, rejected: Rejected, operator: str, position: str) -> None:
        known = {
            "operator": operator,
            "position": position or None,
            "attempt": self._attempt,
            "after_checkpoint": self._passed,
        }
        letters = rejected.letters.with_columns(
            pl.lit(known[field.name], polars_type(field.type)).alias(field.name)
            for field in LETTERS
            if field.name in known
        )
        self.write(letters)

    def snapshot(self, checkpoint: CheckpointId) -> OperatorState:
        self._passed = checkpoint
        return super().snapshot(checkpoint)
