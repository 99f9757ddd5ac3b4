"""The end of a stream: rows become durable at the barrier and visible after the commit."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import polars as pl

from tidegate.model.elements import Batch, Output
from tidegate.model.ids import CheckpointId
from tidegate.model.output_mode import OutputMode
from tidegate.model.snapshot import Committable
from tidegate.operators.protocol import Operator, OperatorContext, OperatorState
from tidegate.plan.relational import Sink
from tidegate.ports.sink import SinkWriter
from tidegate.state.frames import picked


class SinkOperator(Operator):
    """Keeps every prepared committable, restored ones included, until its commit is confirmed.

    A checkpoint that fails takes nothing with it: what it prepared is part of the next snapshot as well.
    """

    def __init__(self, node: Sink, context: OperatorContext, writer: SinkWriter) -> None:
        super().__init__()
        self._subtask = context.subtask
        self._names = [name for name, _ in node.columns]
        self._called = [public for _, public in node.columns]
        self._writer = writer
        self._committables = context.restored.committables
        self._whole = node.mode is OutputMode.COMPLETE and not node.spec.keeps_every_result

    def on_batch(self, batch: Batch) -> Iterator[Output]:
        self.write(batch.rows)
        return iter(())

    def write(self, rows: pl.DataFrame) -> None:
        if rows.height:
            self._writer.write(picked(rows, self._names, self._called))

    def snapshot(self, checkpoint: CheckpointId) -> OperatorState:
        prepared = tuple(
            Committable(checkpoint=checkpoint, subtask=self._subtask, number=number, payload=payload)
            for number, payload in enumerate(self._writer.prepare(checkpoint))
        )
        # A whole result takes the place of all before it.
        self._committables = prepared if self._whole else self._committables + prepared
        return OperatorState(committables=self._committables, settle=partial(self._writer.settle, checkpoint))

    def on_committed(self, checkpoint: CheckpointId) -> None:
        self._committables = tuple(c for c in self._committables if c.checkpoint > checkpoint)
        self._writer.on_committed(checkpoint)

    def close(self) -> None:
        self._writer.close()
