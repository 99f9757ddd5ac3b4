"""The memory of checkpoints is bounded and complete enough to find who was late."""

from __future__ import annotations

from dataclasses import replace

import msgspec
from tests.unit.checkpoint.scenario import PLAN, READ, WRITE, Scenario, ack, with_config

from tidegate.checkpoint import effects as ef
from tidegate.checkpoint import events as ev
from tidegate.checkpoint.statistics import (
    HISTORY_MAX,
    CheckpointReport,
    FailureReason,
    History,
    Outcome,
    Phase,
    late_subtasks,
)
from tidegate.model.elements import CheckpointKind
from tidegate.model.ids import Attempt, CheckpointId
from tidegate.model.snapshot import PhaseTimes

REPORT = CheckpointReport(CheckpointId(1), Attempt(1), CheckpointKind.PERIODIC, Outcome.COMPLETED, 100, 130)


def test_a_checkpoint_is_reported_when_complete_and_again_when_visible() -> None:
    run = Scenario().run_up()
    run.complete()
    history = History()
    for effect in run.all(ef.ReportCheckpoint):
        history = history.add(effect.report)
    (report,) = history.reports
    assert report.outcome is Outcome.COMMITTED
    assert report.committed_ms is not None
    assert [subtask for subtask, _ in report.acks] == list(PLAN.subtasks)
    assert report.state_bytes == 40
    assert (history.completed, history.failed) == (1, 0)


def test_history_is_bounded_and_totals_are_not() -> None:
    history = History()
    for number in range(HISTORY_MAX + 50):
        history = history.add(replace(REPORT, checkpoint=CheckpointId(number + 1)))
    assert len(history.reports) == HISTORY_MAX
    assert history.completed == HISTORY_MAX + 50
    last = history.last_completed()
    assert last is not None
    assert last.checkpoint == HISTORY_MAX + 50


def test_a_failed_checkpoint_is_not_the_last_completed_one() -> None:
    failed = replace(REPORT, checkpoint=CheckpointId(2), outcome=Outcome.FAILED, reason=FailureReason.TIMED_OUT)
    history = History().add(REPORT).add(failed)
    assert history.last_completed() == REPORT
    assert history.failed == 1


def test_blame_goes_upstream() -> None:
    """T68: subtasks that only wait for a barrier are told from the one that holds it."""
    late = late_subtasks(PLAN.subtasks, PLAN.upstream, (ack(1, READ[0]), ack(1, READ[1]), ack(1, WRITE[0])))
    assert [(one.subtask, one.phase) for one in late] == [(WRITE[1], Phase.SNAPSHOT_OR_UPLOAD)]


def test_an_overtaken_checkpoint_is_in_the_history_and_no_failure() -> None:
    """T31"""
    history = History()
    for reason in (FailureReason.SUBSUMED, FailureReason.TIMED_OUT):
        history = history.add(replace(REPORT, outcome=Outcome.FAILED, reason=reason))
    assert [report.reason for report in history.reports] == [FailureReason.SUBSUMED, FailureReason.TIMED_OUT]
    assert history.failed == 1


def test_a_report_says_how_long_its_checkpoint_was_due_how_long_the_commit_took_and_what_was_overtaken() -> None:
    run = Scenario(with_config(checkpoint_min_pause_ms=3_000)).run_up()
    run.complete()
    run.tick(3_500)
    checkpoint = run.trigger()
    times = PhaseTimes(in_flight_bytes=7, unaligned=True)
    acks = [ack(checkpoint, subtask) for subtask in PLAN.subtasks]
    acks[-1] = msgspec.structs.replace(acks[-1], times=times)
    (store,) = run.said(*acks)
    (look,) = run.feed(run.perform(store))  # type: ignore[arg-type]
    run.feed(run.perform(look))  # type: ignore[arg-type]
    run.now_ms += 250
    run.feed(ev.SinksCommitted(run.now_ms, Attempt(1), checkpoint))
    history = History()
    for effect in run.all(ef.ReportCheckpoint):
        history = history.add(effect.report)
    last = history.reports[-1]
    assert (last.trigger_delay_ms, last.commit_ms) == (2_500, 250)
    assert (last.in_flight_bytes, last.unaligned) == (7, True)
    assert not history.reports[0].unaligned
