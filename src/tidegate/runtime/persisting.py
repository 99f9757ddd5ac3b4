"""Turns a snapshot taken by reference into handles: the slow half of a checkpoint, run off the loop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from tidegate.model.errors import TidegateError
from tidegate.model.ids import CheckpointId, OperatorId, SlotIndex
from tidegate.model.snapshot import INLINE_BYTES_MAX, ChunkHandle, InFlight, KeyGroupRange, OperatorSnapshot
from tidegate.operators.protocol import NewChunk, OperatorState
from tidegate.runtime.effects import Overtaken, Persist
from tidegate.runtime.waiting_rows import concatenate
from tidegate.state.codec import encode
from tidegate.state.encoded import Encoded

NameChunk = Callable[[OperatorId, SlotIndex, CheckpointId, int], str]
"""The unique name of the n-th chunk that this attempt writes for an operator's subtask at a checkpoint."""

IN_FLIGHT_GROUPS = KeyGroupRange(0, 1)
"""Rows in flight are not keyed: what a chunk of them says about key groups means nothing."""

PutChunk = Callable[[str, Encoded], None]
"""Makes the bytes durable under the name, or begins to: then whoever gave it waits for them before he trusts the handles.
A name that exists already is our own earlier try: no error."""


class NotStored(Exception):
    """A snapshot is not stored. ``chunks``: parts of it that are, and the one that failed, which may have landed all the same."""

    def __init__(self, reason: str, chunks: tuple[str, ...]) -> None:
        super().__init__(reason)
        self.reason = reason
        self.chunks = chunks


@dataclass(frozen=True, slots=True)
class Persisted:
    snapshots: tuple[OperatorSnapshot, ...]
    uploaded_bytes: int
    """Encoded by this checkpoint, inlined bytes included."""


def persist_states(
    persist: Persist, name: NameChunk, put: PutChunk, inline_bytes_max: int = INLINE_BYTES_MAX
) -> Persisted:
    """Encode and store what is new, refer to what is stored already. Small chunks travel in the handle itself.

    Raises ``NotStored`` when a chunk, or output that the snapshot names, cannot be made durable.
    """
    uploaded_bytes = 0
    tried: list[str] = []

    def stored(operator: OperatorId, number: int, chunk: NewChunk) -> ChunkHandle:
        nonlocal uploaded_bytes
        data = encode(chunk.rows)
        uploaded_bytes += data.size_bytes
        chunk_name = name(operator, persist.subtask.index, persist.checkpoint, number)
        inline = data.size_bytes <= inline_bytes_max
        if not inline:
            tried.append(chunk_name)
            try:
                put(chunk_name, data)
            except TidegateError as failure:
                raise NotStored(str(failure), tuple(tried)) from failure
        return ChunkHandle(
            name=chunk_name,
            groups=chunk.groups,
            rows=chunk.rows.height,
            size_bytes=data.size_bytes,
            checksum=data.checksum,
            data=data.joined() if inline else None,
        )

    def snapshot(operator: OperatorId, state: OperatorState) -> OperatorSnapshot:
        return OperatorSnapshot(
            operator=operator,
            subtask=persist.subtask.index,
            chunks=tuple(
                chunk if isinstance(chunk, ChunkHandle) else stored(operator, number, chunk)
                for number, chunk in enumerate(state.chunks)
                if isinstance(chunk, ChunkHandle) or chunk.rows.height
            ),
            value=state.value,
            source=state.source,
            committables=state.committables,
        )

    def overtaken(operator: OperatorId, number: int, rows: Overtaken) -> InFlight:
        chunk = NewChunk(concatenate(list(rows.frames)), IN_FLIGHT_GROUPS)
        return InFlight(edge=rows.edge, source=rows.source, chunk=stored(operator, number, chunk))

    snapshots = [snapshot(operator, state) for operator, state in persist.states]
    if persist.in_flight:
        own = snapshots[-1]
        in_flight = tuple(overtaken(own.operator, number, rows) for number, rows in enumerate(persist.in_flight))
        snapshots[-1] = msgspec.structs.replace(own, in_flight=in_flight)
    for _, state in persist.states:
        if state.settle is not None:
            try:
                state.settle()
            except TidegateError as failure:
                raise NotStored(str(failure), tuple(tried)) from failure
    return Persisted(tuple(snapshots), uploaded_bytes)
