"""A ``StatefulProcessOperator`` with ``Tally`` inside, fed by hand and restored at will."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime

import polars as pl

from tidegate.model import types as t
from tidegate.model.elements import Batch, Produced
from tidegate.model.ids import CheckpointId, OperatorId, SlotIndex
from tidegate.model.output_mode import OutputMode
from tidegate.model.snapshot import ChunkHandle
from tidegate.model.types import Field
from tidegate.operators.protocol import OperatorContext, OperatorState, Restored
from tidegate.operators.stateful_process import StatefulProcessOperator
from tidegate.plan.keyed import StatefulKind, StatefulProcess, TimeMode
from tidegate.state.chunk import NewChunk, RestoredChunk
from tidegate.state.entries import EntryBackend
from tidegate.state.entries_in_memory import EntriesInMemory
from tidegate.state.keygroups import range_of
from tidegate.testing.processors import TALLY_OUTPUT, load_tally

MAX_PARALLELISM = 8
INPUT = (Field("k", t.STRING), Field("at", t.TIMESTAMP), Field("word", t.STRING))
Row = tuple[str, str, int]


def process(mode: TimeMode = TimeMode.EVENT, *, delay_ms: int | None = None, **fields: object) -> StatefulProcess:
    return StatefulProcess(
        id=OperatorId("process-k"),
        kind=StatefulKind.TRANSFORM_ROW,
        label="Tally",
        command=b"" if delay_ms is None else str(delay_ms).encode(),
        keys=("k",),
        time_mode=mode,
        event_time="at" if mode is TimeMode.EVENT else None,
        mode=OutputMode.APPEND,
        input_names=("k", "at", "word"),
        output_names=tuple(field.name for field in TALLY_OUTPUT),
        schema=TALLY_OUTPUT,
        input_schema=INPUT,
        has_watermark=mode is TimeMode.EVENT,
        **fields,  # type: ignore[arg-type]
    )


def operator(
    node: StatefulProcess,
    *,
    subtask: int = 0,
    parallelism: int = 1,
    restored: Restored | None = None,
    backend: Callable[[], EntryBackend] = EntriesInMemory,
) -> StatefulProcessOperator:
    context = OperatorContext(
        operator=node.id,
        subtask=SlotIndex(subtask),
        parallelism=parallelism,
        max_parallelism=MAX_PARALLELISM,
        groups=range_of(subtask, parallelism, MAX_PARALLELISM),
        restored=restored or Restored(),
        entries=backend,
    )
    return StatefulProcessOperator(node, context, load_tally)


def batch(*rows: tuple[str | None, int, str]) -> Batch:
    """Key, second, word."""
    data = [(key, datetime.fromtimestamp(second, UTC), word) for key, second, word in rows]
    schema = {"k": pl.String, "at": pl.Datetime("us", "UTC"), "word": pl.String}
    return Batch(pl.DataFrame(data, schema=schema, orient="row"))


def rows(produced: Iterable[Produced]) -> list[Row]:
    return [row for one in produced if isinstance(one, Batch) for row in one.rows.rows()]


def taken(one: StatefulProcessOperator, checkpoint: int = 1) -> OperatorState:
    state = one.snapshot(CheckpointId(checkpoint))
    while any(isinstance(chunk, NewChunk) and not chunk.complete for chunk in state.chunks):
        one.capture()
    return state


def restored_from(*states: OperatorState) -> Restored:
    """All subtasks' snapshots, as a restore hands them to each new one."""
    chunks = [_stored(chunk) for state in states for chunk in state.chunks]
    return Restored(chunks=tuple(chunks), values=tuple(state.value for state in states))


_STORE: dict[str, pl.DataFrame] = {}


def _stored(chunk: ChunkHandle | NewChunk) -> RestoredChunk:
    if isinstance(chunk, NewChunk):
        name = f"chunk {len(_STORE)}"
        _STORE[name] = chunk.rows
        chunk = ChunkHandle(name=name, groups=chunk.groups, rows=chunk.rows.height, size_bytes=0, checksum=0)
    return RestoredChunk(chunk, _STORE[chunk.name])
