"""``withWatermark``: turns event times of rows into watermarks."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import polars as pl

from tidegate.eventtime.generator import GeneratorState, SplitWatermarks
from tidegate.model.elements import WATERMARK_MAX_US, Batch, Output, SourceStatus, Watermark
from tidegate.model.ids import CheckpointId
from tidegate.operators.protocol import Operator, OperatorContext, OperatorState
from tidegate.operators.values import decoded
from tidegate.plan.relational import AssignWatermark


class AssignWatermarkOperator(Operator):
    """Passes rows on and follows each batch with the watermark it allows. Watermarks from above end here, except the last."""

    def __init__(self, node: AssignWatermark, context: OperatorContext) -> None:
        super().__init__()
        self._column = node.column
        restored = tuple(
            decoded(value, GeneratorState, "the watermark of a source") for value in context.restored.values
        )
        self._splits = SplitWatermarks(node.delay_us, restored)

    def on_batch(self, batch: Batch) -> Iterator[Output]:
        yield batch
        largest_us = _largest_us(batch.rows.get_column(self._column))
        if largest_us is not None:
            yield from _watermark(self._splits.observe(batch.origin, largest_us))

    def on_status(self, status: SourceStatus) -> Iterator[Output]:
        yield from _watermark(self._splits.on_status(status))

    def largest_us(self, split: int) -> int:
        """Largest event time of the split's rows that have passed."""
        return self._splits.largest_us(split)

    def forget(self, split: int) -> int:
        """The split has been read to its end: the same, for the last time."""
        return self._splits.forget(split)

    @property
    def emitted_us(self) -> int:
        return self._splits.emitted_us

    def output_watermark(self, watermark_us: int) -> int | None:
        # The watermark of a drain says that there are no rows left at all: true of every event-time column.
        return watermark_us if watermark_us >= WATERMARK_MAX_US else None

    def snapshot(self, checkpoint: CheckpointId) -> OperatorState:
        return OperatorState(value=msgspec.msgpack.encode(self._splits.snapshot()))


def _watermark(at_us: int | None) -> Iterator[Watermark]:
    if at_us is not None:
        yield Watermark(at_us)


def _largest_us(times: pl.Series) -> int | None:
    """Largest event time; of a window, its end. None without any."""
    if isinstance(times.dtype, pl.Struct):
        times = times.struct.field("end")
    if isinstance(times.dtype, pl.Datetime) and times.dtype.time_unit != "us":
        times = times.dt.cast_time_unit("us")
    largest = times.to_physical().max()
    return None if largest is None else int(largest)  # pyright: ignore[reportArgumentType]
