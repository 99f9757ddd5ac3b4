"""Whether a pipeline does what it should, and if not, why, in words: a query that runs but takes no checkpoints is not well.

A pure function of what the watchdog saw and the moment.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from tidegate.checkpoint.effects import Failed, Fenced, Finished, Stopped
from tidegate.checkpoint.plan import CheckpointPlan
from tidegate.model.config import QueryConfig
from tidegate.model.ids import SlotIndex, SubtaskId
from tidegate.spark.errands import DEPLOY, LEAVE, Errand
from tidegate.spark.holding import in_words, trouble
from tidegate.spark.vitals import SlotSigns, Underway, Vitals

INTERVALS_MAX = 10
PATIENCE_MIN_MS = 30_000
LONG_CALL_MS = 1_000
"""A call of an operator that takes longer is worth a word."""
BUSY_SHARE_MIN = 0.5
NAMES_MAX = 4
"""Subtasks named in one sentence."""


class Condition(Enum):
    HEALTHY = "healthy"
    RECOVERING = "recovering"
    UNHEALTHY = "unhealthy"


@dataclass(frozen=True, slots=True)
class Health:
    condition: Condition
    reason: str
    """In words; empty when there is nothing to say."""
    seconds_since_last_checkpoint: float
    """Since the last completed one; before the first one, since the start."""


def health(vitals: Vitals, plan: CheckpointPlan, now_ms: int) -> Health:
    """Unhealthy: no checkpoint was completed for too long, or something outside has not answered for too long.

    Recovering: an attempt failed and no checkpoint was completed since.
    """
    silence_ms = max(0, now_ms - (vitals.started_ms if vitals.completed_ms is None else vitals.completed_ms))
    seconds = silence_ms / 1000
    if vitals.outcome is not None:
        return _ended(vitals, seconds)
    if vitals.stopping:
        return Health(Condition.HEALTHY, "stopping", seconds)
    if silence_ms > patience_ms(plan.config, far_behind=vitals.far_behind):
        interval = show_ms(interval_ms(plan.config, far_behind=vitals.far_behind))
        words = f"no checkpoint has completed for {show_ms(silence_ms)} (interval {interval}): "
        return Health(Condition.UNHEALTHY, words + explain(vitals, plan, now_ms), seconds)
    slow = _overdue(vitals, plan.config, now_ms) or _held_back(vitals, plan.config, now_ms)
    if slow is not None:
        return Health(Condition.UNHEALTHY, slow, seconds)
    if vitals.failures_in_a_row:
        return Health(Condition.RECOVERING, explain(vitals, plan, now_ms), seconds)
    return Health(Condition.HEALTHY, "" if vitals.running else explain(vitals, plan, now_ms), seconds)


def interval_ms(config: QueryConfig, *, far_behind: bool) -> int:
    regular_ms = max(config.checkpoint_interval_ms, config.checkpoint_min_pause_ms)
    return max(regular_ms, config.backlog_checkpoint_interval_ms) if far_behind else regular_ms


def patience_ms(config: QueryConfig, *, far_behind: bool) -> int:
    """How long a query may go without a completed checkpoint."""
    return config.unhealthy_after_ms or max(INTERVALS_MAX * interval_ms(config, far_behind=far_behind), PATIENCE_MIN_MS)


def explain(vitals: Vitals, plan: CheckpointPlan, now_ms: int) -> str:
    """What the pipeline waits for right now, and who keeps it waiting."""
    if vitals.again_at_ms is not None and LEAVE not in vitals.errands:
        pause_ms = max(0, vitals.again_at_ms - now_ms)
        return f"restarts again in {show_ms(pause_ms)}, {_failures(vitals)}"
    after = f"; {_failures(vitals)}" if vitals.failures_in_a_row else ""
    if not vitals.running:
        return _coming_up(vitals, plan, now_ms) + after
    collecting = next((one for one in vitals.underway if len(one.acked) < len(plan.subtasks)), None)
    if collecting is not None:
        words = _waits_for(vitals, plan, collecting, now_ms)
    else:
        oldest = min(vitals.errands.values(), key=lambda one: one.since_ms, default=None)
        words = _still(oldest, now_ms) if oldest is not None else "no checkpoint is under way"
    if vitals.given_up is not None and vitals.given_up.reason is not None:
        times = "checkpoint" if vitals.given_up_in_a_row == 1 else f"{vitals.given_up_in_a_row} checkpoints"
        after = f"; the last {times} failed: {vitals.given_up.reason.value}{after}"
    return words + after


def show_ms(duration_ms: float) -> str:
    if duration_ms < 1_000:
        return f"{duration_ms:.0f} ms"
    if duration_ms < 10_000:
        return f"{duration_ms / 1000:.1f} s".replace(".0 s", " s")
    return f"{duration_ms / 1000:.0f} s" if duration_ms < 180_000 else f"{duration_ms / 60_000:.0f} min"


def _ended(vitals: Vitals, seconds: float) -> Health:
    match vitals.outcome:
        case Failed(failure):
            return Health(Condition.UNHEALTHY, f"failed: {failure.message.strip().splitlines()[0]}", seconds)
        case Fenced(by):
            return Health(Condition.UNHEALTHY, f"attempt {by}, started elsewhere, owns the pipeline", seconds)
        case Finished():
            return Health(Condition.HEALTHY, "all input was read", seconds)
        case Stopped() | None:
            return Health(Condition.HEALTHY, "stopped", seconds)


def _failures(vitals: Vitals) -> str:
    count = vitals.failures_in_a_row
    which = "after a failure" if count == 1 else f"after {count} failures in a row"
    return f"{which}: {vitals.failure}" if vitals.failure else which


def _overdue(vitals: Vitals, config: QueryConfig, now_ms: int) -> str | None:
    """The errand that takes too long, whatever the interval is."""
    limit_ms = config.unhealthy_after_ms or max(PATIENCE_MIN_MS, config.checkpoint_interval_ms)
    limits_ms = {"cleanup": max(limit_ms, config.cleanup_timeout_ms)}
    late = [
        errand
        for key, errand in vitals.errands.items()
        if key not in (DEPLOY, LEAVE) and now_ms - errand.since_ms > limits_ms.get(key, limit_ms)
    ]
    return _still(min(late, key=lambda one: one.since_ms), now_ms) if late else None


def _held_back(vitals: Vitals, config: QueryConfig, now_ms: int) -> str | None:
    """A source that says nothing: rows flow on, and no window closes."""
    limit_ms = (config.unhealthy_after_ms or PATIENCE_MIN_MS) + config.discovery_interval_ms
    hold = trouble(vitals.holds, limit_ms, now_ms)
    if hold is None:
        return None
    return f"event time has been held back for {show_ms(now_ms - hold.since_ms)} by {in_words(hold.holder)}"


def _still(errand: Errand, now_ms: int) -> str:
    tries = f", {errand.tries} times" if errand.tries > 1 else ""
    trouble = f"; the last try: {errand.trouble}" if errand.trouble else ""
    return f"{errand.words} has taken {show_ms(now_ms - errand.since_ms)} so far{tries}{trouble}"


def _coming_up(vitals: Vitals, plan: CheckpointPlan, now_ms: int) -> str:
    deploy = vitals.errands.get(DEPLOY)
    if deploy is None:
        oldest = min(vitals.errands.values(), key=lambda one: one.since_ms, default=None)
        return "starting" if oldest is None else _still(oldest, now_ms)
    waited = show_ms(now_ms - deploy.since_ms)
    if vitals.registered < plan.parallelism:
        return f"waits for task slots: {vitals.registered} of {plan.parallelism} slots have come up in {waited}"
    return f"all slots have come up and restore their state, {waited} after the deploy began"


# --- who is late -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Suspect:
    """A slot that keeps others waiting. The higher the weight, the surer we are."""

    weight: tuple[int, float]
    slot: SlotIndex
    operator: str
    """Stage and operator; empty: unknown."""
    words: str

    @property
    def subtask(self) -> str:
        stage = self.operator.partition(" ")[0]
        return f"subtask {stage}/{self.slot}" if stage else f"slot {self.slot}"


def _waits_for(vitals: Vitals, plan: CheckpointPlan, underway: Underway, now_ms: int) -> str:
    late = [subtask for subtask in plan.subtasks if subtask not in underway.acked]
    head = (
        f"checkpoint {underway.checkpoint}, triggered {show_ms(now_ms - underway.since_ms)} ago, "
        f"waits for {len(late)} of {len(plan.subtasks)} subtasks: "
    )
    slots = sorted({subtask.index for subtask in late})
    suspects = [one for slot in slots for one in _suspects(slot, vitals.slots.get(slot), plan.config, now_ms)]
    if not suspects:
        return head + _without_suspect(late, plan)
    culprit = max(suspects, key=lambda one: one.weight)
    alike = [one for one in suspects if one.weight[0] == culprit.weight[0] and one.slot != culprit.slot]
    blamed = {culprit.subtask, *(one.subtask for one in alike)}
    stuck = {one.slot for one in (culprit, *alike) if not one.operator}
    waiting = [one for one in late if f"subtask {one}" not in blamed and one.index not in stuck]
    likewise = f", likewise {', '.join(sorted(blamed - {culprit.subtask})[:NAMES_MAX])}" if alike else ""
    behind = f"; {_names(waiting)} {'waits' if len(waiting) == 1 else 'wait'} behind it" if waiting else ""
    return f"{head}{culprit.subtask} {culprit.words}{likewise}{behind}"


def _suspects(slot: SlotIndex, signs: SlotSigns | None, config: QueryConfig, now_ms: int) -> Iterator[Suspect]:
    """A slot has one thread: whatever keeps it holds up every subtask in it."""
    if signs is None:
        return
    unheard_ms = now_ms - signs.heard_ms
    if unheard_ms > 3 * config.heartbeat_interval_ms + LONG_CALL_MS:
        yield Suspect((3, unheard_ms), slot, "", f"has not been heard of for {show_ms(unheard_ms)}")
        return
    call_ms = now_ms - signs.doing_since_ms
    unreported_ms = now_ms - signs.progress_ms
    if signs.doing and call_ms >= LONG_CALL_MS:
        name = signs.doing.partition(" ")[2] or signs.doing
        yield Suspect((2, call_ms), slot, signs.doing, f"has been inside one call of `{name}` for {show_ms(call_ms)}")
    elif unreported_ms > 3 * config.progress_interval_ms + LONG_CALL_MS:
        words = f"lives, but has reported no progress for {show_ms(unreported_ms)}"
        yield Suspect((1, unreported_ms), slot, "", words)
    for operator, share in signs.shares().items():
        if share >= BUSY_SHARE_MIN:
            waiting = signs.backlog.get(operator, 0)
            queue = f", {waiting} batches waiting" if waiting else ""
            name = operator.partition(" ")[2] or operator
            words = f"is busy in `{name}` ({share:.0%} of the time{queue})".replace("%", " %")
            yield Suspect((0, share), slot, operator, words)


def _without_suspect(late: list[SubtaskId], plan: CheckpointPlan) -> str:
    """Nobody is busy: then it is those without a late one before them that do not get their snapshot stored."""
    stages = {subtask.stage for subtask in late}
    feeds = dict(plan.upstream)
    first = [subtask for subtask in late if not stages.intersection(feeds.get(subtask.stage, ()))]
    its = "takes or stores its snapshot" if len(first) == 1 else "take or store their snapshots"
    return f"{_names(first)} {its}, and no operator is busy: is the checkpoint location slow?"


def _names(subtasks: list[SubtaskId]) -> str:
    shown = ", ".join(str(subtask) for subtask in subtasks[:NAMES_MAX])
    more = f" and {len(subtasks) - NAMES_MAX} more" if len(subtasks) > NAMES_MAX else ""
    return f"{'subtask' if len(subtasks) == 1 else 'subtasks'} {shown}{more}"
