"""What targets remember, held against a location: refused where something is missing, gone on where nothing is."""

from __future__ import annotations

import msgspec
import pytest
from tests.unit.checkpoint.scenario import SINK
from tests.unit.checkpoint.test_recovery import KEEP_THREE, NEXT, Location, manifest, ref

from tidegate.checkpoint import layout
from tidegate.checkpoint.manifest import Restored, Written, encode
from tidegate.checkpoint.recovery import Choice, Refusal, choose, facts_from
from tidegate.checkpoint.savepoint import without_committables
from tidegate.model.errors import CorruptSnapshot
from tidegate.model.ids import Attempt, CheckpointId
from tidegate.model.snapshot import NOTHING_PUBLISHED, Published


def published(attempt: int, checkpoint: int) -> Published:
    return Published(Attempt(attempt), CheckpointId(checkpoint))


def decide(location: Location, *known: Published, fall_back: bool = False) -> Choice | Refusal:
    facts = facts_from(
        KEEP_THREE, NEXT, location.store, location.store.get, published=tuple((SINK, one) for one in known)
    )
    return choose(KEEP_THREE, NEXT, facts, accept_duplicates=fall_back)


def chosen(location: Location, *known: Published, fall_back: bool = False) -> Choice:
    choice = decide(location, *known, fall_back=fall_back)
    assert isinstance(choice, Choice), choice
    return choice


def refused(location: Location, *known: Published) -> str:
    refusal = decide(location, *known)
    assert isinstance(refusal, Refusal), refusal
    assert refusal.failure.code == CorruptSnapshot.code and not refusal.failure.retryable
    assert "fallBack" in (refusal.failure.hint or "")
    return refusal.failure.message


def two_attempts() -> Location:
    return Location().attempt(1, None, 1, 2, 3).attempt(4, ref(3, 1), 4, 5)


@pytest.mark.parametrize(
    "known",
    [
        published(4, 5),
        published(4, 4),
        published(1, 3),
        published(1, 1),
        published(0, 5),
        published(0, 2),
        published(4, 0),
    ],
    ids=str,
)
def test_what_is_in_the_history_of_the_newest_checkpoint_is_no_reason_to_refuse(known: Published) -> None:
    choice = chosen(two_attempts(), known)
    assert choice.manifest is not None and choice.manifest.ref == ref(5, 4)
    assert choice.accepted == ()


def test_a_target_that_knows_nothing_is_no_reason_to_refuse() -> None:
    """It may be new, or have forgotten: Kafka's brokers do after a week."""
    assert chosen(two_attempts()).notes == ()


@pytest.mark.parametrize("known", [published(4, 6), published(0, 6)], ids=str)
def test_a_checkpoint_newer_than_the_one_to_be_restored_means_that_its_manifest_is_missing(known: Published) -> None:
    """T73: both numbers are named."""
    message = refused(two_attempts(), known)
    assert str(known) in message and "manifest is missing" in message and str(ref(5, 4)) in message


def test_a_checkpoint_of_an_attempt_that_the_history_leaves_out_is_missing_from_it() -> None:
    """Attempt 4 began with checkpoint 3 of attempt 1: whatever attempt 1 published above it is in no history."""
    assert "checkpoint 5 of attempt 1" in refused(two_attempts(), published(1, 5))


@pytest.mark.parametrize("known", [published(6, 6), published(6, 0), published(6, 2)], ids=str)
def test_an_attempt_that_the_location_does_not_know_means_that_it_is_an_older_copy(known: Published) -> None:
    """T74: whoever publishes has written down before what it restores."""
    message = refused(two_attempts(), known)
    assert "older copy" in message and str(known) in message and "attempt 4" in message


def test_a_claim_alone_does_not_make_an_attempt_known() -> None:
    """T74: starts that are refused leave claims behind, and one of them has the number of the attempt that is missing."""
    location = two_attempts()
    for number in (5, 6, 7):
        location.store[layout.claim_key(Attempt(number))] = b"claim"
    assert "older copy" in refused(location, published(6, 6))


def test_an_empty_location_beside_output_is_an_older_copy() -> None:
    assert "none" in refused(Location(), published(1, 1))


@pytest.mark.parametrize("known", [published(4, 6), published(6, 7), published(0, 6)], ids=str)
def test_falling_back_goes_on_above_every_number_that_the_target_knows(known: Published) -> None:
    """T73 T74: a number given out again would be skipped."""
    choice = chosen(two_attempts(), known, fall_back=True)
    assert choice.manifest is not None and choice.manifest.ref == ref(5, 4)
    assert choice.next_checkpoint == known.checkpoint + 1
    assert choice.accepted == (known,)
    (note,) = choice.notes
    assert str(known) in note and f"checkpoint {ref(5, 4)} is restored instead" in note and str(SINK) in note


def test_falling_back_to_nothing_is_said_too() -> None:
    (note,) = chosen(Location(), published(1, 9), fall_back=True).notes
    assert str(published(1, 9)) in note and "begins anew" in note


def test_what_was_accepted_once_is_not_refused_by_later_starts() -> None:
    location = two_attempts()
    document = Restored(attempt=Attempt(7), checkpoint=(CheckpointId(5), Attempt(4)), accepted=(published(6, 9),))
    location.store[layout.claim_key(Attempt(7))] = b"claim"
    location.store[layout.restored_key(Attempt(7))] = encode(document)
    choice = chosen(location, published(6, 9))
    assert choice.next_checkpoint == 10, "nor is its number given out again"
    assert choice.notes == (), "it was said when it was given up"
    assert published(6, 9) in choice.accepted, "and the next attempt hands that on"
    assert "checkpoint 10" in refused(location, published(6, 10))


def test_a_number_that_only_a_marker_or_a_restore_point_knows_is_not_given_out_again() -> None:
    location = two_attempts()
    location.store[layout.committed_key(ref(8, 2))] = b""
    assert chosen(location).next_checkpoint == 9
    location = Location().attempt(1, None).attempt(2, None)
    location.store[layout.restored_key(Attempt(2))] = encode(Restored(attempt=Attempt(2), accepted=(published(1, 12),)))
    assert chosen(location).next_checkpoint == 13


def test_a_target_that_knows_less_than_had_become_visible_was_brought_back() -> None:
    """It is said in a warning with both numbers; nothing is refused, nothing is written again."""
    location = two_attempts()
    newest = msgspec.structs.replace(manifest(ref(6, 4)), written=(Written(SINK, Attempt(4), CheckpointId(6)),))
    location.manifest(newest)
    assert chosen(location, published(1, 2)).notes == (), "its commit may not have come through"
    location.store[layout.committed_key(ref(6, 4))] = b""
    (note,) = chosen(location, published(1, 2)).notes
    assert "checkpoint 2 of attempt 1" in note and "checkpoint 6 of attempt 4" in note
    assert chosen(location, published(4, 6)).notes == ()
    assert chosen(location, published(4, 0)).notes == (), "a target that remembers attempts only cannot tell"
    (note,) = chosen(location, published(0, 3)).notes
    assert "older copy" in note


def test_a_target_that_remembers_nothing_though_output_had_become_visible_is_another_one() -> None:
    """B12: it was dropped and made again. One that forgets says nothing, which is no reason for a warning."""
    location = Location().attempt(1, None, 1)
    location.manifest(
        msgspec.structs.replace(manifest(ref(2, 1)), written=(Written(SINK, Attempt(1), CheckpointId(2)),))
    )
    assert chosen(location, NOTHING_PUBLISHED).notes == (), "its first commit may not have come through"
    location.store[layout.committed_key(ref(2, 1))] = b""
    (note,) = chosen(location, NOTHING_PUBLISHED).notes
    assert "remembers no output" in note and "checkpoint 2 of attempt 1" in note
    choice = chosen(location, NOTHING_PUBLISHED)
    assert choice.accepted == () and choice.next_checkpoint == 3
    assert chosen(location).notes == ()


def test_an_attempt_that_has_published_nothing_hands_on_what_targets_should_remember() -> None:
    """Its newest checkpoint carries nothing and has no marker: the one before it, or of the attempt before it, tells."""
    location = Location().attempt(1, None, 1, 2)
    location.store[layout.committed_key(ref(2, 1))] = b""
    location.attempt(4, ref(2, 1))
    written = (Written(SINK, Attempt(1), CheckpointId(2)),)
    location.manifest(msgspec.structs.replace(without_committables(manifest(ref(5, 4))), written=written))
    (note,) = chosen(location, published(1, 1)).notes
    assert "checkpoint 1 of attempt 1" in note and "checkpoint 2 of attempt 1" in note
    location.manifest(
        msgspec.structs.replace(manifest(ref(5, 4)), written=(Written(SINK, Attempt(4), CheckpointId(5)),))
    )
    assert chosen(location, published(1, 1)).notes == (), "that one is committed now, for all that is known"
