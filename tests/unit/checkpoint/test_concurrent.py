"""Several checkpoints in flight: order of storing, subsumption, and what retention must leave alone."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.checkpoint.scenario import (
    PLAN,
    READ,
    SINK,
    SOURCE,
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
from tidegate.checkpoint import layout
from tidegate.checkpoint.effects import Effect
from tidegate.checkpoint.layout import ManifestRef
from tidegate.checkpoint.running import Acked, Collecting, Looking, Storing
from tidegate.checkpoint.statistics import FailureReason
from tidegate.model.config import QueryConfig
from tidegate.model.elements import CheckpointKind
from tidegate.model.ids import Attempt, CheckpointId, SlotIndex
from tidegate.model.messages import CheckpointAborted, SourceExhausted, TriggerCheckpoint
from tidegate.model.snapshot import ChunkHandle, FinishedSplit, SourceProgress, Split, SplitPosition

TWO, THREE = (with_config(checkpoints_concurrent_max=number, checkpoints_retained=1) for number in (2, 3))


def in_flight(number: int, plan=THREE) -> Scenario:  # type: ignore[no-untyped-def]
    """Checkpoints 1 … number are triggered and not acknowledged by anybody."""
    run = Scenario(plan).run_up()
    for _ in range(number):
        run.tick(1_000)
    assert run.triggers() == list(range(1, number + 1))
    return run


def acked(run: Scenario, checkpoint: int, chunks: dict[int, list[ChunkHandle]] | None = None) -> tuple[Effect, ...]:
    """Every subtask acknowledges; ``chunks`` by slot of the counting stage."""
    attempt = run.run.attempt
    named = chunks or {}
    return run.said(
        *(
            ack(checkpoint, one, attempt=attempt, chunks=named.get(one.index, ()) if one.stage == 1 else ())
            for one in run.plan.subtasks
        )
    )


def reasons(run: Scenario) -> dict[int, FailureReason | None]:
    reports = [effect.report for effect in run.all(ef.ReportCheckpoint)]
    return {report.checkpoint: report.reason for report in reports}


def test_a_second_checkpoint_starts_while_the_first_is_in_flight_and_a_third_does_not() -> None:
    run = in_flight(2, TWO)
    run.tick(1_000)
    assert run.triggers() == [1, 2]
    run.answer(*acked(run, 1))
    assert run.triggers() == [1, 2, 3]


def test_manifests_are_stored_one_after_the_other_in_the_order_of_their_numbers() -> None:
    run = in_flight(3)
    (first,) = only(acked(run, 1), ef.StoreManifest)
    assert acked(run, 2) == ()
    assert acked(run, 3) == ()
    assert [type(one) for one in run.run.flights] == [Storing, Acked, Acked]
    (look,) = run.feed(ev.ManifestStored(run.now_ms, first.manifest.ref))
    assert only(run.effects, ef.StoreManifest) == [first]
    run.answer(look)
    assert [manifest.checkpoint for manifest in run.manifests()] == [1, 2, 3]
    assert [one.checkpoint for one in run.all(ef.CommitSinks)] == [1, 2, 3]
    assert [manifest.parent for manifest in run.manifests()] == [None, (1, 1), (2, 1)]


def test_a_completed_checkpoint_subsumes_older_ones_and_late_acks_only_leave_files_to_delete() -> None:
    """T7: one acknowledgement of 1 is delayed past the completion of 2."""
    run = in_flight(2)
    run.said(ack(1, READ[0]), ack(1, READ[1]), ack(1, WRITE[0], chunks=[chunk(0, 1)]))
    run.answer(*acked(run, 2))
    assert reasons(run) == {1: FailureReason.SUBSUMED, 2: None}
    assert run.run.failures_in_a_row == 0
    assert ef.SendToSlots(CheckpointAborted(attempt=Attempt(1), checkpoint=CheckpointId(1))) in run.effects
    run.said(ack(1, WRITE[1], chunks=[chunk(1, 1)]))
    run.answer(*run.tick(1_000))
    run.answer(*acked(run, 3))
    assert [one.checkpoint for one in run.all(ef.CommitSinks)] == [2, 3]
    deleted = {key for effect in run.all(ef.Delete) for key in effect.keys}
    assert {f"state/{chunk(slot, 1).name}" for slot in (0, 1)} <= deleted


def test_subsumption_waits_for_the_look() -> None:
    """Until the newer one is complete the older one may still be acknowledged, but it is not stored any more."""
    run = in_flight(2)
    (store,) = only(acked(run, 2), ef.StoreManifest)
    assert acked(run, 1) == ()
    assert [type(one) for one in run.run.flights] == [Acked, Storing]
    run.feed(ev.ManifestStored(run.now_ms, store.manifest.ref))
    assert [type(one) for one in run.run.flights] == [Acked, Looking]
    assert reasons(run) == {}
    run.feed(ev.LookAnswered(run.now_ms, Attempt(1), CheckpointId(2), newer=False))
    assert reasons(run)[1] is FailureReason.SUBSUMED
    assert [manifest.checkpoint for manifest in run.manifests()] == [2]


def test_output_of_a_subsumed_checkpoint_becomes_visible_with_the_newer_one() -> None:
    """T6 and T7: its committables are carried, none is committed for itself."""
    run = in_flight(2)
    run.said(ack(1, WRITE[0]))
    carried = [committable(1, 0), committable(2, 0)]
    run.said(*(ack(2, one) for one in (*READ, WRITE[1])))
    run.answer(*run.said(ack(2, WRITE[0], committables=carried)))
    (commit,) = run.all(ef.CommitSinks)
    assert commit.committables == ((SINK, (committable(1, 0), committable(2, 0), committable(2, 1))),)


def test_whoever_asked_for_a_subsumed_checkpoint_is_answered_by_the_newer_one() -> None:
    """They asked for one that starts after they asked; the newer one did."""
    run = Scenario(TWO).run_up()
    run.feed(ev.CheckpointRequested(run.now_ms, "first"))
    run.feed(ev.CheckpointRequested(run.now_ms, "second"))
    assert run.triggers() == [1, 2]
    run.answer(*acked(run, 2))
    done = ef.RequestDone(CheckpointId(2))
    assert run.all(ef.AnswerRequest) == [ef.AnswerRequest("first", done), ef.AnswerRequest("second", done)]


def test_a_number_below_a_manifest_that_may_still_land_is_never_stored() -> None:
    """2 overtook 1 and its outcome stays unknown. Were 1 completed now and the base of 2 retired, the manifest of 2
    could land afterwards, be the newest, and dangle."""
    run = in_flight(2, replace(TWO, store_tries_max=1))
    (store,) = only(acked(run, 2), ef.StoreManifest)
    acked(run, 1)
    run.feed(ev.ManifestUnknown(run.now_ms, store.manifest.ref))
    assert reasons(run) == {2: FailureReason.STORE_UNKNOWN, 1: FailureReason.SUBSUMED}
    assert run.run.failures_in_a_row == 1
    run.tick(1_000)
    run.complete()
    assert [manifest.checkpoint for manifest in run.manifests()] == [2, 3]


def test_an_older_checkpoint_completes_when_the_newer_one_fails_before_it_was_stored() -> None:
    run = in_flight(2)
    run.said(*(ack(2, one) for one in (*READ, WRITE[0])))
    run.said(ack(2, WRITE[1], chunks=[chunk(1, 7)]))
    assert reasons(run) == {2: FailureReason.UNCONFIRMED_CHUNK}
    run.answer(*acked(run, 1))
    assert reasons(run)[1] is None


def test_a_snapshot_may_build_upon_what_was_complete_at_its_trigger_and_retention_keeps_that() -> None:
    """T36, T40 and rule 9 with ``retained = 1``: 3 was triggered when 1 was the newest, completes after 2, names 1's chunk."""
    run = in_flight(1, TWO)
    run.answer(*acked(run, 1, {0: [chunk(0, 1)]}))
    run.tick(1_000)
    run.tick(1_000)
    assert run.triggers() == [1, 2, 3]
    run.answer(*acked(run, 2, {0: [chunk(0, 2)]}))
    assert f"state/{chunk(0, 1).name}" in run.store
    assert ManifestRef(CheckpointId(1), Attempt(1)) in run.stored_refs()
    run.answer(*acked(run, 3, {0: [chunk(0, 1), chunk(0, 3)]}))
    assert reasons(run)[3] is None
    assert run.run.base is not None
    assert run.run.base.chunk_keys() <= run.store.keys()
    assert run.stored_refs() == [ManifestRef(CheckpointId(3), Attempt(1))], "nothing in flight pins an older one"
    chunks = {key for key in run.store if key.startswith(layout.STATE_PREFIX)}
    assert chunks == {f"state/{chunk(0, number).name}" for number in (1, 3)}


def test_splits_are_folded_over_the_newest_completed_checkpoint_not_over_the_one_at_the_trigger() -> None:
    """T35: reader 0 heard that 1 is complete and reports only what finished since."""
    run = Scenario(TWO).run_up()
    splits = tuple(Split(number=number, payload=b"") for number in range(3))
    run.feed(ev.SplitsDiscovered(run.now_ms, Attempt(1), SOURCE, splits, b"all"))
    run.tick(1_000)
    run.tick(1_000)
    place = SplitPosition(split=splits[1], position=b"5")
    first = [ack(1, one) for one in PLAN.subtasks]
    first[0] = ack(1, READ[0], progress=SourceProgress(open=(place,), finished=(FinishedSplit(0),)))
    run.answer(*run.said(*first))
    second = [ack(2, one) for one in PLAN.subtasks]
    second[0] = ack(2, READ[0], progress=SourceProgress(finished=(FinishedSplit(1),)))
    run.answer(*run.said(*second))
    assert run.run.base is not None
    (source,) = run.run.base.sources
    assert [(one.start, one.stop) for one in source.done] == [(0, 2)]
    assert source.open == ()


def test_at_most_one_completed_checkpoint_waits_behind_a_slow_commit_however_many_are_in_flight() -> None:
    run = in_flight(3)
    for checkpoint in (1, 2, 3):
        for store in only(acked(run, checkpoint), ef.StoreManifest):
            (look,) = run.feed(run.perform(store))  # type: ignore[arg-type]
            run.feed(run.perform(look))  # type: ignore[arg-type]
    assert [one.manifest.checkpoint for one in run.run.commits] == [1, 2]
    assert [type(one) for one in run.run.flights] == [Acked]
    run.tick(60_000)
    assert [type(one) for one in run.run.flights] == [Acked], "it cannot time out: nobody is late"
    effects = run.feed(ev.SinksCommitted(run.now_ms, Attempt(1), CheckpointId(1)))
    assert [one.manifest.checkpoint for one in only(effects, ef.StoreManifest)] == [3]


def test_the_final_checkpoint_is_alone() -> None:
    """It waits for those before it, and nothing follows it."""
    run = in_flight(1)
    ended = [SourceExhausted(attempt=Attempt(1), slot=SlotIndex(slot), operator=SOURCE) for slot in (0, 1)]
    run.said(*ended)
    run.tick(5_000)
    assert run.triggers() == [1]
    run.answer(*acked(run, 1))
    run.tick(5_000)
    sent = [effect.message for effect in run.all(ef.SendToSlots)]
    kinds = {one.checkpoint: one.kind for one in sent if isinstance(one, TriggerCheckpoint)}
    assert kinds == {1: CheckpointKind.PERIODIC, 2: CheckpointKind.FINAL}


def test_each_checkpoint_has_its_own_timeout_and_each_one_that_times_out_counts() -> None:
    run = in_flight(2, TWO)
    run.tick(8_000)
    assert [type(one) for one in run.run.flights] == [Collecting, Collecting]
    run.tick(1_000)
    assert reasons(run) == {1: FailureReason.TIMED_OUT}
    run.tick(1_000)
    assert reasons(run) == {1: FailureReason.TIMED_OUT, 2: FailureReason.TIMED_OUT}
    assert run.run.failures_in_a_row == 2


def test_the_end_of_an_attempt_reports_every_checkpoint_in_flight_once() -> None:
    run = in_flight(3)
    acked(run, 2)
    run.fail()
    reports = [effect.report for effect in run.all(ef.ReportCheckpoint)]
    assert [(one.checkpoint, one.reason) for one in reports] == [
        (number, FailureReason.ATTEMPT_ENDED) for number in (1, 2, 3)
    ]


def test_a_fenced_coordinator_subsumes_nothing() -> None:
    """T10"""
    run = in_flight(2)
    (store,) = only(acked(run, 2), ef.StoreManifest)
    run.feed(ev.ManifestStored(run.now_ms, store.manifest.ref))
    run.feed(ev.LookAnswered(run.now_ms, Attempt(1), CheckpointId(2), newer=True))
    assert reasons(run)[1] is FailureReason.ATTEMPT_ENDED
    assert not run.all(ef.CommitSinks)


def test_a_pause_between_checkpoints_and_several_at_once_contradict_each_other() -> None:
    with pytest.raises(ValueError, match="checkpointMinPause"):
        QueryConfig(checkpoint_min_pause_ms=100, checkpoints_concurrent_max=2)
