"""After the manifest: look, commits in order, the marker, cleanup."""

from __future__ import annotations

from tests.unit.checkpoint.scenario import PLAN, SINK, SOURCE, Scenario, ack, committable, only, with_config

from tidegate.checkpoint import effects as ef
from tidegate.checkpoint import events as ev
from tidegate.checkpoint import layout
from tidegate.checkpoint.events import Failure
from tidegate.checkpoint.layout import ManifestRef
from tidegate.checkpoint.phases import Active, Ending, Over
from tidegate.model.ids import Attempt, CheckpointId
from tidegate.model.messages import CheckpointCommitted
from tidegate.model.snapshot import FinishedSplit, SourceProgress, Split


def looked(run: Scenario) -> tuple[ef.Effect, ...]:
    """Take a checkpoint up to the answer of its look; its commits are asked for and not answered."""
    checkpoint = run.trigger()
    (store,) = only(run.acks(checkpoint), ef.StoreManifest)
    (look,) = run.feed(run.perform(store))  # type: ignore[arg-type]
    return run.feed(run.perform(look))  # type: ignore[arg-type]


def test_sinks_commit_after_the_manifest_is_stored_and_the_look_found_nobody() -> None:
    run = Scenario().run_up()
    (commit,) = only(looked(run), ef.CommitSinks)
    assert commit.committables == ((SINK, (committable(1, 0), committable(1, 1))),)


def test_a_fenced_coordinator_touches_nothing_outside() -> None:
    """T10: the newer claim appears between the manifest and the look."""
    run = Scenario().run_up()
    checkpoint = run.trigger()
    (store,) = only(run.acks(checkpoint), ef.StoreManifest)
    (look,) = run.feed(run.perform(store))  # type: ignore[arg-type]
    run.store[layout.claim_key(Attempt(2))] = b"somebody"
    effects = run.feed(run.perform(look))  # type: ignore[arg-type]
    outside = (ef.CommitSinks, ef.SweepSinks, ef.Delete, ef.Deploy, ef.MarkCommitted, ef.StoreManifest)
    assert not any(isinstance(effect, outside) for effect in effects)
    run.answer(*effects)
    assert run.state == Over(ef.Fenced(Attempt(2)))
    assert not any(isinstance(effect, ef.CommitSinks) for effect in run.effects)


def test_a_slow_commit_never_aborts_a_durable_checkpoint() -> None:
    """T32: the commit takes ten times the timeout; the checkpoint stays complete and is confirmed in the end."""
    run = Scenario().run_up()
    looked(run)
    for _ in range(100):
        run.tick(1_000)
        assert isinstance(run.state, Active)
        assert run.run.base is not None
        assert run.run.base.checkpoint == 1
        if run.run.flights:
            break
    effects = run.feed(ev.SinksCommitted(run.now_ms, Attempt(1), CheckpointId(1)))
    assert ef.MarkCommitted(ManifestRef(CheckpointId(1), Attempt(1))) in effects


def test_the_trigger_waits_while_a_completed_checkpoint_queues_behind_a_slow_commit() -> None:
    run = Scenario().run_up()
    looked(run)
    run.tick(1_000)
    looked(run)
    assert [one.manifest.checkpoint for one in run.run.commits] == [1, 2]
    run.tick(50_000)
    assert run.run.flights == ()
    effects = run.feed(ev.SinksCommitted(run.now_ms, Attempt(1), CheckpointId(1)))
    assert only(effects, ef.CommitSinks)[0].checkpoint == 2
    run.tick(1_000)
    assert run.triggers() == [1, 2, 3]


def test_commits_run_one_after_the_other_in_checkpoint_order() -> None:
    run = Scenario().run_up()
    assert [one.checkpoint for one in only(looked(run), ef.CommitSinks)] == [1]
    run.tick(1_000)
    assert only(looked(run), ef.CommitSinks) == []
    repeated = run.feed(ev.SinksCommitted(run.now_ms, Attempt(1), CheckpointId(2)))
    assert only(repeated, ef.MarkCommitted) == []


def test_slots_are_told_when_output_is_visible_and_a_repeated_confirmation_does_nothing() -> None:
    """T2: the second confirmation of the same checkpoint changes nothing."""
    run = Scenario().run_up()
    looked(run)
    confirmed = ev.SinksCommitted(run.now_ms, Attempt(1), CheckpointId(1))
    told = ef.SendToSlots(CheckpointCommitted(attempt=Attempt(1), checkpoint=CheckpointId(1)))
    assert told in run.feed(confirmed)
    before = run.state
    assert run.feed(confirmed) == ()
    assert run.state == before


def test_a_commit_that_fails_is_repeated_and_then_ends_the_attempt() -> None:
    run = Scenario().run_up()
    looked(run)
    failure = Failure("UNAVAILABLE", "broker away")
    asked = 1
    while isinstance(run.state, Active):
        run.feed(ev.SinksFailed(run.now_ms, Attempt(1), CheckpointId(1), failure))
        if isinstance(run.state, Active):
            asked += len([one for one in only(run.tick(5_000), ef.CommitSinks) if one.checkpoint == 1])
    assert asked == 5
    assert isinstance(run.state, Ending)


def test_output_of_a_restored_checkpoint_is_committed_again_before_anything_else() -> None:
    """T1: the author died after the manifest; whoever comes next repeats the commits, then sweeps, then deploys."""
    run = Scenario().run_up()
    looked(run)
    again = run.successor()
    effects = again.answer(*again.start())
    kinds = [type(effect) for effect in effects if isinstance(effect, (ef.CommitSinks, ef.SweepSinks, ef.Deploy))]
    assert kinds == [ef.CommitSinks, ef.SweepSinks, ef.Deploy]
    assert only(effects, ef.CommitSinks)[0].committables == ((SINK, (committable(1, 0), committable(1, 1))),)
    assert only(effects, ef.SweepSinks)[0].keep == only(effects, ef.CommitSinks)[0].committables


def test_restarts_forget_nothing_when_the_number_of_subtasks_changes() -> None:
    """T46: committables of two subtasks are committed by an attempt that has one, and the other way round."""
    from dataclasses import replace

    run = Scenario().run_up()
    looked(run)
    narrow = replace(
        PLAN,
        parallelism=1,
        subtasks=tuple(one for one in PLAN.subtasks if one.index == 0),
        config=with_config(parallelism=1).config,
    )
    again = run.successor(plan=narrow)
    effects = again.answer(*again.start())
    assert only(effects, ef.CommitSinks)[0].committables == ((SINK, (committable(1, 0), committable(1, 1))),)
    again.complete()
    assert again.run.base is not None
    assert again.run.base.parallelism == 1
    wide = again.successor("third", plan=PLAN)
    wide.answer(*wide.start())
    assert wide.complete() > again.run.base.checkpoint


def test_no_checkpoint_starts_while_cleanup_runs_and_one_starts_right_after_it() -> None:
    run = Scenario(with_config(checkpoints_retained=1)).run_up()
    run.complete()
    run.tick(1_000)
    looked(run)
    effects = run.feed(ev.SinksCommitted(run.now_ms, Attempt(1), CheckpointId(2)))
    (delete,) = only(effects, ef.Delete)
    assert run.tick(60_000) == ()
    assert run.triggers() == [1, 2]
    run.feed(ev.CleanupDone(run.now_ms, Attempt(1)))
    assert run.triggers() == [1, 2, 3]
    assert delete.timeout_ms == PLAN.config.cleanup_timeout_ms


def test_an_undeletable_file_stops_nothing_and_is_tried_again() -> None:
    """T41 and T42"""
    run = Scenario(with_config(checkpoints_retained=1)).run_up()
    run.complete()
    run.tick(1_000)
    looked(run)
    (delete,) = only(run.feed(ev.SinksCommitted(run.now_ms, Attempt(1), CheckpointId(2))), ef.Delete)
    stubborn = delete.keys[0]
    run.feed(ev.CleanupDone(run.now_ms, Attempt(1), undeletable=((stubborn, "permission denied"),)))
    run.complete()
    assert stubborn in run.last(ef.Delete).keys
    assert len(run.last(ef.Delete).keys) > 1


def test_a_manual_request_is_answered_when_its_output_is_visible() -> None:
    run = Scenario().run_up()
    effects = run.feed(ev.CheckpointRequested(run.now_ms, "please"))
    assert run.triggers() == [1]
    assert not only(effects, ef.AnswerRequest)
    run.complete()
    assert run.all(ef.AnswerRequest) == [ef.AnswerRequest("please", ef.RequestDone(CheckpointId(1)))]


def test_a_request_during_a_checkpoint_gets_the_next_one() -> None:
    """A checkpoint that started before the request may miss rows the person has seen going in."""
    run = Scenario().run_up()
    run.trigger()
    run.feed(ev.CheckpointRequested(run.now_ms, "please"))
    run.complete()
    assert run.all(ef.AnswerRequest) == []
    run.complete()
    assert run.all(ef.AnswerRequest) == [ef.AnswerRequest("please", ef.RequestDone(CheckpointId(2)))]


def test_a_request_is_answered_with_the_reason_when_its_checkpoint_fails() -> None:
    run = Scenario().run_up()
    run.feed(ev.CheckpointRequested(run.now_ms, "please"))
    run.tick(10_000)
    (answer,) = run.all(ef.AnswerRequest)
    assert isinstance(answer.outcome, ef.RequestFailed)
    assert "not every subtask acknowledged in time" in answer.outcome.failure.message


def test_a_confirmation_for_an_earlier_attempt_confirms_nothing_now() -> None:
    """T2 and T8: the old attempt's commit was slow; its answer must not pass for the new attempt's."""
    run = Scenario().run_up()
    run.complete()
    run.answer(*run.fail())
    run.answer(*run.tick(100))
    looked(run)
    (commit,) = run.run.commits
    assert run.feed(ev.SinksCommitted(run.now_ms, Attempt(1), commit.manifest.checkpoint)) == ()
    assert run.run.commits == (commit,)


def test_every_cleanup_round_sweeps_older_attempts_and_never_its_own() -> None:
    """A zombie may prepare after the sweep of the recovery."""
    run = Scenario(with_config(checkpoints_retained=1)).run_up()
    run.complete()
    again = run.successor().run_up()
    again.complete()
    sweeps = again.all(ef.SweepSinks)
    assert len(sweeps) == 2
    assert [sweep.older_than for sweep in sweeps] == [Attempt(2), Attempt(2)]


def progress(run: Scenario, *finished: int) -> tuple[ef.Effect, ...]:
    """A checkpoint at which reader 0 reports these splits as finished, up to the answer of its look."""
    checkpoint = run.trigger()
    done = SourceProgress(finished=tuple(map(FinishedSplit, finished)))
    acks = [ack(checkpoint, one, attempt=run.run.attempt) for one in PLAN.subtasks]
    acks[0] = ack(checkpoint, PLAN.subtasks[0], attempt=run.run.attempt, progress=done)
    (store,) = only(run.said(*acks), ef.StoreManifest)
    (look,) = run.feed(run.perform(store))  # type: ignore[arg-type]
    looked = run.feed(run.perform(look))  # type: ignore[arg-type]
    assert not only(looked, ef.ForgetSplits), "its output is not visible yet"
    return run.answer(*looked)


def test_splits_are_forgotten_when_the_output_of_a_checkpoint_that_has_them_all_done_is_visible() -> None:
    """T35: split 1 is not done at the first checkpoint, so nothing from it on may be forgotten, though 2 is done."""
    run = Scenario().run_up()
    assert only(progress(run, 0, 2), ef.ForgetSplits) == [ef.ForgetSplits(Attempt(1), SOURCE, 1)]
    assert only(progress(run, 1), ef.ForgetSplits) == [ef.ForgetSplits(Attempt(1), SOURCE, 3)]


def test_what_may_be_forgotten_is_said_with_every_commit() -> None:
    """A driver that dies right after a commit has not told it: its successor does."""
    run = Scenario().run_up()
    run.feed(
        ev.SplitsDiscovered(
            run.now_ms,
            Attempt(1),
            SOURCE,
            (Split(number=0, payload=b""), Split(number=1, payload=b"")),
            b"knows 0 and 1",
        )
    )
    assert only(progress(run), ef.ForgetSplits) == []
    progress(run, 0)
    again = run.successor().run_up()
    assert only(progress(again), ef.ForgetSplits) == [ef.ForgetSplits(Attempt(2), SOURCE, 1)]


def test_a_fenced_coordinator_forgets_no_split() -> None:
    run = Scenario().run_up()
    run.store[layout.claim_key(Attempt(2))] = b"somebody"
    checkpoint = run.trigger()
    acks = [ack(checkpoint, one) for one in PLAN.subtasks]
    acks[0] = ack(checkpoint, PLAN.subtasks[0], progress=SourceProgress(finished=(FinishedSplit(0),)))
    assert only(run.answer(*run.said(*acks)), ef.ForgetSplits) == []
