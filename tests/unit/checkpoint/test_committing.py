"""Sinks that are slow, silent, cannot commit at all, or hand some back."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.checkpoint.scenario import SINK, Scenario, committable, only, with_config
from tests.unit.checkpoint.test_publication import looked

from tidegate.checkpoint import committing
from tidegate.checkpoint import effects as ef
from tidegate.checkpoint import events as ev
from tidegate.checkpoint.effects import Effect
from tidegate.checkpoint.events import Event, Failure
from tidegate.checkpoint.phases import Active, BackingOff, CommittingRestored, Ending, Over
from tidegate.model.ids import Attempt, CheckpointId, OperatorId
from tidegate.model.snapshot import Committable

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


# --- sinks that hand back -------------------------------------------------------------------------------------------------

OTHER = OperatorId("sink-1")
BUSY = Failure("UNAVAILABLE", "one coordinator does not answer")
FIRST, SECOND = committable(1, 0), committable(1, 1)


def handed_back(run: Scenario, *left: Committable, checkpoint: int = 1) -> tuple[Effect, ...]:
    attempt = run.last(ef.CommitSinks).attempt
    answer = ev.SinksFailed(run.now_ms, attempt, CheckpointId(checkpoint), BUSY, ((SINK, left),))
    return run.feed(answer)


def test_only_what_was_handed_back_is_tried_again_after_the_pause() -> None:
    run = Scenario(PLAN).run_up()
    looked(run)
    assert handed_back(run, SECOND) == ()
    assert only(run.tick(499), ef.CommitSinks) == []
    (again,) = only(run.tick(1), ef.CommitSinks)
    assert again.committables == ((SINK, (SECOND,)),)
    assert not run.all(ef.MarkCommitted), "some of it is not visible"
    effects = run.feed(ev.SinksCommitted(run.now_ms, Attempt(1), CheckpointId(1)))
    assert only(effects, ef.MarkCommitted)


def test_a_later_checkpoint_waits_until_what_was_handed_back_is_visible() -> None:
    run = Scenario(PLAN).run_up()
    looked(run)
    run.tick(1_000)
    handed_back(run, FIRST)
    assert only(looked(run), ef.CommitSinks) == []
    run.tick(500)
    assert [one.checkpoint for one in run.all(ef.CommitSinks)] == [1, 1]
    run.feed(ev.SinksCommitted(run.now_ms, Attempt(1), CheckpointId(1)))
    assert [one.checkpoint for one in run.all(ef.CommitSinks)] == [1, 1, 2]


def test_what_is_visible_stays_so_whatever_late_answers_say() -> None:
    """The watchdog has asked twice: each answer leaves another one, so both are visible."""
    run = Scenario(PLAN).run_up()
    looked(run)
    run.tick(TIMEOUT_MS)
    run.tick(500)
    handed_back(run, FIRST)
    assert only(handed_back(run, SECOND), ef.MarkCommitted)
    assert run.run.commits == ()


def test_hand_backs_use_up_the_tries_and_the_reason_names_only_the_sink_that_is_stuck() -> None:
    owed = ((SINK, (FIRST,)), (OTHER, (FIRST, SECOND)))
    assert committing.still_owed(owed, ((OTHER, (SECOND,)),)) == ((OTHER, (SECOND,)),)
    run = Scenario(PLAN).run_up()
    looked(run)
    for _ in range(4):
        handed_back(run, SECOND)
        run.tick(5_000)
    handed_back(run, SECOND)
    assert isinstance(run.state, Ending)
    assert "sink-0 up to checkpoint 1" in run.last(ef.EndAttempt).reason
    assert BUSY.message in run.last(ef.EndAttempt).reason


def test_a_sink_that_is_done_is_not_asked_again_for_another_one_that_raised() -> None:
    owed = ((SINK, (FIRST, SECOND)), (OTHER, (FIRST, SECOND)))
    assert committing.still_owed(owed, ((OTHER, (FIRST, SECOND)),)) == owed[1:]
    assert committing.still_owed(owed, ()) == ()


def test_nothing_behind_the_first_checkpoint_that_is_left_counts_as_done() -> None:
    """A sink that calls later output visible and hands back what stands before it does not get its way."""
    later = committable(2, 0), committable(2, 1)
    owed = ((SINK, (FIRST, SECOND, *later)),)
    assert committing.still_owed(owed, ((SINK, (SECOND,)),)) == ((SINK, (SECOND, *later)),)
    assert committing.still_owed(owed, ((SINK, (later[0],)),)) == ((SINK, (later[0],)),)
    assert committing.still_owed(owed, ((SINK, (committable(9, 0),)),)) == (), "what nobody asked for is left by nobody"


def test_a_restart_takes_all_that_the_manifest_carries() -> None:
    run = Scenario(PLAN).run_up()
    looked(run)
    handed_back(run, SECOND)
    again = run.successor()
    without_commits(again, again.start())
    assert again.last(ef.CommitSinks).committables == ((SINK, (FIRST, SECOND)),)


def recovering() -> Scenario:
    """A restart that has asked the sinks for the restored output."""
    run = Scenario(PLAN).run_up()
    looked(run)
    again = run.successor()
    without_commits(again, again.start())
    return again


def test_a_recovery_too_tries_only_what_was_handed_back() -> None:
    run = recovering()
    handed_back(run, SECOND)
    assert isinstance(run.state, CommittingRestored)
    assert only(run.tick(499), ef.CommitSinks) == []
    (again,) = only(run.tick(1), ef.CommitSinks)
    assert again.committables == ((SINK, (SECOND,)),)
    assert only(run.tick(TIMEOUT_MS), ef.CommitSinks), "without an answer it is asked for again"
    effects = run.feed(ev.SinksCommitted(run.now_ms, again.attempt, CheckpointId(1)))
    assert only(effects, ef.MarkCommitted)
    assert only(effects, ef.SweepSinks)


def test_a_recovery_whose_sinks_do_nothing_at_all_fails_as_before() -> None:
    run = recovering()
    handed_back(run, FIRST, SECOND)
    assert isinstance(run.state, BackingOff)


def test_two_answers_that_together_leave_nothing_end_a_recovery_well() -> None:
    run = recovering()
    handed_back(run, FIRST)
    effects = handed_back(run, SECOND)
    assert only(effects, ef.MarkCommitted)
    assert only(effects, ef.SweepSinks)


def test_a_recovery_that_pauses_is_stopped_at_once() -> None:
    run = recovering()
    handed_back(run, SECOND)
    run.answer(*run.feed(ev.StopRequested(run.now_ms)))
    assert isinstance(run.state, Over)
    assert not run.all(ef.MarkCommitted)
