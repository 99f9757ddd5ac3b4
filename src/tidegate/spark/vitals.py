"""What the driver sees of a running pipeline, and since when: the facts from which ``health`` draws its conclusion.

Everything is taken from what passes the job master anyway: events on their way to the coordinator, effects on their way from it,
progress and heartbeats of slots. So it holds for any coordinator and costs it nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from tidegate.checkpoint import effects as fx
from tidegate.checkpoint import events as ev
from tidegate.checkpoint.phases import BackingOff, Ending, RestartAt, State
from tidegate.checkpoint.statistics import CheckpointReport, FailureReason, Outcome
from tidegate.model.ids import Attempt, CheckpointId, SlotIndex, SubtaskId
from tidegate.model.messages import SlotAlive, SlotProgress, SubtaskAcked, TriggerCheckpoint
from tidegate.spark.errands import DEPLOY, LEAVE, Errand, answered_by, asked_by, first_line
from tidegate.spark.holding import Hold

SHARE_HORIZON_MS = 5_000
"""Shares of busy time are those of the last 5 to 10 seconds."""

NO_FAULT = (FailureReason.ATTEMPT_ENDED, FailureReason.SUBSUMED)
"""Ends of a checkpoint that say nothing about checkpoints."""


@dataclass(frozen=True, slots=True)
class Underway:
    """A checkpoint from its trigger until it is complete or given up."""

    checkpoint: CheckpointId
    since_ms: int
    acked: frozenset[SubtaskId] = frozenset()


@dataclass(frozen=True, slots=True)
class Mark:
    """Busy milliseconds per operator since the attempt began, at one moment."""

    at_ms: int
    busy_ms: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class SlotSigns:
    """What one slot lets be seen of itself."""

    heard_ms: int
    """Of its last sign of life."""
    progress_ms: int
    """Of its last report: its loop was not inside a long call then."""
    doing: str = ""
    """Operator inside whose call the loop was at the last sign of life, e.g. ``2 sink-0``; empty: in none."""
    doing_since_ms: int = 0
    backlog: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    marks: tuple[Mark, ...] = ()
    """The newest one last; the first one is between one and two horizons old, once the slot has run that long."""

    def shares(self) -> dict[str, float]:
        """How much of its time the slot spends in each operator, lately."""
        if len(self.marks) < 2:
            return {}
        first, last = self.marks[0], self.marks[-1]
        passed_ms = max(1, last.at_ms - first.at_ms)
        return {
            operator: min(1.0, max(0.0, busy_ms - first.busy_ms.get(operator, 0.0)) / passed_ms)
            for operator, busy_ms in last.busy_ms.items()
        }


@dataclass(frozen=True, slots=True)
class Vitals:
    """One moment, immutable. Times are milliseconds of the driver's monotonic clock."""

    started_ms: int
    completed_ms: int | None = None
    """When the last checkpoint was complete, over all attempts of this run."""
    attempt: Attempt | None = None
    """The newest one whose slots were started."""
    running: bool = False
    """All of them run."""
    registered: int = 0
    """Slots that have come up in this attempt."""
    errands: Mapping[str, Errand] = field(default_factory=lambda: MappingProxyType({}))
    underway: tuple[Underway, ...] = ()
    slots: Mapping[SlotIndex, SlotSigns] = field(default_factory=lambda: MappingProxyType({}))
    given_up: CheckpointReport | None = None
    """The last checkpoint that failed since one was complete; those of an attempt that ended do not count."""
    given_up_in_a_row: int = 0
    failures_in_a_row: int = 0
    """Attempts that failed since a checkpoint was complete."""
    failed: Attempt | None = None
    """The last attempt that did."""
    failure: str = ""
    """Why."""
    again_at_ms: int | None = None
    """Between two attempts: when the next one begins."""
    holds: tuple[Hold, ...] = ()
    """Who holds event time back, most holding first."""
    stopping: bool = False
    far_behind: bool = False
    outcome: fx.Outcome | None = None


def after_event(vitals: Vitals, event: ev.Event) -> Vitals:
    answered = answered_by(event)
    if answered is not None:
        key, trouble = answered
        vitals = _troubled(vitals, key, trouble) if trouble else _without(vitals, key)
    match event:
        case ev.SlotSaid(message=SubtaskAcked(subtask=subtask, checkpoint=checkpoint)):
            return replace(
                vitals,
                underway=tuple(
                    replace(one, acked=one.acked | {subtask}) if one.checkpoint == checkpoint else one
                    for one in vitals.underway
                ),
            )
        case ev.SlotsReady():
            return replace(vitals, running=True)
        case ev.AttemptFailed(_, attempt, failure) if attempt == vitals.attempt:
            # The first failure of an attempt is the cause; what follows it are consequences.
            words = vitals.failure if vitals.failed == attempt else first_line(failure)
            return replace(vitals, running=False, failure=words)
        case ev.StopRequested():
            return replace(vitals, stopping=True)
        case ev.BacklogSeen(far_behind=far_behind):
            return replace(vitals, far_behind=far_behind)
        case _:
            return vitals


def after_effect(vitals: Vitals, effect: fx.Effect, now_ms: int) -> Vitals:
    match effect:
        case fx.ReportCheckpoint(report):
            return _decided(vitals, report)
        case fx.SendToSlots(TriggerCheckpoint(checkpoint=checkpoint), None):
            # Triggers may be repeated.
            if any(one.checkpoint == checkpoint for one in vitals.underway):
                return vitals
            return replace(vitals, underway=(*vitals.underway, Underway(checkpoint, now_ms)))
        case fx.EndAttempt(attempt, _, reason):
            # What the attempt waited for, nobody waits for any more.
            vitals = replace(
                vitals,
                errands=MappingProxyType({}),
                underway=(),
                slots=MappingProxyType({}),
                failure=reason if vitals.running else vitals.failure,
                running=False,
            )
            return _asked(vitals, LEAVE, f"the slots of attempt {attempt} are leaving", now_ms)
        case fx.Deploy(attempt):
            vitals = replace(
                vitals, attempt=attempt, registered=0, slots=MappingProxyType({}), far_behind=False, running=False
            )
            return _asked(vitals, DEPLOY, "the slots are starting", now_ms)
        case fx.Finish(outcome):
            return replace(vitals, outcome=outcome, running=False, errands=MappingProxyType({}), underway=())
        case _:
            asked = asked_by(effect)
            return vitals if asked is None else _asked(vitals, *asked, now_ms)


def after_step(vitals: Vitals, state: State) -> Vitals:
    """``state``: the coordinator's. Whether an ended attempt is followed by another one is known to nobody else."""
    match state:
        case Ending(attempt=attempt, then=RestartAt(at_ms)) | BackingOff(attempt=attempt, until_ms=at_ms):
            if vitals.failed == attempt:
                return vitals if vitals.again_at_ms == at_ms else replace(vitals, again_at_ms=at_ms)
            trouble = next((one.trouble for one in vitals.errands.values() if one.trouble), "")
            return replace(
                vitals,
                again_at_ms=at_ms,
                failed=attempt,
                failures_in_a_row=vitals.failures_in_a_row + 1,
                failure=vitals.failure or trouble,
            )
        case _:
            return vitals if vitals.again_at_ms is None else replace(vitals, again_at_ms=None)


def after_progress(vitals: Vitals, progress: SlotProgress, now_ms: int) -> Vitals:
    signs = vitals.slots.get(progress.slot)
    mark = Mark(now_ms, {metrics.operator: metrics.busy_ms for metrics in progress.metrics})
    marks = signs.marks if signs else ()
    # At most three: an old one to count from, the next old one, the newest.
    if len(marks) < 2:
        marks = (*marks, mark)
    elif mark.at_ms - marks[-2].at_ms >= SHARE_HORIZON_MS:
        marks = (marks[-2], marks[-1], mark)
    else:
        marks = (*marks[:-1], mark)
    backlog = {metrics.operator: metrics.backlog for metrics in progress.metrics if metrics.backlog}
    known = signs or SlotSigns(now_ms, now_ms)
    seen = replace(known, heard_ms=now_ms, progress_ms=now_ms, marks=marks, backlog=backlog)
    return _with_slot(vitals, progress.slot, seen)


def after_heartbeat(vitals: Vitals, alive: SlotAlive, now_ms: int) -> Vitals:
    known = vitals.slots.get(alive.slot) or SlotSigns(now_ms, now_ms)
    seen = replace(known, heard_ms=now_ms, doing=alive.doing, doing_since_ms=now_ms - alive.doing_ms)
    return _with_slot(vitals, alive.slot, seen)


def _decided(vitals: Vitals, report: CheckpointReport) -> Vitals:
    underway = tuple(one for one in vitals.underway if one.checkpoint != report.checkpoint)
    match report.outcome:
        case Outcome.COMPLETED:
            return replace(
                vitals,
                completed_ms=report.ended_ms,
                underway=underway,
                given_up=None,
                given_up_in_a_row=0,
                failures_in_a_row=0,
                failure="",
            )
        case Outcome.COMMITTED:
            return vitals
        case Outcome.FAILED:
            vitals = _without(_without(vitals, f"store {report.checkpoint}"), f"look {report.checkpoint}")
            if not vitals.running or report.reason in NO_FAULT:
                return replace(vitals, underway=underway)
            return replace(vitals, underway=underway, given_up=report, given_up_in_a_row=vitals.given_up_in_a_row + 1)


def _asked(vitals: Vitals, key: str, words: str, now_ms: int) -> Vitals:
    known = vitals.errands.get(key)
    errand = Errand(words, now_ms) if known is None else replace(known, words=words, tries=known.tries + 1)
    return replace(vitals, errands=MappingProxyType({**vitals.errands, key: errand}))


def _troubled(vitals: Vitals, key: str, trouble: str) -> Vitals:
    known = vitals.errands.get(key)
    if known is None:
        return vitals
    return replace(vitals, errands=MappingProxyType({**vitals.errands, key: replace(known, trouble=trouble)}))


def _without(vitals: Vitals, key: str) -> Vitals:
    if key not in vitals.errands:
        return vitals
    return replace(vitals, errands=MappingProxyType({name: one for name, one in vitals.errands.items() if name != key}))


def _with_slot(vitals: Vitals, slot: SlotIndex, signs: SlotSigns) -> Vitals:
    return replace(vitals, slots=MappingProxyType({**vitals.slots, slot: signs}))
