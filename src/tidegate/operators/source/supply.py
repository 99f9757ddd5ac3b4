"""What a reader and the driver's split assigner say to each other: questions for splits, answers, and how far event time may go."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias

from tidegate.model.config import QueryConfig
from tidegate.model.elements import WATERMARK_MIN_US
from tidegate.model.messages import AssignSplits
from tidegate.model.snapshot import FinishedSplit

SPLITS_AHEAD = 2
"""More splits are asked for when fewer than this are open: the next one is here when the last one ends."""

ASK_AGAIN_MS = 500.0
"""An unanswered question is repeated after this long."""


@dataclass(frozen=True, slots=True)
class Starting:
    """Never answered: nobody knows what this reader will be given, so its watermark waits."""

    ask_at_ms: float


@dataclass(frozen=True, slots=True)
class Asking:
    """The last answer brought splits; there may be more."""

    ask_at_ms: float


@dataclass(frozen=True, slots=True)
class Waiting:
    """The last answer was empty: the assigner knows that this reader waits, and has none for it."""

    ask_at_ms: float


@dataclass(frozen=True, slots=True)
class Supplied:
    """No more splits will come."""


State: TypeAlias = Starting | Asking | Waiting | Supplied


@dataclass(frozen=True, slots=True)
class News:
    """What the driver knows of the whole source, as of its newest message."""

    unassigned: bool = False
    ordered: bool = False
    unread: bool = True
    granted_us: int = WATERMARK_MIN_US
    rest: int = 0


@dataclass(frozen=True, slots=True)
class SplitRequest:
    """Content of a SplitsWanted."""

    open: int
    finished: tuple[FinishedSplit, ...]
    received: int
    number: int
    asks: bool


@dataclass(frozen=True, slots=True)
class Supply:
    """One reader's side. Messages are taken in the order of their numbers, each once; one behind a gap is left: what has been
    ``received`` has it sent again."""

    state: State
    news: News = News()
    received: int = 0
    said: int = 0
    """How many messages have been sent."""
    confirm: bool = False
    """A message came that no question will follow soon: say that it has arrived."""
    tell_at_ms: float = float("inf")
    """When splits that are finished are reported, for the first time or again."""

    @property
    def answered(self) -> bool:
        return not isinstance(self.state, Starting)

    def takes(self, message: AssignSplits) -> bool:
        return message.sequence == self.received

    def took(self, message: AssignSplits, config: QueryConfig, now_ms: float) -> Supply:
        granted_us = max(self.news.granted_us, message.watermark_us)
        news = News(message.unassigned, message.ordered, message.unread, granted_us, message.rest)
        return replace(self, state=self._after(message, config, now_ms), news=news, received=self.received + 1)

    def _after(self, message: AssignSplits, config: QueryConfig, now_ms: float) -> State:
        if message.no_more or isinstance(self.state, Supplied):
            return Supplied()
        if not message.answers:
            return self.state
        if message.splits:
            return Asking(now_ms)
        # Whoever waits for a split gets the next one without asking: another question is only for messages that were lost.
        # While others have splits on their way, what is left may be everybody's soon.
        pause_ms = config.discovery_interval_ms
        if not message.unassigned:
            pause_ms = max(pause_ms, config.message_repeat_ms // 2)
        return Waiting(now_ms + pause_ms)

    def confirming(self, open_splits: int) -> Supply:
        return replace(self, confirm=isinstance(self.state, Supplied) or open_splits >= SPLITS_AHEAD)

    def finished_one(self) -> Supply:
        """A split has ended: that is told at once."""
        return replace(self, tell_at_ms=float("-inf"))

    def next_ms(self, open_splits: int) -> float:
        if self.confirm:
            return float("-inf")
        match self.state:
            case Starting(ask_at_ms) | Asking(ask_at_ms) | Waiting(ask_at_ms) if open_splits < SPLITS_AHEAD:
                return min(ask_at_ms, self.tell_at_ms)
            case _:
                return self.tell_at_ms

    def ask(
        self, open_splits: int, finished: tuple[FinishedSplit, ...], now_ms: float, repeat_ms: float
    ) -> tuple[Supply, SplitRequest | None]:
        """What to tell the assigner now, if anything."""
        if now_ms < self.next_ms(open_splits):
            return self, None
        state, asks = self.state, False
        match state:
            case Starting(ask_at_ms) | Asking(ask_at_ms) | Waiting(ask_at_ms):
                if open_splits < SPLITS_AHEAD and now_ms >= ask_at_ms:
                    state, asks = replace(state, ask_at_ms=now_ms + ASK_AGAIN_MS), True
            case Supplied():
                pass
        request = SplitRequest(open_splits, finished, self.received, self.said, asks)
        tell_at_ms = now_ms + repeat_ms if finished else float("inf")
        return replace(self, state=state, said=self.said + 1, confirm=False, tell_at_ms=tell_at_ms), request
