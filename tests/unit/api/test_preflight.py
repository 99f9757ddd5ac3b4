"""``start()`` refuses by itself what the first attempt would be refused with, and writes nothing. On real files, without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.checkpoint.locations import contents
from tests.unit.checkpoint.scenario import COUNT, PLAN, SINK
from tests.unit.checkpoint.test_recovery import Location, ref

from tidegate.api.preflight import LOOKS_MAX, refuse_unrestorable
from tidegate.checkpoint import layout
from tidegate.model.errors import CorruptSnapshot, InvalidQuery
from tidegate.model.ids import Attempt, CheckpointId, OperatorId
from tidegate.model.snapshot import Published
from tidegate.storage.local import LocalBlobStore

AHEAD = ((SINK, Published(Attempt(3), CheckpointId(50))),)


@pytest.fixture
def location(tmp_path: Path) -> LocalBlobStore:
    """Three attempts, the last of them with checkpoints of its own."""
    made = Location().attempt(1, None, 1, 2).attempt(2, ref(2, 1)).attempt(3, ref(2, 1), 3, 4)
    store = LocalBlobStore(tmp_path / "ck")
    for key, data in made.store.items():
        store.create(key, data)
    return store


def test_an_empty_location_and_one_that_fits_are_fine(tmp_path: Path, location: LocalBlobStore) -> None:
    before = contents(location)
    refuse_unrestorable(PLAN, LocalBlobStore(tmp_path / "new"), accept_duplicates=False)
    refuse_unrestorable(PLAN, location, accept_duplicates=False)
    assert contents(location) == before, "nothing is written"


def test_a_query_that_has_changed_is_refused_in_the_words_of_recovery(location: LocalBlobStore) -> None:
    changed = replace(PLAN, stateful=tuple(one for one in PLAN.stateful if one != COUNT))
    before = contents(location)
    with pytest.raises(InvalidQuery, match="holds state of operator"):
        refuse_unrestorable(changed, location, accept_duplicates=False)
    assert contents(location) == before


def test_a_target_that_is_ahead_is_refused_unless_rows_may_come_twice(location: LocalBlobStore) -> None:
    """T73"""
    with pytest.raises(CorruptSnapshot, match="manifest is missing"):
        refuse_unrestorable(PLAN, location, accept_duplicates=False, ask_targets=lambda: AHEAD)
    refuse_unrestorable(PLAN, location, accept_duplicates=True, ask_targets=lambda: AHEAD)


def test_a_lost_claim_is_refused(location: LocalBlobStore) -> None:
    location.delete(layout.claim_key(Attempt(2)))
    with pytest.raises(CorruptSnapshot, match="claim is missing"):
        refuse_unrestorable(PLAN, location, accept_duplicates=False)


def test_a_refusal_counts_only_if_nobody_wrote_while_the_location_was_read(location: LocalBlobStore) -> None:
    """A running driver deletes and stores all the time: what looks like damage then is left to the attempt that owns the location."""
    asked = iterated(location)
    refuse_unrestorable(PLAN, location, accept_duplicates=False, ask_targets=lambda: next(asked))
    assert next(asked, None) is None, "it has looked as often as it may"


def iterated(location: LocalBlobStore) -> Iterator[tuple[tuple[OperatorId, Published], ...]]:
    class Writing(tuple[tuple[OperatorId, Published], ...]):
        """Somebody stores a file after the listing."""

        __slots__ = ()

        def __iter__(self) -> Iterator[tuple[OperatorId, Published]]:
            location.create(f"state/somebody-{len(location.list(''))}", b"")
            return super().__iter__()

    for _ in range(LOOKS_MAX):
        yield Writing(AHEAD)
