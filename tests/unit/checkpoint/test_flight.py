"""A checkpoint from its trigger to its manifest, or to the reason why it was given up."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest
from tests.unit.checkpoint.scenario import (
    COUNT,
    PLAN,
    READ,
    SINK,
    WRITE,
    Scenario,
    ack,
    chunk,
    committable,
    only,
    with_config,
)

from tidegate.checkpoint import effects as ef
from tidegate.checkpoint import events as ev
from tidegate.checkpoint.layout import ManifestRef, chunk_key, chunk_name
from tidegate.checkpoint.phases import Active, Ending
from tidegate.checkpoint.running import Looking, Storing
from tidegate.checkpoint.statistics import FailureReason, Phase
from tidegate.model.ids import Attempt, CheckpointId, OperatorId, SlotIndex
from tidegate.model.messages import CheckpointAborted, CheckpointCompleted, SubtaskDeclined


def test_a_manifest_is_stored_when_the_last_subtask_has_acknowledged() -> None:
    run = Scenario().run_up()
    checkpoint = run.trigger()
    for subtask in (*READ, WRITE[0]):
        assert not only(run.said(ack(checkpoint, subtask)), ef.StoreManifest)
    (store,) = only(run.said(ack(checkpoint, WRITE[1])), ef.StoreManifest)
    assert store.manifest.checkpoint == checkpoint
    assert [entry.operator for entry in store.manifest.operators] == [COUNT, COUNT, SINK, SINK, "source-0", "source-0"]


def test_an_acknowledgement_that_comes_twice_counts_once() -> None:
    run = Scenario().run_up()
    checkpoint = run.trigger()
    run.said(*(ack(checkpoint, READ[0]),) * 9)
    assert not run.manifests()
    run.said(*(ack(checkpoint, one) for one in (READ[1], *WRITE)))
    assert [manifest.checkpoint for manifest in run.manifests()] == [checkpoint]


def test_an_acknowledgement_of_an_earlier_attempt_is_not_counted() -> None:
    """T8"""
    run = Scenario().run_up()
    run.complete()
    run.answer(*run.fail())
    run.answer(*run.tick(100))
    checkpoint = run.trigger()
    assert run.run.attempt == 2
    run.said(*(ack(checkpoint, subtask, attempt=1) for subtask in PLAN.subtasks))
    assert run.manifests()[-1].attempt == 1


def test_nothing_is_visible_before_every_operator_has_its_snapshot() -> None:
    """T5: an unrelated subtask declines; no sink is asked to commit."""
    run = Scenario().run_up()
    checkpoint = run.trigger()
    run.said(ack(checkpoint, READ[0]), ack(checkpoint, WRITE[0]), ack(checkpoint, WRITE[1]))
    declined = SubtaskDeclined(
        attempt=Attempt(1), slot=READ[1].index, subtask=READ[1], checkpoint=checkpoint, reason="disk full"
    )
    effects = run.said(declined)
    assert isinstance(effects[0], ef.SendToSlots)
    assert effects[0].message == CheckpointAborted(attempt=Attempt(1), checkpoint=checkpoint)
    assert not run.all(ef.StoreManifest)
    assert not run.all(ef.CommitSinks)


def test_a_subtask_that_declines_ends_the_checkpoint_at_once_and_the_next_trigger_still_comes() -> None:
    """T67 and T61: no timeout is waited for, the trigger lives on, the failure is reported but not counted."""
    run = Scenario().run_up()
    checkpoint = run.trigger()
    run.said(
        SubtaskDeclined(
            attempt=Attempt(1), slot=READ[0].index, subtask=READ[0], checkpoint=checkpoint, reason="not ready"
        )
    )
    assert run.run.flights == ()
    assert run.last(ef.ReportCheckpoint).report.reason is FailureReason.DECLINED
    assert run.run.failures_in_a_row == 0
    run.tick(1_000)
    assert run.triggers() == [1, 2]


def test_outputs_of_a_checkpoint_that_timed_out_come_with_the_next_one() -> None:
    """T6: its committables stay with the sinks, so the next manifest carries and commits them."""
    run = Scenario().run_up()
    first = run.trigger()
    run.said(ack(first, WRITE[0]))
    run.tick(10_000)
    assert run.last(ef.ReportCheckpoint).report.reason is FailureReason.TIMED_OUT
    run.tick(1_000)
    second = run.trigger()
    carried = {slot: (committable(first, slot), committable(second, slot)) for slot in (0, 1)}
    run.said(ack(second, READ[0]), ack(second, READ[1]))
    effects = run.said(*(ack(second, one, committables=carried[one.index]) for one in WRITE))
    run.answer(*effects)
    assert run.last(ef.CommitSinks).committables == (
        (SINK, (committable(first, 0), committable(first, 1), committable(second, 0), committable(second, 1))),
    )


def test_a_late_acknowledgement_neither_completes_nor_harms_anything_and_its_files_go() -> None:
    """T7: checkpoint 1 is given up, 2 completes, then the missing acknowledgement of 1 arrives."""
    run = Scenario().run_up()
    first = run.trigger()
    run.said(ack(first, READ[0]), ack(first, READ[1]), ack(first, WRITE[0], chunks=[chunk(0, first)]))
    run.tick(10_000)
    run.tick(1_000)
    run.complete()
    run.said(ack(first, WRITE[1], chunks=[chunk(1, first)]))
    assert [manifest.checkpoint for manifest in run.manifests()] == [2]
    run.tick(1_000)
    run.complete()
    deleted = {key for effect in run.all(ef.Delete) for key in effect.keys}
    assert {f"state/{chunk(0, first).name}", f"state/{chunk(1, first).name}"} <= deleted
    assert [checkpoint for effect in run.all(ef.CommitSinks) for checkpoint in [effect.checkpoint]] == [2, 3]


def test_the_report_of_a_timeout_names_who_was_late_in_which_phase_and_who_was_not() -> None:
    """T68"""
    run = Scenario().run_up()
    checkpoint = run.trigger()
    run.said(ack(checkpoint, READ[0]))
    run.tick(10_000)
    report = run.last(ef.ReportCheckpoint).report
    assert [(late.subtask, late.phase) for late in report.late] == [
        (READ[1], Phase.SNAPSHOT_OR_UPLOAD),
        (WRITE[0], Phase.WAITS_FOR_BARRIER),
        (WRITE[1], Phase.WAITS_FOR_BARRIER),
    ]
    assert [subtask for subtask, _ in report.acks] == [READ[0]]
    assert "0/1" in str(report)


@pytest.mark.parametrize(
    ("reason", "counts"),
    [
        (FailureReason.TIMED_OUT, True),
        (FailureReason.STORE_UNKNOWN, True),
        (FailureReason.UPLOAD_FAILED, True),
        (FailureReason.DECLINED, False),
        (FailureReason.SUBSUMED, False),
        (FailureReason.UNCONFIRMED_CHUNK, False),
        (FailureReason.ATTEMPT_ENDED, False),
    ],
)
def test_which_failures_count(reason: FailureReason, counts: bool) -> None:
    """T31"""
    assert reason.counts is counts


@pytest.mark.parametrize(("counts", "reason"), [(True, FailureReason.UPLOAD_FAILED), (False, FailureReason.DECLINED)])
def test_a_snapshot_that_cannot_be_stored_counts_and_a_subtask_that_is_not_ready_does_not(
    counts: bool, reason: FailureReason
) -> None:
    """T31 and T67"""
    run = Scenario().run_up()
    run.said(
        SubtaskDeclined(
            attempt=Attempt(1),
            slot=READ[0].index,
            subtask=READ[0],
            checkpoint=run.trigger(),
            reason="no space left",
            counts=counts,
        )
    )
    assert run.last(ef.ReportCheckpoint).report.reason is reason
    assert run.run.failures_in_a_row == int(counts)


@pytest.mark.parametrize("late", [False, True], ids=["in flight", "after it was given up"])
def test_what_a_subtask_stored_before_it_declined_is_deleted_with_the_checkpoint(late: bool) -> None:
    """T28: one that failed half way leaves chunks that no acknowledgement names. Those of other checkpoints are not its own."""
    run = Scenario().run_up()
    checkpoint = run.trigger()
    names = tuple(
        chunk_name(OperatorId("count"), Attempt(1), SlotIndex(0), CheckpointId(id), 0) for id in (checkpoint, 77)
    )
    declined = SubtaskDeclined(
        attempt=Attempt(1), slot=READ[0].index, subtask=READ[0], checkpoint=checkpoint, reason="disk full", counts=True
    )
    if late:
        run.said(declined)
    run.said(msgspec.structs.replace(declined, chunks=names))
    (abandoned,) = run.run.retention.abandoned
    assert abandoned.ref == ManifestRef(checkpoint, Attempt(1))
    assert abandoned.chunks == {chunk_key(names[0])}


def test_failures_in_a_row_end_the_attempt_and_only_a_completed_checkpoint_resets_them() -> None:
    """T31: two are tolerated; success in between starts the count afresh."""
    run = Scenario().run_up()
    for completes in (False, False, True, False, False, False):
        assert isinstance(run.state, Active)
        run.trigger()
        if completes:
            run.complete()
        else:
            run.tick(10_000)
        if isinstance(run.state, Active):
            run.tick(1_000)
    assert isinstance(run.state, Ending)
    assert "3 checkpoints in a row failed" in run.last(ef.EndAttempt).reason


def test_an_unknown_outcome_is_resolved_by_creating_the_manifest_again() -> None:
    """Refused with our own content means that the first try landed."""
    run = Scenario().run_up()
    checkpoint = run.trigger()
    (store,) = only(run.acks(checkpoint), ef.StoreManifest)
    assert run.feed(ev.ManifestUnknown(run.now_ms, store.manifest.ref)) == ()
    assert only(run.tick(200), ef.StoreManifest) == [store]
    effects = run.feed(ev.ManifestRefused(run.now_ms, store.manifest.ref, ours=True))
    assert effects == (ef.LookForClaim(Attempt(1), checkpoint),)


def test_a_manifest_whose_outcome_stays_unknown_commits_nothing_and_deletes_nothing() -> None:
    """It may land later, so its transactions stay carried and its chunks stay stored until a later one is complete."""
    run = Scenario(replace(PLAN, store_tries_max=2)).run_up()
    checkpoint = run.trigger()
    run.said(ack(checkpoint, READ[0]), ack(checkpoint, READ[1]))
    run.said(ack(checkpoint, WRITE[0], chunks=[chunk(0, checkpoint)]), ack(checkpoint, WRITE[1]))
    ref = ManifestRef(checkpoint, Attempt(1))
    run.feed(ev.ManifestUnknown(run.now_ms, ref))
    run.tick(200)
    run.feed(ev.ManifestUnknown(run.now_ms, ref))
    assert run.last(ef.ReportCheckpoint).report.reason is FailureReason.STORE_UNKNOWN
    assert isinstance(run.state, Active)
    assert not run.all(ef.CommitSinks)
    assert not run.all(ef.Delete)
    assert run.run.retention.plan_round(2).garbage == ()
    run.tick(1_000)
    run.complete()
    assert f"state/{chunk(0, checkpoint).name}" in run.last(ef.Delete).keys


def test_a_foreign_manifest_under_our_key_is_a_bug_and_ends_the_query() -> None:
    run = Scenario().run_up()
    (store,) = only(run.acks(run.trigger()), ef.StoreManifest)
    run.answer(*run.feed(ev.ManifestRefused(run.now_ms, store.manifest.ref, ours=False)))
    outcome = run.last(ef.Finish).outcome
    assert isinstance(outcome, ef.Failed)
    assert outcome.failure.code == "BUG"


def test_a_look_that_fails_is_repeated_until_it_answers() -> None:
    run = Scenario().run_up()
    checkpoint = run.trigger()
    (store,) = only(run.acks(checkpoint), ef.StoreManifest)
    run.feed(ev.ManifestStored(run.now_ms, store.manifest.ref))
    assert isinstance(run.run.flights[0], Looking)
    assert run.feed(ev.LookFailed(run.now_ms, Attempt(1), checkpoint)) == ()
    assert run.tick(200) == (ef.LookForClaim(Attempt(1), checkpoint),)


def test_the_timeout_ends_when_storing_starts() -> None:
    run = Scenario().run_up()
    run.acks(run.trigger())
    run.tick(60_000)
    assert isinstance(run.run.flights[0], Storing)


def test_a_checkpoint_that_names_a_chunk_of_an_unconfirmed_one_is_given_up() -> None:
    """A subtask built upon a checkpoint that was never completed: storing that manifest would dangle."""
    run = Scenario().run_up()
    first = run.trigger()
    run.tick(10_000)
    run.tick(1_000)
    second = run.trigger()
    run.said(ack(second, READ[0]), ack(second, READ[1]), ack(second, WRITE[0], chunks=[chunk(0, first)]))
    run.said(ack(second, WRITE[1]))
    assert run.last(ef.ReportCheckpoint).report.reason is FailureReason.UNCONFIRMED_CHUNK
    assert not run.all(ef.StoreManifest)


def test_a_snapshot_that_lacks_an_operator_never_becomes_a_manifest() -> None:
    """T59, at the source: such a manifest could not be restored."""
    run = Scenario().run_up()
    checkpoint = run.trigger()
    run.said(*(ack(checkpoint, one) for one in READ))
    run.said(*(ack(checkpoint, one, operators=[COUNT]) for one in WRITE))
    assert not run.all(ef.StoreManifest)
    assert "sink-0" in run.last(ef.EndAttempt).reason


def test_slots_hear_of_completion_only_after_the_look() -> None:
    run = Scenario().run_up()
    checkpoint = run.trigger()
    (store,) = only(run.acks(checkpoint), ef.StoreManifest)
    run.feed(ev.ManifestStored(run.now_ms, store.manifest.ref))
    completed = CheckpointCompleted(attempt=Attempt(1), checkpoint=checkpoint)
    assert ef.SendToSlots(completed) not in run.effects
    run.feed(ev.LookAnswered(run.now_ms, Attempt(1), checkpoint, newer=False))
    assert ef.SendToSlots(completed) in run.effects


def test_numbers_rise_over_restarts_and_over_dead_branches() -> None:
    """T4: restoring an older checkpoint never reuses a number that was complete once."""
    run = Scenario(with_config(checkpoints_retained=3)).run_up()
    numbers = [run.complete() for _ in range(3)]
    again = run.successor().run_up()
    assert again.trigger() == CheckpointId(numbers[-1] + 1)
