"""From a person's start to the last word: claims, fencing, restarts, stop, the end of all input."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest
from tests.unit.checkpoint.scenario import COUNT, ONE, PLAN, SINK, SOURCE, Scenario, ack, chunk, only

from tidegate.checkpoint import effects as ef
from tidegate.checkpoint import events as ev
from tidegate.checkpoint import layout
from tidegate.checkpoint.events import Failure
from tidegate.checkpoint.manifest import Restored
from tidegate.checkpoint.phases import Active, BackingOff, Claiming, Deploying, Ending, Listing, Over
from tidegate.model.elements import CheckpointKind
from tidegate.model.ids import Attempt, CheckpointId, SlotIndex
from tidegate.model.messages import SourceExhausted


def exhausted(run: Scenario) -> tuple[ef.Effect, ...]:
    attempt = run.run.attempt
    return run.said(*(SourceExhausted(attempt=attempt, slot=SlotIndex(slot), operator=SOURCE) for slot in range(2)))


def test_recovery_claims_lists_writes_looks_and_only_then_acts() -> None:
    run = Scenario()
    effects = (*run.start(), *run.answer(*run.effects))
    kinds = [type(effect) for effect in effects]
    assert kinds == [ef.WriteClaim, ef.ListLocation, ef.WriteRestored, ef.LookForClaim, ef.SweepSinks, ef.Deploy]


def test_a_persons_start_takes_the_next_free_number() -> None:
    run = Scenario()
    run.store[layout.claim_key(ONE)] = b"somebody"
    run.store[layout.claim_key(Attempt(2))] = b"somebody"
    run.feed(ev.Started(0, "me", ONE))
    assert run.last(ef.WriteClaim).attempt == 2
    run.answer(run.last(ef.WriteClaim))
    assert run.run.attempt == 3


def test_an_automatic_restart_claims_its_own_number_plus_one_and_is_fenced_when_it_is_taken() -> None:
    """T10: no ping-pong between a person's start and the restarts of an old driver."""
    run = Scenario().run_up()
    run.answer(*run.fail())
    run.store[layout.claim_key(Attempt(2))] = b"somebody"
    run.answer(*run.tick(100))
    assert [claim.attempt for claim in run.all(ef.WriteClaim)] == [1, 2]
    assert run.state == Over(ef.Fenced(Attempt(2)))
    assert run.last(ef.Finish) == ef.Finish(ef.Fenced(Attempt(2)))


def test_an_unknown_claim_is_tried_again_under_the_same_number_and_recognised_as_ours() -> None:
    run = Scenario()
    (claim,) = run.start()
    run.feed(ev.ClaimUnknown(run.now_ms, ONE))
    assert run.tick(100) == (claim,)
    run.feed(ev.ClaimRefused(run.now_ms, ONE, "me"))
    assert isinstance(run.state, Listing)


def test_the_store_is_given_up_on_when_it_never_answers() -> None:
    run = Scenario()
    run.start()
    while isinstance(run.state, Claiming):
        run.feed(ev.ClaimUnknown(run.now_ms, ONE))
        run.tick(100_000)
    assert isinstance(run.state, Over)
    assert isinstance(run.state.outcome, ef.Failed)
    assert run.state.outcome.failure.code == "UNAVAILABLE"


def test_an_unknown_restore_point_is_written_again_with_the_same_content() -> None:
    run = Scenario()
    run.start()
    (listing,) = run.feed(run.perform(run.last(ef.WriteClaim)))  # type: ignore[arg-type]
    (written,) = run.feed(run.perform(listing))  # type: ignore[arg-type]
    run.feed(ev.RestoredUnknown(run.now_ms, ONE))
    assert run.tick(100) == (written,)
    effects = run.feed(ev.RestoredRefused(run.now_ms, ONE, Restored(attempt=ONE)))
    assert effects == (ef.LookForClaim(ONE, None),)


def test_a_zombie_that_finds_its_files_gone_is_fenced_and_does_not_cry_damage() -> None:
    """What it misses was deleted by its successor: it looks before it complains."""
    run = Scenario().run_up()
    run.complete(chunks=True)
    run.answer(*run.fail())
    (claim,) = run.tick(100)
    (listing,) = run.feed(run.perform(claim))  # type: ignore[arg-type]
    for key in [key for key in run.store if key.startswith(layout.STATE_PREFIX)]:
        del run.store[key]
    run.store[layout.claim_key(Attempt(3))] = b"somebody"
    run.answer(listing)
    assert run.state == Over(ef.Fenced(Attempt(3)))


def test_a_crash_before_the_first_checkpoint_starts_from_nothing() -> None:
    """T58: some subtasks had acknowledged; a partial cut is no cut."""
    run = Scenario().run_up()
    checkpoint = run.trigger()
    run.said(*(ack(checkpoint, one) for one in PLAN.subtasks[:3]))
    again = run.successor().run_up()
    assert again.last(ef.Deploy) == ef.Deploy(Attempt(2), None)


def test_the_first_checkpoint_follows_a_restore_at_once() -> None:
    run = Scenario().run_up()
    assert run.triggers() == []
    run.complete()
    again = run.successor().run_up()
    assert again.triggers() == [2]


def test_back_off_grows_and_a_completed_checkpoint_resets_it() -> None:
    run = Scenario().run_up()
    delays: list[int] = []
    for completes in (False, False, True, False):
        if completes:
            run.complete()
        before = run.now_ms
        run.answer(*run.fail())
        assert isinstance(run.state, BackingOff)
        delays.append(run.state.until_ms - before)
        run.answer(*run.tick(run.state.until_ms - run.now_ms))
    assert delays == [100, 200, 100, 200]


def test_too_many_restarts_without_a_checkpoint_are_terminal() -> None:
    run = Scenario().run_up()
    for _ in range(3):
        run.answer(*run.fail())
        run.answer(*run.tick(60_000))
    run.answer(*run.fail())
    outcome = run.last(ef.Finish).outcome
    assert isinstance(outcome, ef.Failed)
    assert "Given up after 3 restarts" in outcome.failure.message


def test_the_same_user_error_at_the_same_position_twice_ends_the_query() -> None:
    error = Failure("USER_CODE_FAILED", "ZeroDivisionError", operator="map-0", position="part-3 row 17")
    run = Scenario().run_up()
    run.answer(*run.fail(error))
    run.answer(*run.tick(100))
    assert isinstance(run.state, Active)
    run.answer(*run.fail(error))
    assert run.last(ef.Finish) == ef.Finish(ef.Failed(error))


def test_a_restart_waits_until_the_slots_are_free() -> None:
    run = Scenario().run_up()
    run.fail()
    assert isinstance(run.state, Ending)
    run.tick(60_000)
    assert isinstance(run.state, Ending)
    run.feed(ev.SlotsFree(run.now_ms, ONE))
    assert isinstance(run.state, BackingOff)


def test_slots_that_end_by_themselves_are_a_failure() -> None:
    run = Scenario().run_up()
    run.feed(ev.SlotsFree(run.now_ms, ONE))
    assert isinstance(run.state, BackingOff)


def test_stop_ends_without_a_checkpoint_and_waits_for_a_commit_that_runs() -> None:
    """T77: and for its marker: the target may have forgotten the transaction when the query is started again."""
    run = Scenario().run_up()
    checkpoint = run.trigger()
    (store,) = only(run.acks(checkpoint), ef.StoreManifest)
    (look,) = run.feed(run.perform(store))  # type: ignore[arg-type]
    run.feed(run.perform(look))  # type: ignore[arg-type]
    run.feed(ev.StopRequested(run.now_ms))
    assert run.last(ef.EndAttempt) == ef.EndAttempt(ONE, clean=False, reason="stopped")
    run.feed(ev.SlotsFree(run.now_ms, ONE))
    assert isinstance(run.state, Ending)
    (mark,) = run.feed(ev.SinksCommitted(run.now_ms, ONE, checkpoint))
    assert isinstance(mark, ef.MarkCommitted)
    assert isinstance(run.state, Ending)
    run.feed(run.perform(mark))  # type: ignore[arg-type]
    assert run.state == Over(ef.Stopped())
    assert run.triggers() == [1]


def test_stop_does_not_wait_for_a_commit_that_pauses_between_two_tries() -> None:
    """Nobody would answer: the next start repeats it from the manifest."""
    run = Scenario().run_up()
    checkpoint = run.trigger()
    (store,) = only(run.acks(checkpoint), ef.StoreManifest)
    (look,) = run.feed(run.perform(store))  # type: ignore[arg-type]
    run.feed(run.perform(look))  # type: ignore[arg-type]
    run.feed(ev.SinksFailed(run.now_ms, ONE, checkpoint, ev.Failure("UNAVAILABLE", "the sink did not commit")))
    run.feed(ev.StopRequested(run.now_ms))
    run.feed(ev.SlotsFree(run.now_ms, ONE))
    assert run.state == Over(ef.Stopped())


@pytest.mark.parametrize("answered", range(5))
def test_stop_is_obeyed_in_every_phase_of_a_recovery(answered: int) -> None:
    run = Scenario()
    (effect,) = run.start()
    for _ in range(answered):
        (effect,) = run.feed(run.perform(effect))  # type: ignore[arg-type]
    run.feed(ev.StopRequested(run.now_ms))
    if isinstance(run.state, Ending):
        run.feed(ev.SlotsFree(run.now_ms, ONE))
    assert run.state == Over(ef.Stopped())


def test_a_bounded_query_ends_after_its_final_checkpoint_is_committed() -> None:
    """T19: the input ended between two intervals; every row is visible before the slots are told to leave."""
    run = Scenario().run_up()
    exhausted(run)
    assert run.triggers() == [1]
    effects = run.said(*(ack(1, one) for one in PLAN.subtasks))
    (look,) = run.feed(run.perform(effects[0]))  # type: ignore[arg-type]
    run.feed(run.perform(look))  # type: ignore[arg-type]
    assert run.manifests()[-1].kind is CheckpointKind.FINAL
    assert run.all(ef.EndAttempt) == []
    run.answer(*run.feed(ev.SinksCommitted(run.now_ms, ONE, CheckpointId(1))))
    assert run.last(ef.EndAttempt).clean
    assert run.last(ef.Finish) == ef.Finish(ef.Finished())


def test_sources_that_end_during_a_checkpoint_get_their_final_one_after_it() -> None:
    """T18: whatever the race, the checkpoint in flight ends, and the final one follows."""
    run = Scenario().run_up()
    run.trigger()
    exhausted(run)
    run.complete()
    assert run.triggers() == [1, 2]
    run.answer(*run.said(*(ack(2, one) for one in PLAN.subtasks)))
    assert run.last(ef.Finish) == ef.Finish(ef.Finished())


def test_nothing_is_committed_at_the_end_of_input_when_a_sibling_fails() -> None:
    """T20: end of input alone commits nothing; the failure replays from the last checkpoint."""
    run = Scenario().run_up()
    exhausted(run)
    run.answer(*run.fail())
    assert run.all(ef.CommitSinks) == []
    run.answer(*run.tick(100))
    assert run.last(ef.Deploy) == ef.Deploy(Attempt(2), None)


def test_a_failed_final_checkpoint_is_taken_again() -> None:
    run = Scenario().run_up()
    exhausted(run)
    run.tick(10_000)
    run.tick(1_000)
    run.answer(*run.said(*(ack(2, one) for one in PLAN.subtasks)))
    assert run.last(ef.Finish) == ef.Finish(ef.Finished())


def test_a_request_made_while_the_query_starts_waits_until_it_runs() -> None:
    run = Scenario()
    (claim,) = run.start()
    run.feed(ev.CheckpointRequested(run.now_ms, "early"))
    run.answer(claim)
    assert run.triggers() == [1]
    run.complete()
    assert run.all(ef.AnswerRequest) == [ef.AnswerRequest("early", ef.RequestDone(CheckpointId(1)))]


def test_every_request_is_answered_when_the_query_ends() -> None:
    run = Scenario().run_up()
    run.trigger()
    run.feed(ev.CheckpointRequested(run.now_ms, "waiting"))
    run.answer(*run.feed(ev.StopRequested(run.now_ms)))
    run.feed(ev.CheckpointRequested(run.now_ms, "too late"))
    assert [answer.token for answer in run.all(ef.AnswerRequest)] == ["waiting", "too late"]


def test_events_of_another_attempt_change_nothing() -> None:
    run = Scenario().run_up()
    before = run.state
    other = Attempt(7)
    strays = (
        ev.ClaimWritten(0, other),
        ev.RestoredWritten(0, other),
        ev.LookAnswered(0, other, None, newer=True),
        ev.SinksCommitted(0, other, CheckpointId(1)),
        ev.SlotsReady(0, other),
        ev.AttemptFailed(0, other, Failure("SLOT_LOST", "old news")),
        ev.SlotsFree(0, other),
        ev.CleanupDone(0, other),
    )
    assert run.feed(*strays) == ()
    assert run.state == before


def test_a_failing_deploy_restarts_under_the_next_number() -> None:
    run = Scenario()
    effect = run.start()[0]
    while not isinstance(effect, ef.Deploy):
        (effect,) = run.feed(run.perform(effect))  # type: ignore[arg-type]
    assert isinstance(run.state, Deploying)
    run.answer(*run.feed(ev.AttemptFailed(run.now_ms, ONE, Failure("SLOT_LOST", "too few slots"))))
    run.answer(*run.tick(100))
    assert run.run.attempt == 2


def test_the_plan_names_what_must_be_in_every_manifest() -> None:
    run = Scenario().run_up()
    run.complete()
    assert {entry.operator for entry in run.manifests()[0].operators} == {COUNT, SINK, SOURCE}


def test_no_checkpoint_follows_the_final_one_while_its_commit_runs() -> None:
    run = Scenario().run_up()
    exhausted(run)
    effects = run.said(*(ack(1, one) for one in PLAN.subtasks))
    (look,) = run.feed(run.perform(effects[0]))  # type: ignore[arg-type]
    run.feed(run.perform(look))  # type: ignore[arg-type]
    run.tick(60_000)
    assert run.triggers() == [1]


def test_a_damaged_location_ends_the_query_with_the_reason_and_touches_nothing() -> None:
    run = Scenario().run_up()
    run.complete()
    run.complete()
    run.store[layout.manifest_key(run.stored_refs()[-1])] = b"rotten"
    again = run.successor()
    again.answer(*again.start())
    outcome = again.last(ef.Finish).outcome
    assert isinstance(outcome, ef.Failed)
    assert outcome.failure.code == "CORRUPT_SNAPSHOT"
    assert not any(
        isinstance(effect, ef.CommitSinks | ef.SweepSinks | ef.Delete | ef.Deploy) for effect in again.effects
    )


def test_numbers_are_not_used_twice_by_one_driver() -> None:
    run = Scenario().run_up()
    run.trigger()
    run.answer(*run.fail())
    run.answer(*run.tick(100))
    assert run.trigger() == 2


def test_a_drained_pipeline_is_not_read_on_when_it_is_started_again() -> None:
    """T49: its windows are closed; rows read now would be dropped as late, and nobody would know."""
    plan = replace(PLAN, event_time=True, config=msgspec.structs.replace(PLAN.config, drain=True))
    run = Scenario(plan).run_up()
    run.answer(*exhausted(run))
    run.complete()
    assert run.last(ef.Finish) == ef.Finish(ef.Finished())
    again = Scenario(plan, store=run.store)
    again.answer(*again.start())
    assert again.last(ef.Finish) == ef.Finish(ef.Finished())
    assert not again.all(ef.Deploy)


def test_what_the_last_round_of_deleting_left_goes_when_a_drained_pipeline_is_found_finished() -> None:
    """No later round would come: its driver died in the middle of the last one."""
    plan = replace(PLAN, event_time=True, config=msgspec.structs.replace(PLAN.config, drain=True))
    run = Scenario(plan).run_up()
    run.answer(*exhausted(run))
    run.complete()
    left = layout.chunk_key(chunk(0, 1, attempt=0).name)
    run.store[left] = b"chunk"
    again = Scenario(plan, store=run.store)
    again.answer(*again.start())
    (delete,) = again.all(ef.Delete)
    assert left in delete.keys
    assert left not in again.store
    assert again.effects.index(delete) < again.effects.index(again.last(ef.Finish))
