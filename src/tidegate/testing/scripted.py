"""A source that reads what the test wrote down, and a sink that shows what was committed: connectors without a world."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec
import polars as pl

from tidegate.model.ids import Attempt, CheckpointId, OperatorId, SlotIndex
from tidegate.model.snapshot import Committable, Split
from tidegate.plan.relational import Scan, Sink
from tidegate.ports.sink import SinkCommitter, SinkWriter
from tidegate.ports.source import SourceConnector, SplitEnumerator, SplitReader


@dataclass(slots=True)
class ScriptedSplit:
    """Rows of one split, with the scan's plan column names. Not ``closed``: more may be appended, and it never finishes.

    ``reachable``: may change while the query runs. A split that is not gives no rows, and does not say that it has none.
    ``earliest_us``, ``cut``: what the enumerator tells of it, see ``model.snapshot.Split``.
    """

    rows: pl.DataFrame
    closed: bool = True
    reachable: bool = True
    earliest_us: int | None = None
    cut: bool = False

    def append(self, rows: pl.DataFrame) -> None:
        self.rows = pl.concat([self.rows, rows])


@dataclass(slots=True)
class ScriptedSource(SourceConnector):
    """Splits by number; more may be added while the query runs, if it is not bounded: the next look finds them.

    ``batch_rows`` is the most that one read returns; every ``hiccup``-th read returns nothing at all.
    ``log``: each split is a log, dealt out at once, in which rows stand in the order in which they came about. Otherwise the order of rows in
    a split means nothing, as in files. None: it is one if a split is not closed.
    """

    splits: list[ScriptedSplit]
    batch_rows: int = 1_000
    hiccup: int = 0
    log: bool | None = None

    @property
    def ordered(self) -> bool:
        return any(not split.closed for split in self.splits) if self.log is None else self.log

    def open(self, split: Split, position: bytes | None) -> ScriptedReader:
        return ScriptedReader(self, split.number, msgspec.msgpack.decode(position, type=int) if position else 0)


class ScriptedReader(SplitReader):
    def __init__(self, source: ScriptedSource, number: int, start: int) -> None:
        self._source = source
        self._split = source.splits[number]
        self._number = number
        self._next = start
        self._reads = 0
        self._empty_answers = 0

    def read(self, rows_max: int, now_ms: int) -> pl.DataFrame | None:
        self._reads += 1
        if not self._split.reachable or (self._source.hiccup and self._reads % self._source.hiccup == 0):
            return None
        rows = self._split.rows.slice(self._next, min(rows_max, self._source.batch_rows))
        self._next += rows.height
        self._empty_answers += rows.is_empty()
        return rows if rows.height else None

    @property
    def position(self) -> bytes:
        return msgspec.msgpack.encode(self._next)

    @property
    def finished(self) -> bool:
        return self._split.closed and self._next >= self._split.rows.height

    @property
    def empty_answers(self) -> int:
        return self._empty_answers

    def describe(self) -> str:
        return f"split {self._number} row {self._next}"


class ScriptedEnumerator(SplitEnumerator):
    """Driver side: finds what is there and was not before."""

    def __init__(self, source: ScriptedSource) -> None:
        self._source = source
        self._known = 0
        self.ordered = self.endless = source.ordered

    def discover(self, now_ms: int) -> tuple[Split, ...]:
        found = range(self._known, len(self._source.splits))
        self._known = len(self._source.splits)
        self.ordered = self.endless = self._source.ordered
        return tuple(self._split(number) for number in found)

    def snapshot(self) -> bytes:
        return msgspec.msgpack.encode(self._known)

    def restore(self, state: bytes, known: tuple[Split, ...]) -> tuple[Split, ...]:
        # Nothing is stored by a checkpoint that was taken before the first look.
        stored = msgspec.msgpack.decode(state, type=int) if state else 0
        numbers = set(range(stored)) | {split.number for split in known}
        self._known = max(numbers, default=-1) + 1
        return tuple(self._split(number) for number in sorted(numbers))

    def _split(self, number: int) -> Split:
        told = self._source.splits[number]
        return Split(number=number, payload=b"", earliest_us=told.earliest_us, cut=told.cut)

    @property
    def bounded(self) -> bool:
        return all(split.closed for split in self._source.splits)


@dataclass(slots=True)
class ScriptedSink(SinkCommitter):
    """Prepared output is kept by transaction name; committing twice, or late, changes nothing."""

    prepared: dict[str, pl.DataFrame] = field(default_factory=dict)
    visible: dict[str, pl.DataFrame] = field(default_factory=dict)
    """Committed output by transaction, in the order of the commits."""
    written: list[pl.DataFrame] = field(default_factory=list)
    """Everything that reached a writer, committed or not."""

    def writer(self, sink: Sink, attempt: Attempt, subtask: SlotIndex) -> ScriptedWriter:
        return ScriptedWriter(self, sink.id, attempt, subtask)

    def commit(self, committables: tuple[Committable, ...]) -> None:
        for committable in sorted(committables, key=lambda one: one.place):
            name = committable.payload.decode()
            self.visible.setdefault(name, self.prepared[name])

    def sweep(self, older_than: Attempt, keep: tuple[Committable, ...]) -> None:
        kept = {committable.payload.decode() for committable in keep}
        self.prepared = {
            name: rows
            for name, rows in self.prepared.items()
            if name in kept or name in self.visible or int(name.split("/")[1]) >= older_than
        }

    def rows(self) -> list[tuple[object, ...]]:
        """All committed rows, sorted by their text: a multiset to compare."""
        return sorted((row for frame in self.visible.values() for row in frame.rows()), key=repr)


class ScriptedWriter(SinkWriter):
    def __init__(self, sink: ScriptedSink, operator: OperatorId, attempt: Attempt, subtask: SlotIndex) -> None:
        self._sink = sink
        self._name = f"{operator}/{attempt}/{subtask}"
        self._open: list[pl.DataFrame] = []

    def write(self, rows: pl.DataFrame) -> None:
        self._open.append(rows)
        self._sink.written.append(rows)

    def prepare(self, checkpoint: CheckpointId) -> tuple[bytes, ...]:
        if not self._open:
            return ()
        name = f"{self._name}/{checkpoint}"
        self._sink.prepared[name] = pl.concat(self._open)
        self._open = []
        return (name.encode(),)


@dataclass(frozen=True, slots=True)
class ScriptedConnectors:
    """Finds sources and sinks by operator id."""

    sources: Mapping[OperatorId, ScriptedSource]
    sinks: Mapping[OperatorId, ScriptedSink]

    def source(self, scan: Scan) -> ScriptedSource:
        return self.sources[scan.id]

    def writer(self, sink: Sink, attempt: Attempt, subtask: SlotIndex) -> SinkWriter:
        return self.sinks[sink.id].writer(sink, attempt, subtask)

    def enumerator(self, scan: Scan) -> ScriptedEnumerator:
        return ScriptedEnumerator(self.sources[scan.id])

    def commit(self, sink: Sink, committables: tuple[Committable, ...]) -> None:
        self.sinks[sink.id].commit(committables)
