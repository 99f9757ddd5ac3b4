"""When checkpoints start, on a clock that may stall, jump or step back."""

from __future__ import annotations

from tests.unit.checkpoint.scenario import Scenario

from tidegate.checkpoint.trigger import Trigger, at_start
from tidegate.model.elements import CheckpointKind

INTERVAL_MS = 1_000


def due(trigger: Trigger, now_ms: int, *, exhausted: bool = False) -> CheckpointKind | None:
    return trigger.kind_due(now_ms, INTERVAL_MS, all_exhausted=exhausted)


def test_missed_ticks_collapse_into_one() -> None:
    """T29: the coordinator is blocked for ten intervals; exactly one trigger follows."""
    run = Scenario().run_up()
    run.complete()
    run.tick(10_000)
    assert run.triggers() == [1, 2]
    run.complete()
    run.tick()
    run.tick(500)
    assert run.triggers() == [1, 2]
    run.tick(500)
    assert run.triggers() == [1, 2, 3]


def test_the_grid_does_not_drift_with_late_ticks() -> None:
    trigger = at_start(0, INTERVAL_MS, (), restored=False)
    assert trigger.triggered(1_090, INTERVAL_MS).due_ms == 2_000


def test_a_clock_that_steps_back_stalls_nothing_and_one_that_jumps_storms_nothing() -> None:
    """T28: one hour back, one day forward."""
    trigger = Trigger(due_ms=3_600_000 + INTERVAL_MS)
    assert due(trigger, 0) is CheckpointKind.PERIODIC
    assert trigger.triggered(0, INTERVAL_MS).due_ms == INTERVAL_MS
    day_ms = 86_400_000
    after = Trigger(due_ms=INTERVAL_MS).triggered(day_ms, INTERVAL_MS)
    assert after.due_ms == day_ms + INTERVAL_MS
    assert due(after, day_ms) is None
    assert due(Trigger(due_ms=0, not_before_ms=day_ms), 0) is CheckpointKind.PERIODIC


def test_all_input_read_means_final_and_final_answers_requests() -> None:
    trigger = Trigger(due_ms=0).requested("a").requested("a")
    assert trigger.requests == ("a",)
    assert due(trigger, 0) is CheckpointKind.MANUAL
    assert due(trigger, 0, exhausted=True) is CheckpointKind.FINAL


def test_after_a_failure_nothing_starts_for_a_moment() -> None:
    trigger = Trigger(due_ms=0, requests=("a",)).failed(0, INTERVAL_MS)
    assert due(trigger, 999, exhausted=True) is None
    assert due(trigger, 1_000, exhausted=True) is CheckpointKind.FINAL
