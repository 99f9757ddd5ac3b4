"""The head of a stream: opens the splits it is given, reads them in turn, and knows where it stands."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Protocol, TypeAlias

import msgspec

from tidegate.model.config import QueryConfig
from tidegate.model.elements import (
    WATERMARK_MAX_US,
    WATERMARK_MIN_US,
    Active,
    Batch,
    EndOfData,
    Idle,
    Output,
    SourceStatus,
    Watermark,
)
from tidegate.model.holding import Holder
from tidegate.model.ids import CheckpointId
from tidegate.model.messages import AssignSplits
from tidegate.model.snapshot import FinishedSplit, SourceProgress
from tidegate.operators.protocol import Operator, OperatorContext, OperatorState
from tidegate.operators.source.finished import FinishedSplits
from tidegate.operators.source.holding import holders_of_logs
from tidegate.operators.source.informing import Informing
from tidegate.operators.source.open_split import Idleness, OpenSplit
from tidegate.operators.source.supply import SplitRequest, Starting, Supplied, Supply, Waiting
from tidegate.operators.source.time_telling import TimeTelling
from tidegate.operators.values import decoded
from tidegate.plan.relational import Scan
from tidegate.ports.source import SourceConnector

POLL_MIN_MS = 5.0
"""Readers that had rows the last time and have none now are asked again after this long, …"""
POLL_MAX_MS = 50.0
"""… and at the latest after this long."""
POLL_QUIET_PART = 0.5
"""In between: after this part of the time for which there were none. Rows wait little compared with how long they were waited for."""

FromSource: TypeAlias = Batch | Watermark | Idle | Active | SourceStatus | EndOfData


class EventTimes(Protocol):
    """What the chain behind a source knows of the times of its rows."""

    def largest_us(self, split: int) -> int:
        """Largest event time of the rows that have passed."""
        ...

    def forget(self, split: int) -> int:
        """The split has been read to its end: the same, for the last time."""
        ...


@dataclass(frozen=True, slots=True)
class Reading:
    """Splits are read, or waited for."""


@dataclass(frozen=True, slots=True)
class Draining:
    """Nothing more is read: the end follows as if all input had been."""


@dataclass(frozen=True, slots=True)
class Ended:
    """EndOfData has been emitted."""


Activity: TypeAlias = Reading | Draining | Ended


@dataclass(frozen=True, slots=True)
class Bringing:
    """The last poll brought rows, or there has been a reason to hope since."""


@dataclass(frozen=True, slots=True)
class Silent:
    """Polls have brought nothing since."""

    since_ms: float


class SourceOperator(Operator):
    """Reads splits round robin, one batch per poll. The loop feeds what ``poll`` returns through the rest of the chain
    before it polls or snapshots again: so the readers' positions are those of the last *emitted* rows."""

    def __init__(
        self, node: Scan, context: OperatorContext, connector: SourceConnector, config: QueryConfig, now_ms: float = 0.0
    ) -> None:
        super().__init__()
        self.id = node.id
        self._connector = connector
        self._informing = Informing(connector)
        self._config = config
        self._times: EventTimes | None = None
        self._telling = TimeTelling(config)
        self._supply = Supply(Starting(now_ms))
        self._activity: Activity = Reading()
        self._traffic: Bringing | Silent = Bringing()
        self._has_news = False
        """The driver has said something since the last poll, which those behind may have to hear."""
        self._poll_at_ms = now_ms
        self._now_ms = now_ms
        """The newest moment that the loop has told."""
        self._open: deque[OpenSplit] = deque()
        self._known: set[int] = set()
        self._finished = FinishedSplits({})
        restored = [decoded(value, Idleness, "the idleness of a source") for value in context.restored.values]
        self._restored_idle_splits = frozenset(split for one in restored for split in one.splits)

    def take_place(self, times: EventTimes | None, *, meets_others: bool = False, is_far: bool = False) -> None:
        """``times``: what the chain behind it knows; None: it makes no watermark. ``meets_others``: the driver tells readers that rest what
        time it is. ``is_far``: somebody makes one who does not know the splits any more, whenever everything rests."""
        self._times = times
        self._telling.take_place(makes_watermark=times is not None, meets_others=meets_others, is_far=is_far)

    # --- the driver ---------------------------------------------------------------------------------------------------

    def assign(self, message: AssignSplits, now_ms: float) -> bool:
        """Takes in what the driver says. True: rows may follow, and those behind must know before the first comes."""
        wakes = False
        if self._supply.takes(message):
            wakes = self._accept(message, now_ms)
        self._supply = self._supply.confirming(len(self._open))
        return wakes

    def _accept(self, message: AssignSplits, now_ms: float) -> bool:
        self._now_ms = now_ms
        self._has_news = True
        for position in message.splits:
            number = position.split.number
            if number in self._known:
                continue
            self._known.add(number)
            opened = OpenSplit(position.split, position.position, position.largest_us)
            if number in self._restored_idle_splits:
                opened.quiet.expect()
            if position.largest_us > WATERMARK_MIN_US:
                self._telling.reached(number, position.largest_us)
            self._open.append(opened)
        if message.answers and (message.splits or not self._supply.answered):
            self._traffic = Bringing()
        if self._finished.heard(message.heard):
            self._supply = replace(self._supply, tell_at_ms=float("inf"))
        self._supply = self._supply.took(message, self._config, now_ms)
        self._poll_at_ms = now_ms
        return self._telling.wakes(rests=self._rests)

    def ask(self, now_ms: float) -> SplitRequest | None:
        """What to tell the driver, if it is time to ask for splits or to tell of some that are finished."""
        if isinstance(self._activity, Draining | Ended) and not self._supply.confirm:
            return None
        repeat_ms = self._config.message_repeat_ms
        finished = self._finished.unheard
        self._supply, request = self._supply.ask(len(self._open), finished, now_ms, repeat_ms)
        if request is not None:
            self._finished.told(request.number)
        return request

    @property
    def next_ask_ms(self) -> float:
        if isinstance(self._activity, Draining | Ended) and not self._supply.confirm:
            return float("inf")
        return self._supply.next_ms(len(self._open))

    def drain(self, now_ms: float) -> None:
        """Nothing more is read. Open splits stay open, where they are."""
        if isinstance(self._activity, Reading):
            self._activity = Draining()
            self._poll_at_ms = now_ms

    @property
    def exhausted(self) -> bool:
        """EndOfData has been emitted."""
        return isinstance(self._activity, Ended)

    @property
    def open_splits(self) -> int:
        return len(self._open)

    @property
    def known_splits(self) -> int:
        """How many splits it remembers: open ones, and finished ones that no completed checkpoint has as done."""
        return len(self._known)

    # --- reading ------------------------------------------------------------------------------------------------------

    @property
    def drained(self) -> bool:
        """Everything assigned so far has been handed out, as far as the readers know, and so has the news about it: watermarks
        depend on that."""
        asked = self._supply.answered and isinstance(self._traffic, Silent) and not self._has_news
        return self.exhausted or (asked and all(one.caught_up for one in self._open))

    def poll_again(self, now_ms: float) -> None:
        """Not drained until a poll from now on finds nothing."""
        self._poll_at_ms, self._traffic = now_ms, Bringing()
        for one in self._open:
            one.look()

    def ready(self, now_ms: float) -> bool:
        return not self.exhausted and now_ms >= self._poll_at_ms

    @property
    def next_poll_ms(self) -> float:
        return float("inf") if self.exhausted else self._poll_at_ms

    def poll(self, rows_max: int, now_ms: float) -> tuple[FromSource, ...]:
        """The next rows and what changed around them, in order. Empty: nothing for now, see ``next_poll_ms``."""
        self._now_ms = now_ms
        match self._activity:
            case Ended():
                return ()
            case Draining():
                return self._end()
            case Reading():
                pass
        self._has_news = False
        batch = self._read(rows_max, now_ms)
        if not self._supply.news.ordered or self._rests:
            # A reader of logs that has some to read tells its own time. What the driver says meanwhile counts from the next rest on: it
            # says it once.
            self._telling.granted(self._supply.news.granted_us)
        status = self._telling.status(self._supply, self._active_logs)
        if batch is not None:
            self._traffic = Bringing()
            self._telling.brought_rows()
            self._poll_at_ms = now_ms
            return (*status, batch)
        if self._is_over:
            return (*status, *self._end())
        if isinstance(self._traffic, Bringing):
            self._traffic = Silent(now_ms)
        idle = self._telling.idleness(self._supply, now_ms, rests=self._rests, again=bool(status))
        self._poll_at_ms = self._next_look_ms(self._traffic, now_ms)
        return (*status, *idle)

    def _next_look_ms(self, silent: Silent, now_ms: float) -> float:
        """When to poll again after a poll without rows."""
        if self._open:
            pause_ms = (now_ms - silent.since_ms) * POLL_QUIET_PART
            return now_ms + min(max(POLL_MIN_MS, pause_ms), POLL_MAX_MS)
        # There is nothing to read before the next assignment, and nothing to say but that it has been quiet for very long.
        return self._telling.lets_go_at_ms

    def _read(self, rows_max: int, now_ms: float) -> Batch | None:
        """Rows of the first open split that has some. A split that ends with them is closed at the next poll, when they are out."""
        for _ in range(len(self._open)):
            current = self._open[0]
            reader = current.opened(self._connector)
            if reader.finished:
                self._close_split(current)
                continue
            rows = current.read(rows_max, now_ms)
            self._open.rotate(-1)
            if rows is not None:
                return Batch(rows, current.number)
            if reader.finished:
                self._open.rotate(1)
                self._close_split(current)
            else:
                current.note_nothing(now_ms)
        return None

    def _close_split(self, current: OpenSplit) -> None:
        assert self._open[0] is current
        self._open.popleft()
        largest_us = max(current.largest_us, self._times.forget(current.number)) if self._times else current.largest_us
        self._finished.add(FinishedSplit(current.number, largest_us))
        self._supply = self._supply.finished_one()
        self._informing.ended(current.position(largest_us))
        current.close()

    # --- event time ---------------------------------------------------------------------------------------------------

    @property
    def _active_logs(self) -> frozenset[int]:
        """Whole splits tell no time of their own: the driver does."""
        if not self._supply.answered or not self._supply.news.ordered:
            return frozenset()
        return frozenset(one.number for one in self._open if not self._counts_as_idle(one))

    @property
    def _rests(self) -> bool:
        """Nothing is coming for now. Of whole splits the driver knows; of logs their sources have said so for long enough."""
        if not self._supply.answered:
            return False
        if not self._supply.news.ordered:
            return not self._supply.news.unread and not self._open
        if self._config.bounded or not (self._open or isinstance(self._supply.state, Waiting)):
            return False
        return all(self._counts_as_idle(one) for one in self._open)

    @property
    def is_quiet_log(self) -> bool | None:
        """Whether this reader of logs has nothing to tell the time by; None: it reads whole splits, or does not know yet."""
        if not self._supply.answered or not self._supply.news.ordered or self._config.bounded:
            return None
        return self._rests

    def _counts_as_idle(self, one: OpenSplit) -> bool:
        return not self._config.bounded and one.rests(self._config.idle_timeout_ms, self._now_ms)

    # --- the end ------------------------------------------------------------------------------------------------------

    @property
    def _is_over(self) -> bool:
        """Also the last watermark has come: without it the end of this channel would say that none will."""
        return isinstance(self._supply.state, Supplied) and not self._open and not self._supply.news.unread

    def _end(self) -> tuple[FromSource, ...]:
        draining = isinstance(self._activity, Draining)
        self._activity = Ended()
        if draining:
            return (SourceStatus(frozenset(), holding=False), Watermark(WATERMARK_MAX_US), EndOfData())
        status = self._telling.status(self._supply, self._active_logs)
        last = (Watermark(WATERMARK_MAX_US),) if self._config.drain else ()
        return (*status, *last, EndOfData())

    def holders(self) -> tuple[Holder, ...]:
        """What of its logs holds event time back, for people. Of whole splits the driver knows."""
        if self._times is None or not self._supply.answered or not self._supply.news.ordered or self.exhausted:
            return ()
        active = [one for one in self._open if not self._counts_as_idle(one)]
        return holders_of_logs(self.id, active, self._largest_us)

    def describe(self) -> str:
        """Where it stands, for people: the split read last, and how many more are open."""
        last = next((one.reader for one in reversed(self._open) if one.reader is not None), None)
        if last is None:
            return ""
        return last.describe() + (f" (and {len(self._open) - 1} more)" if len(self._open) > 1 else "")

    def on_batch(self, batch: Batch) -> Iterator[Output]:
        raise NotImplementedError("a source has no input")

    # --- checkpoints --------------------------------------------------------------------------------------------------

    def snapshot(self, checkpoint: CheckpointId) -> OperatorState:
        self._finished.reported(checkpoint)
        progress = SourceProgress(
            open=tuple(one.position(self._largest_us(one)) for one in self._open), finished=self._finished.all
        )
        self._informing.reached(checkpoint, progress.open)
        quiet = tuple(sorted(one.number for one in self._open if self._counts_as_idle(one)))
        return OperatorState(source=progress, value=msgspec.msgpack.encode(Idleness(splits=quiet)))

    def _largest_us(self, one: OpenSplit) -> int:
        return max(one.largest_us, self._times.largest_us(one.number)) if self._times is not None else one.largest_us

    def on_completed(self, checkpoint: CheckpointId) -> None:
        """No assignment names what is done any more."""
        self._known.difference_update(self._finished.completed(checkpoint))
        self._informing.completed(checkpoint)

    def close(self) -> None:
        for one in self._open:
            one.close()
        self._connector.close()
