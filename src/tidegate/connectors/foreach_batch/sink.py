"""``foreachBatch``: slots stage rows beside the checkpoints; after each checkpoint the driver hands them to the user's function."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable
from typing import TypeAlias

import msgspec
import polars as pl

from tidegate.connectors.batch_commits import BatchCommitter
from tidegate.connectors.batches import Batches
from tidegate.connectors.foreach_batch.parts import BatchPart, PartsOfBatch, decode, encode_rows
from tidegate.model.errors import Bug
from tidegate.model.ids import Attempt, BatchId, CheckpointId, SlotIndex
from tidegate.model.snapshot import INLINE_BYTES_MAX, Committable
from tidegate.ports.context import CommitterContext
from tidegate.ports.sink import SinkWriter

PART_BYTES_MAX = 32 * 1024 * 1024
"""Rows are written out when about this much (in memory) has gathered, and become one partition of the batch's DataFrame."""

CallBatch: TypeAlias = Callable[[BatchId, tuple[BatchPart, ...]], None]
"""Makes a DataFrame of the parts and calls the user's function with it. Raises what the function raises, explained."""


class BatchWriter(SinkWriter):
    """Holds at most ``PART_BYTES_MAX`` of rows; more is stored as it comes. ``whole``: an empty result is a result, too."""

    def __init__(
        self, batches: Batches, attempt: Attempt, subtask: SlotIndex, whole: pl.DataFrame | None = None
    ) -> None:
        self._batches = batches
        self._attempt = attempt
        self._subtask = subtask
        self._whole = whole
        self._held: list[pl.DataFrame] = []
        self._held_bytes = 0
        self._parts: list[BatchPart] = []
        self._next = 0

    def write(self, rows: pl.DataFrame) -> None:
        self._held.append(rows)
        self._held_bytes += int(rows.estimated_size())
        if self._held_bytes >= PART_BYTES_MAX:
            self._store_held()

    def prepare(self, checkpoint: CheckpointId) -> tuple[bytes, ...]:
        if self._whole is not None and not self._held and not self._parts:
            self._held.append(self._whole)
        self._store_held()
        if not self._parts:
            return ()
        prepared = PartsOfBatch(attempt=self._attempt, parts=tuple(self._parts))
        self._parts = []
        return (msgspec.msgpack.encode(prepared),)

    def close(self) -> None:
        """What was stored and not prepared is swept by a later attempt."""
        self._held, self._held_bytes, self._parts = [], 0, []

    def _store_held(self) -> None:
        if not self._held:
            return
        rows = pl.concat(self._held)
        data = encode_rows(rows)
        inline = len(data) <= INLINE_BYTES_MAX
        key = "" if inline else self._batches.put(self._attempt, self._subtask, self._next, data)
        self._next += not inline
        self._parts.append(
            BatchPart(
                key=key,
                data=data if inline else None,
                rows=rows.height,
                size_bytes=len(data),
                checksum=zlib.crc32(data),
            )
        )
        self._held, self._held_bytes = [], 0


class ForeachBatchCommitter(BatchCommitter[PartsOfBatch]):
    """Driver side: hands the rows of a checkpoint to the user's function. It stays in this process and is never pickled, as in Spark."""

    def __init__(self, context: CommitterContext) -> None:
        super().__init__(context)
        self._function: CallBatch | None = context.callback

    def sweep(self, older_than: Attempt, keep: tuple[Committable, ...]) -> None:
        kept = {key for one in keep for key in self._keys(decode(one.payload))}
        self._batches.delete(found.key for found in self._batches.older_than(older_than) if found.key not in kept)

    def _decode(self, payload: bytes) -> PartsOfBatch:
        return decode(payload)

    def _keys(self, prepared: PartsOfBatch) -> Iterable[str]:
        return (part.key for part in prepared.parts if part.key)

    def _call(self, batch: BatchId, prepared: list[PartsOfBatch]) -> None:
        if self._function is None:
            raise Bug("foreachBatch has no function to call")
        self._function(batch, tuple(part for one in prepared for part in one.parts))
