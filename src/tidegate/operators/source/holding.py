"""What of a reader's logs holds event time back: those whose source is silent, and those that are behind the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tidegate.model.elements import WATERMARK_MIN_US
from tidegate.model.holding import Holder, HoldReason
from tidegate.model.ids import OperatorId
from tidegate.operators.source.open_split import SILENT_AFTER_MS, OpenSplit


def holders_of_logs(
    source: OperatorId, active: Sequence[OpenSplit], largest_us: Callable[[OpenSplit], int]
) -> tuple[Holder, ...]:
    """``active``: the open splits that hold the watermark back; ``largest_us``: the largest event time of a split so far."""
    silent = [one for one in active if one.silent_ms >= SILENT_AFTER_MS]
    times = {one.number: largest_us(one) for one in active}
    first_us = max(times.values(), default=WATERMARK_MIN_US)
    behind = [one for one in active if times[one.number] < first_us and one not in silent]
    found: list[Holder] = []
    if silent:
        longest = max(silent, key=lambda one: one.silent_ms)
        found.append(
            Holder(
                source=source,
                reason=HoldReason.UNANSWERED,
                count=len(silent),
                example=_described(longest),
                at_us=min(times[one.number] for one in silent),
                lasted_ms=longest.silent_ms,
            )
        )
    if behind:
        last = min(behind, key=lambda one: times[one.number])
        found.append(
            Holder(
                source=source,
                reason=HoldReason.PARTITION,
                count=len(behind),
                example=_described(last),
                at_us=times[last.number],
                stand=times[last.number] // 1_000,
            )
        )
    return tuple(found)


def _described(one: OpenSplit) -> str:
    return one.reader.describe() if one.reader is not None else f"split {one.number}"
