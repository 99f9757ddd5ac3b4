"""From the facts in a location to what is restored: lineage, damage, and what does not fit."""

from __future__ import annotations

import zlib
from dataclasses import replace

import msgspec
import pytest
from tests.unit.checkpoint.scenario import COUNT, PLAN, SINK, SOURCE, Scenario, committable, with_config

from tidegate.checkpoint import effects as ef
from tidegate.checkpoint import layout
from tidegate.checkpoint.layout import ManifestRef
from tidegate.checkpoint.manifest import Manifest, Restored, encode
from tidegate.checkpoint.plan import CheckpointPlan, without
from tidegate.checkpoint.recovery import Choice, Refusal, choose, facts_from, lineage_of
from tidegate.model.errors import CorruptSnapshot
from tidegate.model.ids import Attempt, CheckpointId, OperatorId, PipelineId, SlotIndex
from tidegate.model.shape import StateShape
from tidegate.model.snapshot import Committable, OperatorSnapshot

NEXT = Attempt(9)
KEEP_THREE = with_config(checkpoints_retained=3)


def ref(checkpoint: int, attempt: int) -> ManifestRef:
    return ManifestRef(CheckpointId(checkpoint), Attempt(attempt))


def manifest(of: ManifestRef, *, outputs: tuple[Committable, ...] | None = None, **changes: object) -> Manifest:
    made = (committable(of.checkpoint, 0, of.attempt),) if outputs is None else outputs
    entries = (
        OperatorSnapshot(operator=COUNT, subtask=SlotIndex(0)),
        OperatorSnapshot(operator=SINK, subtask=SlotIndex(0), committables=made),
        OperatorSnapshot(operator=SOURCE, subtask=SlotIndex(0)),
    )
    values = {
        "pipeline": PLAN.pipeline,
        "checkpoint": of.checkpoint,
        "attempt": of.attempt,
        "max_parallelism": PLAN.config.max_parallelism,
        "operators": entries,
        **changes,
    }
    return Manifest(**values)  # type: ignore[arg-type]


class Location:
    """A store in the making."""

    def __init__(self) -> None:
        self.store: dict[str, bytes] = {}

    def attempt(self, number: int, restored: ManifestRef | None, *checkpoints: int) -> Location:
        attempt = Attempt(number)
        self.store[layout.claim_key(attempt)] = b"claim"
        pair = None if restored is None else (restored.checkpoint, restored.attempt)
        self.store[layout.restored_key(attempt)] = encode(Restored(attempt=attempt, checkpoint=pair))
        for checkpoint in checkpoints:
            self.manifest(manifest(ref(checkpoint, number)))
        return self

    def manifest(self, one: Manifest) -> Location:
        self.store[layout.manifest_key(one.ref)] = encode(one)
        return self

    def choose(self, plan: CheckpointPlan = KEEP_THREE, *, accept_duplicates: bool = False) -> Choice | Refusal:
        facts = facts_from(plan, NEXT, self.store, self.store.get)
        return choose(plan, NEXT, facts, accept_duplicates=accept_duplicates)

    def chosen(self, plan: CheckpointPlan = KEEP_THREE) -> ManifestRef | None:
        choice = self.choose(plan)
        assert isinstance(choice, Choice), choice
        return choice.manifest.ref if choice.manifest is not None else None


def test_an_empty_location_starts_from_nothing() -> None:
    assert Location().chosen() is None


def test_the_newest_checkpoint_of_the_newest_attempt_is_restored() -> None:
    assert Location().attempt(1, None, 1, 2).attempt(2, ref(2, 1), 3, 4).chosen() == ref(4, 2)


def test_an_attempt_without_checkpoints_hands_on_what_it_restored() -> None:
    assert Location().attempt(1, None, 1, 2).attempt(2, ref(2, 1)).chosen() == ref(2, 1)


def test_a_marker_says_whether_the_restored_output_is_visible_already() -> None:
    """A sink whose other side forgets old transactions need not ask for them again."""
    location = Location().attempt(1, None, 1)
    for marked in (False, True):
        choice = location.choose()
        assert isinstance(choice, Choice)
        assert choice.published is marked
        assert choice.manifest is not None
        assert choice.manifest.committables(), "it is still carried: others keep what they show in memory"
        location.store[layout.committed_key(ref(1, 1))] = b""


def test_a_manifest_above_the_one_that_was_restored_is_a_dead_branch() -> None:
    """Attempt 2 chose checkpoint 1 and may have aborted the transactions of 2: nobody restores 2 any more."""
    location = Location().attempt(1, None, 1, 2).attempt(2, ref(1, 1))
    assert location.chosen() == ref(1, 1)
    assert location.chosen(replace(KEEP_THREE, rules=without(2))) == ref(2, 1)


def test_a_claim_without_a_restore_point_changes_nothing() -> None:
    location = Location().attempt(1, None, 1)
    location.store[layout.claim_key(Attempt(2))] = b"claim"
    assert location.chosen() == ref(1, 1)


def test_an_attempt_that_restored_nothing_makes_everything_before_it_dead() -> None:
    location = Location().attempt(1, None, 1).attempt(2, None)
    assert location.chosen() is None


def test_the_lineage_goes_through_the_restore_points() -> None:
    location = Location().attempt(1, None, 1, 2, 3).attempt(2, ref(2, 1), 4).attempt(3, ref(4, 2), 5)
    plan = with_config(checkpoints_retained=9)
    facts = facts_from(plan, NEXT, location.store, location.store.get)
    assert lineage_of(facts, NEXT) == (ref(5, 3), ref(4, 2), ref(2, 1), ref(1, 1))


def test_only_what_the_choice_needs_is_read() -> None:
    location = Location().attempt(1, None, *range(1, 50)).attempt(2, ref(49, 1), *range(50, 60))
    read: list[str] = []

    def reading(key: str) -> bytes | None:
        read.append(key)
        return location.store.get(key)

    facts_from(KEEP_THREE, NEXT, location.store, reading)
    newest = [layout.manifest_key(ref(number, 2)) for number in (59, 58, 57)]
    assert read == [layout.restored_key(Attempt(2)), *newest]


def test_ids_go_on_above_dead_branches() -> None:
    """T4"""
    choice = Location().attempt(1, None, 1, 7).attempt(2, ref(1, 1)).choose()
    assert isinstance(choice, Choice)
    assert choice.next_checkpoint == 8


@pytest.mark.parametrize("damage", [b"", b"tidegate crc32=00000000 bytes=3\nabc", b"\x00" * 100])
def test_a_damaged_checkpoint_that_may_be_visible_is_never_passed_over_silently(damage: bytes) -> None:
    """A missing commit marker proves nothing: its author's commit may be on its way."""
    location = Location().attempt(1, None, 1, 2)
    location.store[layout.manifest_key(ref(2, 1))] = damage
    refusal = location.choose()
    assert isinstance(refusal, Refusal)
    assert refusal.failure.code == "CORRUPT_SNAPSHOT"
    assert "000002-000001/manifest" in refusal.failure.message
    assert "onCorruptCheckpoint" in refusal.failure.hint


def test_a_person_may_accept_duplicates() -> None:
    location = Location().attempt(1, None, 1, 2)
    location.store[layout.manifest_key(ref(2, 1))] = b"rotten"
    choice = location.choose(accept_duplicates=True)
    assert isinstance(choice, Choice)
    assert choice.manifest is not None
    assert choice.manifest.ref == ref(1, 1)
    run = Scenario(KEEP_THREE, location.store)
    run.run_up(accept_duplicates=True)
    written = run.last(ef.WriteRestored)
    assert written.restored.ref == ref(1, 1)
    (note,) = written.notes
    for part in (
        str(ref(2, 1)),
        "000002-000001/manifest is damaged",
        f"checkpoint {ref(1, 1)} is restored instead",
        "again",
    ):
        assert part in note, "the log says what is given up, why, and what is restored"


def test_a_checkpoint_that_had_nothing_to_publish_may_be_passed_over() -> None:
    """Proof: what it carries is carried by the older one as well, so nothing visible is read again."""
    outputs = (committable(1, 0),)
    location = Location().attempt(1, None, 1)
    lost = location.store
    quiet = manifest(ref(2, 1), outputs=outputs, operators=_with_chunk(outputs))
    location.manifest(quiet)
    assert min(quiet.chunk_keys()) not in lost
    assert location.chosen() == ref(1, 1)


def test_a_missing_chunk_is_damage_like_any_other() -> None:
    location = Location().attempt(1, None, 1)
    outputs = (committable(2, 0),)
    location.manifest(manifest(ref(2, 1), operators=_with_chunk(outputs)))
    refusal = location.choose()
    assert isinstance(refusal, Refusal)
    assert "is missing" in refusal.failure.message


def test_nobody_goes_back_further_than_what_is_retained() -> None:
    location = Location().attempt(1, None, 1, 2, 3)
    for number in (2, 3):
        location.store[layout.manifest_key(ref(number, 1))] = b"rotten"
    plan = replace(with_config(checkpoints_retained=2), rules=without(6))
    refusal = location.choose(plan)
    assert isinstance(refusal, Refusal)
    assert "no checkpoint can be restored" in refusal.failure.message


def test_a_restored_checkpoint_that_vanished_is_not_taken_for_a_fresh_start() -> None:
    location = Location().attempt(1, None, 1).attempt(2, ref(1, 1))
    del location.store[layout.manifest_key(ref(1, 1))]
    refusal = location.choose()
    assert isinstance(refusal, Refusal)
    assert "000001-000001/manifest is missing" in refusal.failure.message


def test_a_damaged_restore_point_stops_the_start() -> None:
    location = Location().attempt(1, None, 1)
    location.store[layout.restored_key(Attempt(1))] = b"rotten"
    with pytest.raises(CorruptSnapshot, match="attempts/000001/restored is damaged"):
        location.choose()


def _refused(change: CheckpointPlan, location: Location) -> str:
    refusal = location.choose(change)
    assert isinstance(refusal, Refusal)
    assert refusal.failure.code == "INVALID_QUERY"
    assert not refusal.failure.retryable
    return refusal.failure.message


def test_an_operator_without_an_entry_is_refused_not_started_empty() -> None:
    """T59"""
    plan = replace(KEEP_THREE, stateful=tuple(sorted((*KEEP_THREE.stateful, OperatorId("join-0")))))
    assert "holds no state of operator 'join-0'" in _refused(plan, Location().attempt(1, None, 1))


def test_state_of_an_operator_that_is_gone_is_refused() -> None:
    plan = replace(KEEP_THREE, stateful=(SINK, SOURCE))
    assert "aggregate-0" in _refused(plan, Location().attempt(1, None, 1))


def test_a_changed_max_parallelism_is_refused() -> None:
    """T47"""
    plan = with_config(KEEP_THREE, max_parallelism=64)
    assert "maxParallelism 128" in _refused(plan, Location().attempt(1, None, 1))


def test_a_checkpoint_of_another_pipeline_is_refused() -> None:
    location = Location().attempt(1, None).manifest(manifest(ref(1, 1), pipeline=PipelineId("other")))
    refusal = location.choose()
    assert isinstance(refusal, Refusal)
    assert "belongs to pipeline other" in refusal.failure.message


def test_files_of_dead_branches_are_garbage_and_the_lineage_is_not() -> None:
    location = Location().attempt(1, None, 1, 2).attempt(2, ref(1, 1), 3)
    location.store["state/aggregate-0/000001-00000-000002-0"] = b"chunk of the dead checkpoint"
    location.store["state/aggregate-0/000009-00000-000004-0"] = b"chunk of this very attempt"
    location.store["notes.txt"] = b"not ours"
    choice = location.choose()
    assert isinstance(choice, Choice)
    assert choice.garbage == (layout.manifest_key(ref(2, 1)), "state/aggregate-0/000001-00000-000002-0")
    assert [one.ref for one in choice.lineage] == [ref(3, 2), ref(1, 1)]


def test_chunks_are_kept_while_a_damaged_manifest_may_name_them() -> None:
    """A person may put a copy of the manifest back."""
    location = Location().attempt(1, None, 1, 2)
    location.store[layout.manifest_key(ref(1, 1))] = b"rotten"
    location.store["state/aggregate-0/000001-00000-000001-0"] = b"chunk"
    choice = location.choose()
    assert isinstance(choice, Choice)
    assert choice.garbage == ()


def _with_chunk(outputs: tuple[Committable, ...]) -> tuple[OperatorSnapshot, ...]:
    from tests.unit.checkpoint.scenario import chunk

    return (
        OperatorSnapshot(operator=COUNT, subtask=SlotIndex(0), chunks=(chunk(0, 2),)),
        OperatorSnapshot(operator=SINK, subtask=SlotIndex(0), committables=outputs),
        OperatorSnapshot(operator=SOURCE, subtask=SlotIndex(0)),
    )


def test_state_of_a_changed_operator_is_refused_and_the_change_is_named() -> None:
    """T48: an aggregate that means something else must not go on from old sums."""
    was, now = (StateShape(COUNT, (("aggregate 1", f"{function}(v bigint)"),)) for function in ("sum", "max"))
    location = Location().attempt(1, None).manifest(manifest(ref(1, 1), shapes=(was,)))
    assert "aggregate 1: sum(v bigint) → max(v bigint)" in _refused(replace(KEEP_THREE, shapes=(now,)), location)


def test_dropped_state_leaves_the_lineage_as_it_is_stored_and_says_so_in_the_choice() -> None:
    plan = with_config(replace(KEEP_THREE, stateful=(SINK, SOURCE)), allow_dropped_state=True)
    location = Location().attempt(1, None, 1)
    choice = location.choose(plan)
    assert isinstance(choice, Choice)
    assert choice.manifest is not None
    assert COUNT not in {entry.operator for entry in choice.manifest.operators}
    assert COUNT in {entry.operator for entry in choice.lineage[0].operators}
    assert COUNT in choice.notes[0]


def test_a_manifest_with_a_missing_entry_is_damaged() -> None:
    """T59: passed over like any damaged one, or refused; never restored with that operator empty."""
    location = Location().attempt(1, None, 1)
    whole = manifest(ref(1, 1), stateful=(COUNT, SINK, SOURCE))
    document = msgspec.msgpack.decode(msgspec.msgpack.encode(whole))
    document["operators"] = [one for one in document["operators"] if one["operator"] != COUNT]
    body = msgspec.msgpack.encode(document)
    location.store[layout.manifest_key(whole.ref)] = b"tidegate crc32=%08x bytes=%d\n%b" % (
        zlib.crc32(body),
        len(body),
        body,
    )
    refusal = location.choose()
    assert isinstance(refusal, Refusal)
    assert refusal.failure.code == CorruptSnapshot.code
    assert "the state of aggregate-0 is missing" in refusal.failure.message
