"""Sinks that are slow, silent, or cannot commit at all."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.checkpoint.scenario import Scenario, only, with_config
from tests.unit.checkpoint.test_publication import looked

from tidegate.checkpoint import effects as ef
from tidegate.checkpoint import events as ev
from tidegate.checkpoint.effects import Effect
from tidegate.checkpoint.events import Event, Failure
from tidegate.checkpoint.phases import Active, BackingOff, CommittingRestored, Ending, Over
from tidegate.model.ids import Attempt, CheckpointId

TIMEOUT_MS = 5_000
PLAN = with_config(commit_timeout_ms=TIMEOUT_MS, checkpoint_failures_tolerated=100)
POISON = Failure("UNAVAILABLE", "part-00001-7.parquet: access denied")


def test_a_commit_without_an_answer_is_asked_for_again_and_the_checkpoint_stays_complete() -> None:
    """T32: a watchdog repeats the commit; the checkpoint is durable and never aborted."""
    run = Scenario(PLAN).run_up()
    looked(run)
    assert only(run.tick(TIMEOUT_MS - 1), ef.CommitSinks) == []
    run.tick(1)
    again = only(run.tick(500), ef.CommitSinks)
    assert [one.checkpoint for one in again] == [1]
    assert run.run.base is not None
    assert run.run.base.checkpoint == 1
    effects = run.feed(ev.SinksCommitted(run.now_ms, Attempt(1), CheckpointId(1)))
    assert only(effects, ef.MarkCommitted)


def test_an_answer_that_comes_after_the_watchdog_counts() -> None:
    run = Scenario(PLAN).run_up()
    looked(run)
    run.tick(TIMEOUT_MS)
    run.feed(ev.SinksCommitted(run.now_ms, Attempt(1), CheckpointId(1)))
    assert run.run.commits == ()
    run.tick(500)
    assert len(run.all(ef.CommitSinks)) == 1


def test_the_time_a_checkpoint_queues_behind_another_is_not_counted() -> None:
    run = Scenario(PLAN).run_up()
    looked(run)
    run.tick(1_000)
    looked(run)
    run.tick(TIMEOUT_MS - 2_000)
    run.feed(ev.SinksCommitted(run.now_ms, Attempt(1), CheckpointId(1)))
    run.tick(TIMEOUT_MS - 1)
    assert [one.checkpoint for one in run.all(ef.CommitSinks)] == [1, 2]
    assert run.run.commits[0].tries == 1


def test_a_checkpoint_that_completes_meanwhile_does_not_cut_the_pause_of_a_failed_commit_short() -> None:
    run = Scenario(PLAN).run_up()
    looked(run)
    run.tick(1_000)
    run.feed(ev.SinksFailed(run.now_ms, Attempt(1), CheckpointId(1), POISON))
    assert only(looked(run), ef.CommitSinks) == []
    assert [one.checkpoint for one in only(run.tick(500), ef.CommitSinks)] == [1]


def test_sinks_that_never_answer_end_the_attempt_with_a_reason() -> None:
    run = Scenario(PLAN).run_up()
    looked(run)
    for _ in range(5):
        run.tick(TIMEOUT_MS)
        if isinstance(run.state, Active):
            run.tick(5_000)
    assert isinstance(run.state, Ending)
    assert "sink-0 up to checkpoint 1" in run.last(ef.EndAttempt).reason
    assert "not answered for 5 s" in run.last(ef.EndAttempt).reason


def without_commits(run: Scenario, effects: tuple[Effect, ...], poison: Failure | None = None) -> None:
    """Everything is answered but commits; those fail with ``poison``, or stay unanswered."""
    queue = list(effects)
    while queue:
        effect = queue.pop(0)
        event: Event | None
        match effect:
            case ef.CommitSinks(attempt, checkpoint) if poison is not None:
                event = ev.SinksFailed(run.now_ms, attempt, checkpoint, poison)
            case ef.CommitSinks():
                event = None
            case _:
                event = run.perform(effect)
        queue.extend(run.feed(event) if event is not None else ())


def test_a_recovery_does_not_wait_for_ever_for_sinks_that_do_not_answer() -> None:
    run = Scenario(PLAN).run_up()
    looked(run)
    again = run.successor()
    without_commits(again, again.start())
    assert isinstance(again.state, CommittingRestored)
    asked = 1
    while isinstance(again.state, CommittingRestored):
        asked += len(only(again.tick(TIMEOUT_MS), ef.CommitSinks))
    assert asked == 5
    assert isinstance(again.state, BackingOff)


def test_a_poisoned_committable_ends_the_query_and_is_named() -> None:
    """T56: it fails in the attempt, and in every recovery; nothing is lost, and nothing goes on for ever."""
    run = Scenario(PLAN).run_up()
    without_commits(run, run.acks(run.trigger()), POISON)
    for _ in range(1_000):
        if isinstance(run.state, Over):
            break
        without_commits(run, run.tick(1_000), POISON)
    assert isinstance(run.state, Over)
    outcome = run.state.outcome
    assert isinstance(outcome, ef.Failed)
    assert "part-00001-7.parquet" in outcome.failure.message
    assert "sink-0 up to checkpoint 1" in outcome.failure.message
    assert "Given up after 3 restarts" in outcome.failure.message
    assert run.stored_refs(), "its checkpoint is still there for a start with the cause removed"
    mended = run.successor()
    assert only(mended.answer(*mended.start()), ef.CommitSinks)


def test_a_commit_that_retrying_cannot_mend_ends_the_query_at_once() -> None:
    """T56"""
    run = Scenario(PLAN).run_up()
    looked(run)
    hopeless = replace(POISON, retryable=False)
    run.answer(*run.feed(ev.SinksFailed(run.now_ms, Attempt(1), CheckpointId(1), hopeless)))
    assert isinstance(run.state, Over)
    assert "part-00001-7.parquet" in run.state.outcome.failure.message  # type: ignore[union-attr]
