"""Barriers that overtake rows: which one may not wait any longer, and the rows it leaves behind in the input channels.

A barrier overtakes when it came as one that did so elsewhere, or when its checkpoint was first seen in this subtask longer ago than the
timeout, by this slot's own clock. At the cut the rows before the barrier, in channels that have not brought it to its end, are part
of the snapshot; those still on their way are noted as they arrive. They are all processed as usual, too: rows are never copied and never
held.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import polars as pl

from tidegate.model.elements import Barrier, Batch, CancelCheckpoint, CheckpointKind
from tidegate.model.ids import ChannelId, CheckpointId
from tidegate.runtime.alignment import Aligning, Alignment
from tidegate.runtime.effects import Overtaken, Persist
from tidegate.runtime.input_channel import InputChannel


def may_overtake(barrier: Barrier) -> bool:
    """Savepoints hold no rows in flight, so that any query can start from them; at the end of all data nothing is in the way."""
    return barrier.kind not in (CheckpointKind.SAVEPOINT, CheckpointKind.FINAL)


@dataclass(slots=True)
class _Sight:
    """A barrier that has arrived in some channel and whose cut has not been taken."""

    barrier: Barrier
    since_ms: float | None = None
    """None until the loop looks: whoever puts an element into a queue need not know the time."""


@dataclass(slots=True)
class _Recording:
    """A cut whose rows are still arriving."""

    persist: Persist
    rows: dict[ChannelId, list[pl.DataFrame]]
    open: set[ChannelId]
    """Channels that have not brought the barrier yet."""

    def finished(self) -> Persist:
        channels = tuple(
            Overtaken(channel.edge, channel.source, tuple(frames)) for channel, frames in self.rows.items() if frames
        )
        return replace(self.persist, in_flight=(*self.persist.in_flight, *channels))


@dataclass(slots=True)
class Overtaking:
    """Of one subtask; watches its input channels. ``finished``: snapshots that are complete now, to be taken by the subtask."""

    inputs: tuple[InputChannel, ...]
    timeout_ms: float
    finished: list[Persist] = field(default_factory=list)
    _sights: dict[CheckpointId, _Sight] = field(default_factory=dict)
    _recordings: dict[CheckpointId, _Recording] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for one in self.inputs:
            one.watcher = self

    def arrived(self, channel: ChannelId, element: Batch | Barrier | CancelCheckpoint) -> None:
        match element:
            case Batch(rows=rows):
                for recording in self._recordings.values():
                    if channel in recording.open:
                        recording.rows[channel].append(rows)
            case Barrier(checkpoint=checkpoint):
                sight = self._sights.setdefault(checkpoint, _Sight(element))
                if element.unaligned:
                    sight.barrier = element
                self._close(channel, checkpoint)
            case CancelCheckpoint(checkpoint=checkpoint):
                self.discard(checkpoint)

    def _close(self, channel: ChannelId, checkpoint: CheckpointId) -> None:
        for number, recording in list(self._recordings.items()):
            if channel not in recording.open or number > checkpoint:
                continue
            if number < checkpoint:
                self.discard(number)  # Its barrier never comes here any more.
                continue
            recording.open.discard(channel)
            if not recording.open:
                del self._recordings[number]
                self.finished.append(recording.finished())

    def due(self, now: Alignment, now_ms: float) -> Barrier | None:
        """The barrier to be taken at once, if there is one: cuts are taken in order, and a savepoint is never overtaken."""
        if not self._sights:
            return None
        self.prune(now)
        pressing = False
        for sight in self._sights.values():
            if sight.since_ms is None:
                sight.since_ms = now_ms
            pressing |= may_overtake(sight.barrier) and (
                sight.barrier.unaligned or now_ms - sight.since_ms >= self.timeout_ms
            )
        return self._sights[min(self._sights)].barrier if pressing and not self._blocked else None

    def prune(self, now: Alignment) -> None:
        """Forgets barriers that mean nothing any more: passed, given up, or left behind by the one being aligned."""
        pending = now.barrier.checkpoint if isinstance(now, Aligning) else 0
        for checkpoint in [one for one in self._sights if one in now.over or one < pending]:
            del self._sights[checkpoint]

    @property
    def _blocked(self) -> bool:
        """The oldest is one that waits for its turn, whatever happens, and all others wait behind it."""
        return not may_overtake(self._sights[min(self._sights)].barrier)

    @property
    def next_due_ms(self) -> float:
        """When to look again, if nothing else happens."""
        if self.finished or any(sight.since_ms is None for sight in self._sights.values()):
            return float("-inf")
        if not self._sights or self._blocked:
            return float("inf")
        return min(
            float("-inf") if sight.barrier.unaligned else sight.since_ms + self.timeout_ms
            for sight in self._sights.values()
            if sight.since_ms is not None and may_overtake(sight.barrier)
        )

    def since_ms(self, checkpoint: CheckpointId, now_ms: float) -> float:
        """When the checkpoint was first seen in this subtask."""
        sight = self._sights.get(checkpoint)
        return now_ms if sight is None or sight.since_ms is None else sight.since_ms

    def left_behind(
        self, checkpoint: CheckpointId, arrived: frozenset[ChannelId]
    ) -> tuple[dict[ChannelId, list[pl.DataFrame]], set[ChannelId]] | None:
        """Rows before the barrier in channels that are not in ``arrived``, and the channels it has not come to yet.

        None: it never will in one of them, a newer one has come instead.
        """
        rows: dict[ChannelId, list[pl.DataFrame]] = {}
        missing: set[ChannelId] = set()
        for one in self.inputs:
            if one.channel in arrived:
                continue
            frames, barrier = one.rows_before(checkpoint)
            if barrier is not None and barrier.checkpoint > checkpoint:
                del self._sights[checkpoint]
                return None
            rows[one.channel] = list(frames)
            if barrier is None:
                missing.add(one.channel)
        return rows, missing

    def record(self, persist: Persist, rows: dict[ChannelId, list[pl.DataFrame]], missing: set[ChannelId]) -> None:
        """The cut was taken. Its snapshot is finished when the barrier has come in the ``missing`` channels too."""
        recording = _Recording(persist, rows, missing)
        self._sights.pop(persist.checkpoint, None)
        if missing:
            self._recordings[persist.checkpoint] = recording
        else:
            self.finished.append(recording.finished())

    def discard(self, checkpoint: CheckpointId) -> None:
        """The checkpoint was given up."""
        self._sights.pop(checkpoint, None)
        self._recordings.pop(checkpoint, None)
