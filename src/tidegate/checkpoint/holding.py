"""What of its sources holds event time back, as far as the coordinator knows: whole splits. Readers of logs speak for themselves."""

from __future__ import annotations

from tidegate.checkpoint.cohorts import Cohorts
from tidegate.checkpoint.intervals import first_missing, missing_between
from tidegate.checkpoint.plan import CheckpointPlan
from tidegate.checkpoint.sources import SplitAssigner
from tidegate.eventtime.delay import watermark_at
from tidegate.model.elements import WATERMARK_MIN_US
from tidegate.model.holding import Holder, HoldReason


def held_by(plan: CheckpointPlan, sources: tuple[SplitAssigner, ...]) -> tuple[Holder, ...]:
    """At most one for each source. Nothing is held where nobody asks what time it is."""
    if not plan.event_time:
        return ()
    found = (_holder(source) for source in sources if not source.ordered)
    return tuple(one for one in found if one is not None)


def at_rest(plan: CheckpointPlan, sources: tuple[SplitAssigner, ...]) -> bool:
    """Everything that was found has been read and counts, and every reader has been told what time it is then."""
    return not plan.event_time or all(source.ordered or _is_told(source) for source in sources)


def _is_told(source: SplitAssigner) -> bool:
    if not source.discovered or source.cohorts.start < source.cohorts.known:
        return False
    return all(share.told_us >= source.granted_us and not share.told_unread for share in source.shares)


def _holder(source: SplitAssigner) -> Holder | None:
    cohorts = source.cohorts
    if not source.discovered:
        return Holder(source=source.operator, reason=HoldReason.LOOK, count=0)
    if cohorts.start >= cohorts.known:
        return None
    first = first_missing(cohorts.read, cohorts.start)
    gaps = missing_between(cohorts.read, cohorts.start, cohorts.known)
    unread = sum(gap.stop - gap.start for gap in gaps)
    # Splits that get read, and looks that are made, are progress: whoever waits longer than this waits for something else.
    stand = cohorts.known - unread + cohorts.looks
    if not unread:
        return Holder(
            source=source.operator,
            reason=HoldReason.LOOK,
            count=0,
            at_us=source.granted_us,
            stand=stand + cohorts.start,
        )
    return Holder(
        source=source.operator,
        reason=HoldReason.BEHIND if _settled_is_not_granted(cohorts) else HoldReason.UNREAD,
        count=unread,
        example=f"split {first}",
        at_us=source.granted_us,
        stand=stand + cohorts.start,
    )


def _settled_is_not_granted(cohorts: Cohorts) -> bool:
    if cohorts.delay_us is None or cohorts.lags or cohorts.settled_us <= WATERMARK_MIN_US:
        return False
    return watermark_at(cohorts.settled_us, cohorts.delay_us) > cohorts.granted_us
