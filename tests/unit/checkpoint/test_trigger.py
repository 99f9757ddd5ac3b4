"""When checkpoints start, on a clock that may stall, jump or step back."""

from __future__ import annotations

from tests.unit.checkpoint.scenario import Scenario, with_config

from tidegate.checkpoint import events as ev
from tidegate.checkpoint.trigger import Trigger, at_start
from tidegate.model.elements import CheckpointKind
from tidegate.model.ids import Attempt

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


def test_the_least_pause_is_counted_from_the_end_of_a_checkpoint_that_took_longer_than_the_interval() -> None:
    """T30: due at 1 s, complete at 6 s, least pause 3 s: the next one starts at 9 s, not at once."""
    run = Scenario(with_config(checkpoint_min_pause_ms=3_000)).run_up()
    checkpoint = run.trigger()
    run.tick(5_000)
    run.answer(*run.acks(checkpoint))
    run.tick(2_999)
    assert run.triggers() == [1]
    run.tick(1)
    assert run.triggers() == [1, 2]
    assert run.run.flights[0].taken.delay_ms == 7_000


def test_the_least_pause_is_counted_from_the_end_of_a_failed_checkpoint_as_well() -> None:
    """T30"""
    run = Scenario(with_config(checkpoint_min_pause_ms=3_000)).run_up()
    run.trigger()
    run.tick(10_000)
    run.tick(2_999)
    assert run.triggers() == [1]
    run.tick(1)
    assert run.triggers() == [1, 2]


def test_a_person_and_the_end_of_input_do_not_wait_for_the_least_pause() -> None:
    trigger = Trigger(due_ms=0).ended(0, 10_000)
    assert trigger.kind_due(1, INTERVAL_MS, all_exhausted=False, min_pause_ms=10_000) is None
    assert trigger.kind_due(1, INTERVAL_MS, all_exhausted=True, min_pause_ms=10_000) is CheckpointKind.FINAL
    asked = trigger.requested("a")
    assert asked.kind_due(1, INTERVAL_MS, all_exhausted=False, min_pause_ms=10_000) is CheckpointKind.MANUAL


def test_a_clock_that_steps_back_does_not_stretch_the_least_pause() -> None:
    """T28"""
    trigger = Trigger(due_ms=0).ended(3_600_000, 10_000)
    assert trigger.kind_due(0, INTERVAL_MS, all_exhausted=False, min_pause_ms=10_000) is CheckpointKind.PERIODIC


def test_a_manual_checkpoint_never_exceeds_what_may_be_in_flight() -> None:
    run = Scenario(with_config(checkpoint_min_pause_ms=3_000)).run_up()
    run.trigger()
    run.feed(ev.CheckpointRequested(run.now_ms, "please"))
    assert run.triggers() == [1]
    run.complete()
    assert run.triggers() == [1, 2], "it does not wait for the pause"


def test_far_behind_its_input_a_query_checkpoints_at_its_own_interval() -> None:
    run = Scenario(with_config(backlog_checkpoint_interval_ms=30_000)).run_up()
    run.feed(ev.BacklogSeen(run.now_ms, run.run.attempt, far_behind=True))
    run.tick(29_999)
    assert run.triggers() == []
    run.tick(1)
    run.complete()
    run.tick(10_000)
    assert run.triggers() == [1]
    run.feed(ev.BacklogSeen(run.now_ms, run.run.attempt, far_behind=False))
    assert run.triggers() == [1, 2], "the short interval, counted from the last trigger, has passed"
    run.complete()
    run.tick(1_000)
    assert run.triggers() == [1, 2, 3]


def test_news_of_the_backlog_of_an_earlier_attempt_change_nothing() -> None:
    run = Scenario(with_config(backlog_checkpoint_interval_ms=30_000)).run_up()
    run.feed(ev.BacklogSeen(run.now_ms, Attempt(9), far_behind=True))
    run.tick(1_000)
    assert run.triggers() == [1]
