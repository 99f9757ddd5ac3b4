"""What one reader of a source has been sent in this attempt, and what it has asked for."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tidegate.model.elements import WATERMARK_MIN_US
from tidegate.model.messages import AssignSplits, SplitsWanted


@dataclass(frozen=True, slots=True)
class Share:
    sequence: int = 0
    """Of the next AssignSplits."""
    answered: int = 0
    """Of the next one behind the last answer: whoever asked before that has been answered."""
    unconfirmed: tuple[AssignSplits, ...] = ()
    """Sent, and the reader has not said that it took them in: they may be lost, and are sent again."""
    wants: bool = False
    """Has asked and got nothing yet: first to get what is discovered."""
    unanswered: bool = False
    """Has asked and heard nothing yet: it must learn that there is nothing, or it holds its watermark back."""
    heard: int = 0
    """Behind the newest of its messages."""
    told_no_more: bool = False
    told_unread: bool = True
    told_rest: int = 0
    told_us: int = WATERMARK_MIN_US
    """The newest grant it has been sent."""

    def on_wanted(self, message: SplitsWanted) -> Share:
        unconfirmed = tuple(one for one in self.unconfirmed if one.sequence >= message.received)
        # Asked before the last answer arrived: that one is the answer, however often the question is repeated.
        asks = message.asks and message.received >= self.answered
        heard = max(self.heard, message.number + 1)
        return replace(self, unconfirmed=unconfirmed, heard=heard, wants=asks, unanswered=asks)

    def sent(self, message: AssignSplits) -> Share:
        return replace(
            self,
            sequence=self.sequence + 1,
            answered=self.sequence + 1 if message.answers else self.answered,
            unconfirmed=(*self.unconfirmed, message),
            wants=self.wants and not message.splits,
            unanswered=self.unanswered and not message.answers,
            told_no_more=self.told_no_more or message.no_more,
            told_unread=message.unread,
            told_rest=message.rest,
            told_us=max(self.told_us, message.watermark_us),
        )
