"""Who holds event time back: the one thing a person wants to know when windows stay open."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

import msgspec

from tidegate.model.elements import WATERMARK_MIN_US
from tidegate.model.ids import OperatorId


class HoldReason(Enum):
    """``waits_for_us`` and ``is_trouble`` say what to make of it."""

    UNREAD = "unread"
    """Splits are known and not read to their ends."""
    LOOK = "look"
    """All that is known has been read; it counts once a look has found nothing more."""
    BEHIND = "behind"
    """More was found meanwhile: what has been read counts once that has been read as well."""
    PARTITION = "partition"
    """Splits whose rows are the earliest: others are ahead of them."""
    UNANSWERED = "unanswered"
    """Splits that nobody can read for now: whether anything is there is not known."""
    STREAM = "stream"
    """A stream that brings no rows: it keeps its time, and others wait for it where they meet."""
    PAUSED = "paused"
    """Splits that are ahead and wait for others."""

    @property
    def waits_for_us(self) -> bool:
        """Goes by as soon as everything that is there has been read."""
        return self in (HoldReason.UNREAD, HoldReason.LOOK, HoldReason.BEHIND)

    @property
    def is_trouble(self) -> bool:
        """If it lasts, something outside does not answer."""
        return self in (HoldReason.LOOK, HoldReason.UNANSWERED)


class Holder(msgspec.Struct, frozen=True, kw_only=True):
    """One source that holds event time back, and by what."""

    source: OperatorId
    reason: HoldReason
    count: int = 1
    """Of splits."""
    example: str = ""
    """One of them, in words."""
    at_us: int = WATERMARK_MIN_US
    """Where the source stands: the earlier, the more it holds."""
    stand: int = 0
    """Rises with everything that gets done. As long as it is the same, the wait is the same one."""
    lasted_ms: int = 0
    """For how long it has lasted at least, where the one who tells it has a clock."""


def combined(holders: Iterable[Holder]) -> tuple[Holder, ...]:
    """One for each source and reason, as many readers tell it; most holding first."""
    together: dict[tuple[OperatorId, HoldReason], Holder] = {}
    for one in holders:
        known = together.get((one.source, one.reason))
        together[one.source, one.reason] = one if known is None else _added(known, one)
    return tuple(sorted(together.values(), key=lambda one: (one.at_us, one.source, one.reason.value)))


def _added(a: Holder, b: Holder) -> Holder:
    most = min(a, b, key=lambda one: one.at_us)
    return Holder(
        source=a.source,
        reason=a.reason,
        count=a.count + b.count,
        example=most.example or a.example or b.example,
        at_us=most.at_us,
        stand=a.stand + b.stand,
        lasted_ms=max(a.lasted_ms, b.lasted_ms),
    )
