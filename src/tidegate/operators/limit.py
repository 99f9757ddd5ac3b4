"""``limit(n)`` on a stream: the first n rows to arrive in one subtask pass, and never any other, over all restarts."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from tidegate.model.elements import Batch, Output
from tidegate.model.ids import CheckpointId
from tidegate.operators.protocol import Operator, OperatorContext, OperatorState
from tidegate.operators.values import decoded
from tidegate.plan.ordering import Limit, PartialLimit


class LimitValue(msgspec.Struct, frozen=True, tag_field="format", tag="limit/1"):
    passed: int
    """Rows that had passed; zero in all subtasks but the one that gets the rows."""


class PartialLimitOperator(Operator):
    """Before the exchange: no subtask sends more rows than could pass."""

    def __init__(self, node: PartialLimit | Limit) -> None:
        super().__init__()
        self._left = node.count

    def on_batch(self, batch: Batch) -> Iterator[Output]:
        if self._left:
            rows = batch.rows.head(self._left)
            self._left -= rows.height
            yield batch.with_rows(rows)


class LimitOperator(PartialLimitOperator):
    """Behind it. All rows come to one subtask, which is the first one at any parallelism."""

    def __init__(self, node: Limit, context: OperatorContext) -> None:
        super().__init__(node)
        self._count = node.count
        self._left -= sum(
            decoded(value, LimitValue, "the count of a limit").passed
            for value in context.restored.values
            if context.subtask == 0
        )

    def snapshot(self, checkpoint: CheckpointId) -> OperatorState:
        return OperatorState(value=msgspec.msgpack.encode(LimitValue(self._count - self._left)))
