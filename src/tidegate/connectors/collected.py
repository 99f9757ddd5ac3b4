"""Sinks whose output is kept on the driver: rows travel inside the committable, as an Arrow IPC stream."""

from __future__ import annotations

import io

import msgspec
import polars as pl

from tidegate.model import formats
from tidegate.model.errors import CorruptSnapshot
from tidegate.model.ids import CheckpointId
from tidegate.model.output_mode import OutputMode
from tidegate.model.snapshot import Committable
from tidegate.operators.columns import empty_frame
from tidegate.ports.sink import SinkWriter
from tidegate.ports.spec import SinkSpec


class RowsToCommit(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="rows/1"):
    """``rows`` may be only the first of ``total`` rows when the sink shows no more."""

    rows: bytes
    total: int


class CollectingWriter(SinkWriter):
    """Keeps the rows of an epoch, the first ``rows_max`` of them, until the barrier.

    ``whole``: the rows of an epoch are the whole result (output mode ``complete``), so that none at all is a result, too; the frame says
    what it looks like.
    """

    def __init__(self, rows_max: int | None = None, *, whole: pl.DataFrame | None = None) -> None:
        self._rows_max = rows_max
        self._whole = whole
        self._kept: list[pl.DataFrame] = []
        self._kept_rows = 0
        self._total = 0

    def write(self, rows: pl.DataFrame) -> None:
        self._total += rows.height
        kept = rows if self._rows_max is None else rows.head(self._rows_max - self._kept_rows)
        if kept.height:
            self._kept.append(kept)
            self._kept_rows += kept.height

    def prepare(self, checkpoint: CheckpointId) -> tuple[bytes, ...]:
        if not self._total and self._whole is None:
            return ()
        stream = io.BytesIO()
        (pl.concat(self._kept) if self._total or self._whole is None else self._whole).write_ipc_stream(stream)
        payload = RowsToCommit(rows=stream.getvalue(), total=self._total)
        self._kept, self._kept_rows, self._total = [], 0, 0
        return (msgspec.msgpack.encode(payload),)

    def close(self) -> None:
        self._kept, self._kept_rows, self._total = [], 0, 0


def whole_result(spec: SinkSpec) -> pl.DataFrame | None:
    """In output mode complete, where no rows are a result as well: a frame without rows. Else None."""
    return empty_frame(spec.schema) if spec.mode is OutputMode.COMPLETE else None


def decode_rows(committable: Committable) -> tuple[pl.DataFrame, int]:
    """The rows of a committable, and how many were written in all."""
    try:
        payload = formats.decode(committable.payload, RowsToCommit)
        return pl.read_ipc_stream(io.BytesIO(payload.rows)), payload.total
    except (msgspec.MsgspecError, UnicodeDecodeError, pl.exceptions.PolarsError, OSError) as error:
        raise CorruptSnapshot(f"the rows of checkpoint {committable.checkpoint} cannot be decoded: {error}") from error
