"""The head of a stream: opens the splits it is given, reads them in turn, and knows where it stands."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

import msgspec

from tidegate.eventtime.quiet import Quiet
from tidegate.model.config import QueryConfig
from tidegate.model.elements import (
    WATERMARK_MAX_US,
    Batch,
    EndOfData,
    Idle,
    Output,
    SourceStatus,
    Watermark,
)
from tidegate.model.ids import CheckpointId
from tidegate.model.messages import AssignSplits
from tidegate.model.snapshot import SourceProgress, Split, SplitPosition
from tidegate.operators.ports import AwaitingReader, FetchingReader, InformedSource, SourceConnector, SplitReader
from tidegate.operators.protocol import OperatorContext, OperatorState, Stateless
from tidegate.plan.relational import Scan

SPLITS_AHEAD = 2
"""More splits are asked for when fewer than this are open: the next one is here when the last one ends."""

ASK_AGAIN_MS = 500.0
"""An unanswered question is repeated after this long."""

POLL_MIN_MS = 5.0
"""Readers that had rows the last time and have none now are asked again after this long, …"""
POLL_MAX_MS = 50.0
"""… and at the latest after this long."""
POLL_QUIET_PART = 0.5
"""In between: after this part of the time for which there were none. Rows wait little compared with how long they were waited for."""

FromSource: TypeAlias = Batch | Watermark | Idle | SourceStatus | EndOfData


class Idleness(msgspec.Struct, frozen=True, kw_only=True, tag_field="format", tag="source-idleness/1"):
    """Which splits brought no rows at the barrier, and whether the whole subtask counted as idle."""

    splits: tuple[int, ...] = ()
    idle: bool = False


@dataclass(frozen=True, slots=True)
class SplitRequest:
    """Content of a SplitsWanted."""

    open: int
    finished: tuple[int, ...]
    received: int
    asks: bool


@dataclass(slots=True)
class _OpenSplit:
    split: Split
    start: bytes | None
    quiet: Quiet = field(default_factory=Quiet)
    reader: SplitReader | None = None
    emitted: bool = False

    @property
    def position(self) -> bytes | None:
        return self.reader.position if self.reader is not None and self.emitted else self.start


class SourceOperator(Stateless):
    """Reads splits round robin, one batch per poll. The loop feeds what ``poll`` returns through the rest of the chain
    before it polls or snapshots again: so the readers' positions are those of the last *emitted* rows."""

    def __init__(
        self, node: Scan, context: OperatorContext, connector: SourceConnector, config: QueryConfig, now_ms: float = 0.0
    ) -> None:
        super().__init__()
        self.id = node.id
        self._connector = connector
        self._informed = connector if isinstance(connector, InformedSource) else None
        self._config = config
        self._open: deque[_OpenSplit] = deque()
        self._known: set[int] = set()
        self._finished: dict[int, CheckpointId | None] = {}
        """Finished split → first checkpoint that reported it."""
        self._unheard: set[int] = set()
        """Finished, and the enumerator has not answered since it was told: it counts what each reader holds."""
        self._told: frozenset[int] = frozenset()
        self._received = 0
        self._confirm = False
        """An assignment came that no question will follow soon: say that it has arrived."""
        self._ask_at_ms = now_ms
        self._answered = False
        self._told_nothing = False
        """The last answer had no split: the enumerator knows that this reader waits, and has none for it."""
        self._unassigned = False
        self._no_more = False
        self._draining = False
        self._status: SourceStatus | None = None
        self._idle = False
        self._quiet = Quiet()
        self._poll_at_ms = now_ms
        self._empty_polls = 0
        """Since there were rows, splits, or a wish to know."""
        self._quiet_ms = now_ms
        """Since when."""
        self._ended: list[SplitPosition] = []
        self._reached: dict[CheckpointId, tuple[SplitPosition, ...]] = {}
        """What each checkpoint under way will tell the source when it is complete. With ``_ended``, empty if it need not know."""
        self.exhausted = False
        """EndOfData has been emitted."""
        restored = [msgspec.msgpack.decode(value, type=Idleness) for value in context.restored.values]
        self._restored_idle_splits = frozenset(split for one in restored for split in one.splits)
        self._restored_idle = any(one.idle for one in restored)

    def assign(self, message: AssignSplits, now_ms: float) -> None:
        """Takes assignments in the order of their numbers, each once. One behind a gap is left: ``received`` has it sent again."""
        if message.sequence == self._received:
            self._received += 1
            self._accept(message, now_ms)
        self._confirm = self._no_more or len(self._open) >= SPLITS_AHEAD

    def drain(self, now_ms: float) -> None:
        """Nothing more is read: the end follows as if all input had been. Open splits stay open, where they are."""
        self._draining = True
        self._poll_at_ms = now_ms

    def _accept(self, message: AssignSplits, now_ms: float) -> None:
        for position in message.splits:
            number = position.split.number
            if number in self._known:
                continue
            self._known.add(number)
            opened = _OpenSplit(position.split, position.position)
            if number in self._restored_idle_splits:
                opened.quiet.always()
            self._open.append(opened)
        if message.splits or not self._answered:
            self._empty_polls = 0
        self._answered = True
        self._told_nothing = not message.splits
        self._unheard -= self._told
        self._told = frozenset()
        self._unassigned = message.unassigned
        self._no_more |= message.no_more
        self._ask_at_ms = now_ms if message.splits else now_ms + self._ask_pause_ms
        self._poll_at_ms = now_ms
        if self._restored_idle and not self._unassigned:
            self._quiet.always()

    def ask(self, now_ms: float) -> SplitRequest | None:
        """What to tell the enumerator when it is time to ask for splits, for the first time or again."""
        asks = self._wants_more and now_ms >= self._ask_at_ms
        if not asks and not self._confirm:
            return None
        self._confirm = False
        if asks:
            self._ask_at_ms = now_ms + ASK_AGAIN_MS
        self._told = frozenset(self._unheard)
        return SplitRequest(len(self._open), tuple(sorted(self._unheard)), self._received, asks)

    @property
    def _ask_pause_ms(self) -> float:
        """After the answer that there is nothing. Whoever waits for a split gets the next one without asking: another question is
        only for messages that were lost. While others have splits on their way, what is left may be everybody's soon."""
        discovery_ms = self._config.discovery_interval_ms
        return discovery_ms if self._unassigned else max(discovery_ms, self._config.message_repeat_ms / 2)

    @property
    def _wants_more(self) -> bool:
        return not self._no_more and not self._draining and len(self._open) < SPLITS_AHEAD

    @property
    def open_splits(self) -> int:
        return len(self._open)

    @property
    def known_splits(self) -> int:
        """How many splits it remembers: open ones, and finished ones that no completed checkpoint has as done."""
        return len(self._known)

    @property
    def drained(self) -> bool:
        """Everything assigned so far has been handed out, as far as the readers know, and so has the news about it: watermarks
        depend on that."""
        readers = (one.reader for one in self._open if isinstance(one.reader, FetchingReader))
        asked = self._answered and self._empty_polls > 0
        return self.exhausted or (asked and all(reader.caught_up for reader in readers))

    def poll_again(self, now_ms: float) -> None:
        """Not drained until a poll from now on finds nothing."""
        self._poll_at_ms, self._empty_polls = now_ms, 0
        for one in self._open:
            if isinstance(one.reader, FetchingReader):
                one.reader.look()

    def ready(self, now_ms: float) -> bool:
        return not self.exhausted and now_ms >= self._poll_at_ms

    @property
    def next_ask_ms(self) -> float:
        if self._confirm:
            return float("-inf")
        return self._ask_at_ms if self._wants_more else float("inf")

    @property
    def next_poll_ms(self) -> float:
        return float("inf") if self.exhausted else self._poll_at_ms

    def poll(self, rows_max: int, now_ms: float) -> tuple[FromSource, ...]:
        """The next rows and what changed around them, in order. Empty: nothing for now, see ``next_poll_ms``."""
        if self.exhausted:
            return ()
        if self._draining:
            return self._end()
        batch = self._read(rows_max, now_ms)
        before = self._report_status()
        if batch is not None:
            self._idle = self._restored_idle = False
            self._quiet.rows()
            self._poll_at_ms, self._empty_polls = now_ms, 0
            return (*before, batch)
        end = self._end_if_over()
        if end:
            return (*before, *end)
        if not self._empty_polls:
            self._quiet_ms = now_ms
        self._empty_polls += 1
        # While it waits for an answer nobody knows: what it is about to be given may be older than what others have read.
        if self._told_nothing or not self._wants_more:
            self._quiet.nothing(now_ms)
        if not self._idle and self._is_idle:
            self._idle = True
            before = (*before, Idle())
        self._poll_at_ms = self._next_look_ms(now_ms)
        return before

    def _next_look_ms(self, now_ms: float) -> float:
        """When to poll again after a poll without rows."""
        if self._open:
            pause_ms = (now_ms - self._quiet_ms) * POLL_QUIET_PART
            return now_ms + min(max(POLL_MIN_MS, pause_ms), POLL_MAX_MS)
        # There is nothing to read before the next assignment, and nothing to say but that.
        waits_for_idleness = not self._idle and not self._config.bounded
        return self._quiet.lasts_at_ms(self._config.idle_timeout_ms) if waits_for_idleness else float("inf")

    def _read(self, rows_max: int, now_ms: float) -> Batch | None:
        """Rows of the first open split that has some. A split that ends with them is closed at the next poll, when they are out."""
        for _ in range(len(self._open)):
            current = self._open[0]
            if current.reader is None:
                current.reader = self._connector.open(current.split, current.start)
            if current.reader.finished:
                self._close_split(current)
                continue
            rows = current.reader.read(rows_max, int(now_ms))
            current.emitted = True
            self._open.rotate(-1)
            if rows is not None and rows.height:
                current.quiet.rows()
                return Batch(rows, current.split.number)
            if current.reader.finished:
                self._open.rotate(1)
                self._close_split(current)
            elif not _awaits_rows(current.reader):
                current.quiet.nothing(now_ms)
        return None

    def _close_split(self, current: _OpenSplit) -> None:
        assert self._open[0] is current
        self._open.popleft()
        self._finished[current.split.number] = None
        self._unheard.add(current.split.number)
        if self._informed is not None:
            self._ended.append(SplitPosition(split=current.split, position=current.position))
        if current.reader is not None:
            current.reader.close()

    def _report_status(self) -> tuple[SourceStatus, ...]:
        """Idle splits are left out: they hold no watermark back. Nothing is idle in a bounded run."""
        active = frozenset(one.split.number for one in self._open if not self._counts_as_idle(one.quiet))
        status = SourceStatus(active, not self._answered or (self._config.bounded and self._unassigned))
        if status == self._status:
            return ()
        self._status = status
        return (status,)

    @property
    def _is_idle(self) -> bool:
        return self._counts_as_idle(self._quiet) and all(self._counts_as_idle(one.quiet) for one in self._open)

    def _counts_as_idle(self, quiet: Quiet) -> bool:
        return not self._config.bounded and quiet.lasts(self._config.idle_timeout_ms)

    def _end_if_over(self) -> tuple[FromSource, ...]:
        return self._end() if self._no_more and not self._open else ()

    def _end(self) -> tuple[FromSource, ...]:
        self.exhausted = True
        if self._draining:
            return (SourceStatus(frozenset(), holding=False), Watermark(WATERMARK_MAX_US), EndOfData())
        status = self._report_status()
        last = (Watermark(WATERMARK_MAX_US),) if self._config.drain else ()
        return (*status, *last, EndOfData())

    def describe(self) -> str:
        """Where it stands, for people: the split read last, and how many more are open."""
        last = next((one.reader for one in reversed(self._open) if one.reader is not None), None)
        if last is None:
            return ""
        return last.describe() + (f" (and {len(self._open) - 1} more)" if len(self._open) > 1 else "")

    def on_batch(self, batch: Batch) -> Iterator[Output]:
        raise NotImplementedError("a source has no input")

    def snapshot(self, checkpoint: CheckpointId) -> OperatorState:
        for number, reported in self._finished.items():
            if reported is None:
                self._finished[number] = checkpoint
        progress = SourceProgress(
            open=tuple(SplitPosition(split=one.split, position=one.position) for one in self._open),
            finished=tuple(sorted(self._finished)),
        )
        if self._informed is not None:
            self._reached[checkpoint] = (*self._ended, *progress.open)
        quiet = tuple(sorted(one.split.number for one in self._open if self._counts_as_idle(one.quiet)))
        return OperatorState(source=progress, value=msgspec.msgpack.encode(Idleness(splits=quiet, idle=self._idle)))

    def on_completed(self, checkpoint: CheckpointId) -> None:
        """What the checkpoint has as done is nobody's matter any more: no assignment names it again."""
        kept = {
            number: reported for number, reported in self._finished.items() if reported is None or reported > checkpoint
        }
        self._known.difference_update(self._finished.keys() - kept.keys())
        self._finished = kept
        self._inform(checkpoint)

    def _inform(self, checkpoint: CheckpointId) -> None:
        positions = self._reached.get(checkpoint)
        self._reached = {number: at for number, at in self._reached.items() if number > checkpoint}
        if positions and self._informed is not None:
            self._ended = [one for one in self._ended if one not in positions]
            self._informed.completed(positions)

    def close(self) -> None:
        for one in self._open:
            if one.reader is not None:
                one.reader.close()
        if self._informed is not None:
            self._informed.close()


def _awaits_rows(reader: SplitReader) -> bool:
    return isinstance(reader, AwaitingReader) and reader.awaits_rows
