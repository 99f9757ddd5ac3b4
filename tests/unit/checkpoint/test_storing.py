"""One storage effect becomes the event that answers it: made, there, unknown, and why. On real files."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.unit.checkpoint.locations import checkpoint_of, chunk, renamed
from tests.unit.checkpoint.scenario import PLAN

from tidegate.checkpoint import effects as ef
from tidegate.checkpoint import events as ev
from tidegate.checkpoint import layout
from tidegate.checkpoint.manifest import Restored
from tidegate.checkpoint.recovery import Choice, Refusal, choose
from tidegate.checkpoint.storing import CHUNKS_AT_ONCE, StorageEffect, error_from, failure_of, perform
from tidegate.model.errors import Bug, CorruptSnapshot, InvalidQuery, SlotLost, TidegateError, Unavailable
from tidegate.model.ids import Attempt
from tidegate.ports.store import BlobStore
from tidegate.storage.local import LocalBlobStore

SECOND = Attempt(2)


def do(effect: StorageEffect, store: BlobStore) -> ev.Event:
    return perform(PLAN, effect, store, lambda: 7)


class BrokenStore(LocalBlobStore):
    """Every write fails with ``number``."""

    number = errno.ENOSPC

    def _write(self, path: Path, data: bytes) -> None:
        raise OSError(self.number, "made up")


@pytest.fixture
def store(tmp_path: Path) -> LocalBlobStore:
    """Attempt 1 has taken checkpoint 3 and published it; attempt 2 has claimed."""
    made = LocalBlobStore(tmp_path / "here")
    do(ef.WriteClaim(Attempt(1), "first"), made)
    do(ef.WriteRestored(Attempt(1), Restored(attempt=Attempt(1))), made)
    for number in (2, 3):
        taken = checkpoint_of(chunk(made, 1, number, 0, b"state"), ref=(number, 1))
        taken = renamed(taken, PLAN.pipeline)
        do(ef.StoreManifest(taken), made)
        do(ef.MarkCommitted(taken.ref), made)
    do(ef.WriteClaim(SECOND, "second"), made)
    return made


def listed(store: BlobStore, **options: bool) -> Choice | Refusal | ev.ListingFailed:
    match do(ef.ListLocation(SECOND, **options), store):
        case ev.LocationListed(_, _, facts):
            return choose(PLAN, SECOND, facts, accept_duplicates=options.get("verify_chunks", False))
        case ev.ListingFailed() as failed:
            return failed
        case other:
            pytest.fail(f"not an answer: {other}")


@pytest.mark.parametrize(
    ("number", "code", "retryable"), [(errno.ENOSPC, Unavailable.code, True), (errno.EROFS, InvalidQuery.code, False)]
)
def test_a_write_that_failed_says_why(tmp_path: Path, number: int, code: str, retryable: bool) -> None:
    store = BrokenStore(tmp_path)
    store.number = number
    manifest = checkpoint_of()
    effects = (
        ef.WriteClaim(SECOND, "me"),
        ef.WriteRestored(SECOND, Restored(attempt=SECOND)),
        ef.StoreManifest(manifest),
    )
    for effect in effects:
        answer = do(effect, store)
        assert isinstance(answer, ev.ClaimUnknown | ev.RestoredUnknown | ev.ManifestUnknown)
        assert answer.failure is not None
        assert (answer.failure.code, answer.failure.retryable) == (code, retryable)


def test_the_location_as_it_was_left_is_restored(store: LocalBlobStore) -> None:
    choice = listed(store)
    assert isinstance(choice, Choice) and choice.manifest is not None and choice.manifest.checkpoint == 3


def test_a_look_finds_out_that_the_location_is_another_one(store: LocalBlobStore) -> None:
    assert do(ef.LookForClaim(SECOND, None), store) == ev.LookAnswered(7, SECOND, None, newer=False)
    assert do(ef.LookForClaim(Attempt(1), None), store) == ev.LookAnswered(7, Attempt(1), None, newer=True)
    shutil.rmtree(store.root)
    store.root.mkdir()
    answer = do(ef.LookForClaim(SECOND, None), store)
    assert isinstance(answer, ev.LookFailed) and answer.failure is not None
    assert answer.failure.code == CorruptSnapshot.code and "mounted" in answer.failure.hint


@pytest.mark.parametrize("key", ["attempts/000001/claim", "attempts/000001/restored"])
def test_a_lost_document_of_an_attempt_is_missed(store: LocalBlobStore, key: str) -> None:
    """T13: without it the lineage would begin elsewhere, or nowhere."""
    store.delete(key)
    answer = listed(store)
    assert isinstance(answer, ev.ListingFailed) and answer.failure.code == CorruptSnapshot.code
    assert key in answer.failure.message and not answer.failure.retryable


def test_a_lost_manifest_whose_output_is_visible_is_missed(store: LocalBlobStore) -> None:
    """T13: the one before it would be restored, and the rows between them published twice."""
    key = layout.manifest_key(layout.ManifestRef(checkpoint_of(ref=(3, 1)).checkpoint, Attempt(1)))
    store.delete(key)
    refused = listed(store)
    assert isinstance(refused, Refusal) and key in refused.failure.message
    allowed = listed(store, verify_chunks=True)
    assert isinstance(allowed, Choice) and allowed.manifest is not None and allowed.manifest.checkpoint == 2


def test_a_marker_that_outlived_a_retired_manifest_is_not_missed(store: LocalBlobStore) -> None:
    """A cleanup that died between the two deletes."""
    store.delete(layout.manifest_key(layout.ManifestRef(checkpoint_of(ref=(2, 1)).checkpoint, Attempt(1))))
    choice = listed(store)
    assert isinstance(choice, Choice) and choice.manifest is not None and choice.manifest.checkpoint == 3


def test_only_somebody_who_may_go_back_reads_all_state(store: LocalBlobStore) -> None:
    (key,) = [key for key in store.list(layout.STATE_PREFIX) if "-000003-" in key]
    (store.root / key).write_bytes(b"stale")
    unread = listed(store)
    assert isinstance(unread, Choice) and unread.manifest is not None and unread.manifest.checkpoint == 3
    allowed = listed(store, verify_chunks=True)
    assert isinstance(allowed, Choice) and allowed.manifest is not None and allowed.manifest.checkpoint == 2


@pytest.mark.parametrize(
    "error", [InvalidQuery("a", hint="b"), Unavailable("a"), SlotLost("a"), Bug("a"), CorruptSnapshot("a")]
)
def test_a_failure_becomes_the_error_it_was(error: TidegateError) -> None:
    again = error_from(failure_of(error))
    assert type(again) is type(error) and str(again) == str(error)


class ManyAtOnce(LocalBlobStore):
    """Deletes many together, and remembers which."""

    deletes_together = True

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.together: list[tuple[str, ...]] = []

    def delete_many(self, keys: Sequence[str]) -> dict[str, str]:
        self.together.append(tuple(keys))
        return {key: "it does not want to" for key in keys if key.endswith("/7")}


def test_chunks_are_deleted_together_and_everything_else_in_its_turn(tmp_path: Path) -> None:
    """A manifest that outlived its chunks would look like damage."""
    store = ManyAtOnce(tmp_path / "here")
    chunks = tuple(f"{layout.STATE_PREFIX}op/{number}" for number in range(CHUNKS_AT_ONCE + 20))
    keys = ("checkpoints/000001-000001/manifest", "checkpoints/000001-000001/committed", *chunks)
    done = do(ef.Delete(SECOND, keys, 60_000), store)
    assert store.together == [keys[:1], keys[1:2], chunks[:CHUNKS_AT_ONCE], chunks[CHUNKS_AT_ONCE:]]
    assert done == ev.CleanupDone(7, SECOND, ((f"{layout.STATE_PREFIX}op/7", "it does not want to"),))


def test_a_cleanup_that_runs_out_of_time_names_what_is_left(tmp_path: Path) -> None:
    store = ManyAtOnce(tmp_path / "here")
    chunks = tuple(f"{layout.STATE_PREFIX}op/a{number}" for number in range(2 * CHUNKS_AT_ONCE))
    clock = iter((0, 0, 100, 100))
    done = perform(PLAN, ef.Delete(SECOND, chunks, 50), store, lambda: next(clock))
    assert done == ev.CleanupDone(100, SECOND, (), chunks[CHUNKS_AT_ONCE:])
