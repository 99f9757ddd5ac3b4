"""Which batch of its sink the output of a checkpoint is: from 0, one by one, the same for ever, and never of other rows."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import pytest
from tests.unit.checkpoint.scenario import PLAN, SINK, Scenario, ack, chunk, committable, only
from tests.unit.checkpoint.test_recovery import Location, manifest, ref
from tests.unit.checkpoint.test_remembered import chosen, published

from tidegate.checkpoint import effects as ef
from tidegate.checkpoint import events as ev
from tidegate.checkpoint import layout
from tidegate.checkpoint.importing import relocated
from tidegate.checkpoint.manifest import Manifest, Restored, encode
from tidegate.checkpoint.numbering import extended, numbering_of
from tidegate.checkpoint.recovery import Choice
from tidegate.checkpoint.savepoint import without_committables
from tidegate.model.batch_ids import BatchIds, Numbering
from tidegate.model.ids import Attempt, BatchId, CheckpointId, OperatorId, PipelineId, SlotIndex
from tidegate.model.messages import SubtaskDeclined
from tidegate.model.snapshot import Committable, OperatorSnapshot

OTHER = OperatorId("sink-1")


def ids(following: int, *given: tuple[int, int], sink: OperatorId = SINK) -> BatchIds:
    pairs = tuple((CheckpointId(checkpoint), BatchId(batch)) for checkpoint, batch in given)
    return BatchIds(sink, BatchId(following), pairs)


def output(*checkpoints: int, sink: OperatorId = SINK, subtask: int = 0) -> OperatorSnapshot:
    owed = tuple(committable(checkpoint, subtask) for checkpoint in checkpoints)
    return OperatorSnapshot(operator=sink, subtask=SlotIndex(subtask), committables=owed)


def carrying(run: Scenario, *checkpoints: int) -> tuple[ef.Effect, ...]:
    """The next checkpoint, with output of these in every subtask."""
    number = run.trigger()
    owed = {
        subtask: tuple(committable(one, subtask.index, run.run.attempt) for one in checkpoints)
        for subtask in PLAN.subtasks
    }
    return run.said(
        *(ack(number, subtask, attempt=run.run.attempt, committables=owed[subtask]) for subtask in PLAN.subtasks)
    )


def decline(run: Scenario) -> None:
    number = run.trigger()
    run.said(
        SubtaskDeclined(
            attempt=run.run.attempt, slot=SlotIndex(0), subtask=PLAN.subtasks[0], checkpoint=number, reason="not ready"
        )
    )


def committed(effects: Iterable[ef.Effect]) -> BatchIds:
    (commit,) = only(effects, ef.CommitSinks)
    return commit.numbering.of(SINK)


# --- one location ---------------------------------------------------------------------------------------------------------


def test_ids_begin_at_0_and_a_checkpoint_without_output_takes_none() -> None:
    run = Scenario().run_up()
    assert committed(run.answer(*carrying(run))) == ids(0), "an empty first checkpoint"
    assert committed(run.answer(*carrying(run, 2))) == ids(1, (2, 0))
    assert committed(run.answer(*carrying(run))) == ids(1)
    assert committed(run.answer(*carrying(run, 4))) == ids(2, (4, 1))


def test_output_of_a_checkpoint_that_failed_is_a_batch_of_its_own_in_the_next_manifest() -> None:
    """T6: and when it was empty, it is none."""
    run = Scenario().run_up()
    run.answer(*carrying(run, 1))
    decline(run)
    decline(run)
    assert committed(run.answer(*carrying(run, 2, 4))) == ids(3, (2, 1), (4, 2))


def test_output_that_is_carried_once_more_keeps_its_id() -> None:
    """A slot that has not heard of the commit sends it again."""
    run = Scenario().run_up()
    run.answer(*carrying(run, 1))
    assert committed(run.answer(*carrying(run, 1, 2))) == ids(2, (1, 0), (2, 1))
    assert committed(run.answer(*carrying(run, 2, 3))) == ids(3, (2, 1), (3, 2))


@pytest.mark.parametrize("by_successor", [False, True])
def test_whoever_repeats_a_commit_repeats_its_id(by_successor: bool) -> None:
    """T1, T76: a retry, a restart, another driver; and what comes afterwards goes on above."""
    run = Scenario().run_up()
    run.answer(*carrying(run, 1))
    (store,) = only(carrying(run, 2), ef.StoreManifest)
    looked = run.answer(store)[0]
    assert isinstance(looked, ef.LookForClaim)
    del run.store[layout.committed_key(ref(2, 1))]
    if by_successor:
        run = run.successor()
        effects = run.answer(*run.start())
    else:
        effects = [*run.answer(*run.fail()), *run.answer(*run.tick(100))]
    assert committed(effects) == ids(2, (2, 1))
    assert committed(run.answer(*carrying(run, 3))) == ids(3, (3, 2))


def test_a_manifest_whose_fate_is_unknown_has_given_out_its_ids() -> None:
    """T3, T76: a whole result takes the place of the one before. If that one's manifest lands late and is restored, its id must be
    nobody else's."""
    run = Scenario().run_up()
    run.answer(*carrying(run, 1))
    (store,) = only(carrying(run, 2), ef.StoreManifest)
    while run.triggered() is not None:
        run.feed(ev.ManifestUnknown(run.now_ms, store.manifest.ref))
        run.tick(200)
    assert numbering_of(store.manifest).of(SINK) == ids(2, (2, 1))
    assert committed(run.answer(*carrying(run, 3))) == ids(3, (3, 2))


def test_each_sink_counts_its_own_batches() -> None:
    first = extended(Numbering(), [output(1), output(1, sink=OTHER), output(1, subtask=1)])
    second = extended(first, [output(2), output(sink=OTHER)])
    third = extended(second, [output(sink=OTHER), output(3, subtask=4), output(3, sink=OTHER)])
    assert third.sinks == (ids(3, (3, 2)), ids(2, (3, 1), sink=OTHER))


def test_a_sink_that_is_gone_for_a_while_goes_on_with_its_numbers() -> None:
    gone = extended(extended(Numbering(), [output(1), output(1, sink=OTHER)]), [output(2)])
    assert extended(gone, [output(3, sink=OTHER)]).of(OTHER) == ids(2, (3, 1), sink=OTHER)


def test_what_is_aborted_is_told_the_id_of_the_next_batch() -> None:
    run = Scenario().run_up()
    for checkpoint in (1, 2, 3):
        run.answer(*carrying(run, checkpoint))
    again = run.successor()
    (sweep,) = only(again.answer(*again.start()), ef.SweepSinks)
    assert sweep.numbering.of(SINK).following == 3


def test_ids_are_checked_on_both_sides() -> None:
    with pytest.raises(ValueError, match="no batch id"):
        manifest(ref(2, 1), numbering=Numbering(sinks=(ids(1, (1, 0)),)))
    with pytest.raises(ValueError, match="not in order"):
        ids(1, (1, 0), (2, 0))
    with pytest.raises(ValueError, match="not in order"):
        ids(1, (1, 1))
    with pytest.raises(ValueError, match="not sorted"):
        Numbering(sinks=(ids(1, sink=OTHER), ids(1)))


# --- documents of earlier versions, other locations -----------------------------------------------------------------------


def test_a_location_of_an_earlier_version_goes_on_with_its_numbers() -> None:
    """T76: there ids were numbers of checkpoints. What is owed keeps its id, and new ones lie above all that were given out."""
    run = Location().attempt(1, None)
    old = manifest(ref(7, 1), outputs=(committable(5, 0), committable(7, 0)))
    assert old.numbering is None
    store = run.manifest(old).store
    successor = Scenario(store=store)
    assert committed(successor.answer(*successor.start())) == ids(8, (5, 5), (7, 7))
    assert committed(successor.answer(*carrying(successor, 7, 8))) == ids(9, (7, 7), (8, 8))
    decline(successor)
    assert committed(successor.answer(*carrying(successor, 10))) == ids(10, (10, 9))


def test_a_sink_that_an_earlier_version_may_have_had_begins_above_its_numbers() -> None:
    old = numbering_of(manifest(ref(7, 1)))
    assert extended(old, [output(8, sink=OTHER)]).of(OTHER) == ids(9, (8, 8), sink=OTHER)


def test_ids_begin_at_0_in_a_location_that_was_started_from_elsewhere() -> None:
    """T76: its batches have another name."""
    saved = without_committables(manifest(ref(7, 2), numbering=Numbering(sinks=(ids(5, (7, 4)),))))
    assert saved.numbering == Numbering(sinks=(ids(5),))
    moved, _ = relocated(saved, PipelineId("another"))
    assert moved.numbering == Numbering()
    from_earlier, _ = relocated(without_committables(manifest(ref(7, 2))), PipelineId("another"))
    assert from_earlier.numbering == Numbering()


# --- checkpoints that are lost --------------------------------------------------------------------------------------------


def numbered(checkpoint: int, attempt: int, batch: int, owed: tuple[Committable, ...] | None = None) -> Manifest:
    return manifest(
        ref(checkpoint, attempt), outputs=owed, numbering=Numbering(sinks=(ids(batch + 1, (checkpoint, batch)),))
    )


def three_batches() -> Location:
    location = Location().attempt(1, None)
    for checkpoint, batch in ((4, 0), (5, 1), (7, 2)):
        location.manifest(numbered(checkpoint, 1, batch))
    return location


def fallen_back(location: Location) -> Choice:
    choice = location.choose(accept_duplicates=True)
    assert isinstance(choice, Choice), choice
    return choice


@pytest.mark.parametrize("lost", ["damaged", "missing and marked"])
def test_falling_back_goes_on_above_every_id_that_the_lost_checkpoint_may_have_given_out(lost: str) -> None:
    """T73, T76: it carried output of 7, and perhaps of 6, which may have failed."""
    location = three_batches()
    key = layout.manifest_key(ref(7, 1))
    if lost == "damaged":
        location.store[key] = b"damaged"
    else:
        del location.store[key]
        location.store[layout.committed_key(ref(7, 1))] = b""
    choice = fallen_back(location)
    assert choice.manifest is not None and choice.manifest.ref == ref(5, 1)
    assert choice.numbering.of(SINK) == ids(4, (5, 1)), "2 and 3 may be of rows that nobody can name"
    assert choice.numbering.of(OTHER).following == 2, "of every sink, also of one that had no output until then"


def test_what_a_target_knows_beyond_the_checkpoint_counts_as_given_out() -> None:
    """T73: without the option it is refused."""
    location = Location().attempt(1, None).manifest(numbered(5, 1, 1))
    choice = chosen(location, published(1, 9), fall_back=True)
    assert (choice.next_checkpoint, choice.numbering.of(SINK).following) == (10, 6)
    nothing = chosen(Location(), published(1, 9), fall_back=True)
    assert nothing.manifest is None and nothing.numbering.of(SINK).following == 9


def test_attempts_that_come_to_nothing_after_a_fall_back_pass_on_what_they_knew() -> None:
    """T76: the option is gone by then, and the damaged checkpoint lies on a dead branch."""
    location = three_batches()
    location.store[layout.manifest_key(ref(7, 1))] = b"damaged"
    for attempt, choice in ((2, fallen_back(location)), (3, None)):
        choice = choice or fallen_back(location)
        document = Restored(
            attempt=Attempt(attempt), checkpoint=(CheckpointId(5), Attempt(1)), batches_lost=choice.batches_lost
        )
        location.store[layout.claim_key(Attempt(attempt))] = b"claim"
        location.store[layout.restored_key(Attempt(attempt))] = encode(document)
        later = location.choose()
        assert isinstance(later, Choice)
        assert later.numbering.of(SINK).following == 4
    location.manifest(numbered(8, 3, 4))
    newest = location.choose()
    assert isinstance(newest, Choice)
    assert newest.numbering.of(SINK) == ids(5, (8, 4)), "which has counted it in"


def test_the_choice_is_written_down_with_the_ids_that_are_lost() -> None:
    location = three_batches()
    location.store[layout.manifest_key(ref(7, 1))] = b"damaged"
    run = Scenario(store=location.store)
    run.answer(*run.start(accept_duplicates=True))
    assert run.last(ef.WriteRestored).restored.batches_lost == 2
    assert run.run.numbering.of(SINK).following == 4
    assert run.last(ef.SweepSinks).numbering.of(SINK).following == 4
    assert committed(run.answer(*carrying(run, 8))) == ids(5, (8, 4))


def test_a_manifest_that_landed_late_has_given_out_nothing() -> None:
    """It lies on a dead branch: nobody has seen its ids."""
    choice = three_batches().attempt(2, ref(5, 1)).choose()
    assert isinstance(choice, Choice)
    assert choice.manifest is not None and choice.manifest.ref == ref(5, 1)
    assert choice.numbering.of(SINK) == ids(2, (5, 1))


def test_a_damaged_checkpoint_that_had_nothing_new_to_publish_has_given_out_nothing() -> None:
    location = Location().attempt(1, None).manifest(numbered(5, 1, 1))
    idle = msgspec.structs.replace(numbered(5, 1, 1), checkpoint=CheckpointId(6))
    for damage, following in ((encode(idle)[:-1], 3), (encode(with_chunk_that_is_gone(idle)), 2)):
        location.store[layout.manifest_key(ref(6, 1))] = damage
        choice = fallen_back(location)
        assert choice.manifest is not None and choice.manifest.ref == ref(5, 1)
        assert choice.numbering.of(SINK).following == following, "unless nobody can read that it had nothing"


def with_chunk_that_is_gone(one: Manifest) -> Manifest:
    operators = (msgspec.structs.replace(one.operators[0], chunks=(chunk(0, 6),)), *one.operators[1:])
    return msgspec.structs.replace(one, operators=operators)
