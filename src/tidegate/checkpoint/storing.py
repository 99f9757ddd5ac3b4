"""The storage half of a coordinator's shell: one storage effect against a store becomes the event that answers it.

Blocking, like the store it is given: the driver runs it on a thread, the simulator at a simulated moment. Nothing here
decides anything; it only tells apart *made*, *was there* and *unknown*, which rule 3 rests on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from tidegate.checkpoint.effects import (
    Delete,
    ListLocation,
    LookForClaim,
    MarkCommitted,
    StoreManifest,
    WriteClaim,
    WriteRestored,
)
from tidegate.checkpoint.events import (
    ClaimRefused,
    ClaimUnknown,
    ClaimWritten,
    CleanupDone,
    CommittedMarked,
    Event,
    Failure,
    ListingFailed,
    LocationListed,
    LookAnswered,
    LookFailed,
    ManifestRefused,
    ManifestStored,
    ManifestUnknown,
    MarkUnknown,
    RestoredRefused,
    RestoredUnknown,
    RestoredWritten,
)
from tidegate.checkpoint.layout import STATE_PREFIX, claim_key, committed_key, manifest_key, restored_key
from tidegate.checkpoint.manifest import Claim, Committed, Restored, decode, encode
from tidegate.checkpoint.plan import CheckpointPlan
from tidegate.checkpoint.recovery import facts_from
from tidegate.model.errors import CorruptSnapshot, TidegateError, Unavailable
from tidegate.model.ids import Attempt, OperatorId
from tidegate.model.snapshot import Published
from tidegate.ports.store import BlobStore, Created

CHUNKS_AT_ONCE = 100
"""Deleted between two looks at the clock."""

StorageEffect: TypeAlias = (
    WriteClaim | ListLocation | WriteRestored | LookForClaim | StoreManifest | MarkCommitted | Delete
)
"""What ``perform`` performs; ``isinstance`` knows it, so that no shell has to list them again."""


AskTargets: TypeAlias = Callable[[], tuple[tuple[OperatorId, Published], ...]]
"""What the targets of the sinks remember of this pipeline. Raises ``TidegateError`` when one does not answer."""


def perform(
    plan: CheckpointPlan,
    effect: StorageEffect,
    store: BlobStore,
    now_ms: Callable[[], int],
    ask_targets: AskTargets = tuple,
) -> Event:
    """Do what ``effect`` says and report it. An outcome the store cannot tell is reported as unknown, never guessed."""
    match effect:
        case WriteClaim():
            return _claim(effect, store, now_ms)
        case WriteRestored():
            return _restored(effect, store, now_ms)
        case ListLocation(attempt, verify_chunks):
            try:
                # Before the listing: the manifest of whatever is visible by now is in it.
                published = ask_targets() if effect.ask_targets else ()
                keys = store.list("")
                refuse_lost_claims(attempt, keys, store)
                facts = facts_from(plan, attempt, keys, store.read, verify_chunks=verify_chunks, published=published)
                return LocationListed(now_ms(), attempt, facts)
            except TidegateError as error:
                return ListingFailed(now_ms(), attempt, failure_of(error))
        case LookForClaim(attempt, about):
            try:
                newer = store.read(claim_key(Attempt(attempt + 1))) is not None
                if not newer:
                    refuse_lost_claims(attempt, (), store, oldest=attempt)
            except TidegateError as error:
                return LookFailed(now_ms(), attempt, about, failure_of(error))
            return LookAnswered(now_ms(), attempt, about, newer)
        case StoreManifest():
            return _manifest(effect, store, now_ms)
        case MarkCommitted(ref):
            try:
                store.create(committed_key(ref), encode(Committed(checkpoint=ref.checkpoint, attempt=ref.attempt)))
            except TidegateError:
                return MarkUnknown(now_ms(), ref)
            return CommittedMarked(now_ms(), ref)
        case Delete():
            return _delete(effect, store, now_ms)


def failure_of(error: TidegateError) -> Failure:
    return Failure(error.code, error.message, error.hint, retryable=isinstance(error, Unavailable))


def error_from(failure: Failure) -> TidegateError:
    """The exception that a failure was, or stands for."""
    kinds = {kind.code: kind for kind in TidegateError.__subclasses__()}
    error = kinds.get(failure.code, TidegateError)(failure.message, hint=failure.hint)
    error.operator, error.position = failure.operator, failure.position
    return error


def refuse_lost_claims(attempt: Attempt, listed: tuple[str, ...], store: BlobStore, oldest: int = 1) -> None:
    """Claims are dense and never deleted, so a location without them is not the one we know.

    A mount point whose disk is gone is an empty directory that takes every write. Without this, an attempt would
    find no checkpoint there and begin from nothing.
    """
    known = frozenset(listed)
    for number in range(oldest, attempt + 1):
        key = claim_key(Attempt(number))
        if key not in known and store.read(key) is None:
            raise CorruptSnapshot(
                f"{key} is missing from the checkpoint location, though this is attempt {attempt}",
                hint="is the right disk mounted there? Bring the files back and start again",
            )


def _claim(effect: WriteClaim, store: BlobStore, now_ms: Callable[[], int]) -> Event:
    key = claim_key(effect.attempt)
    try:
        made = store.create(key, encode(Claim(attempt=effect.attempt, process=effect.process)))
        if isinstance(made, Created):
            return ClaimWritten(now_ms(), effect.attempt)
        found = store.read(key)
    except TidegateError as error:
        return ClaimUnknown(now_ms(), effect.attempt, failure_of(error))
    if found is None:
        return ClaimUnknown(now_ms(), effect.attempt)
    return ClaimRefused(now_ms(), effect.attempt, decode(Claim, key, found).process)


def _restored(effect: WriteRestored, store: BlobStore, now_ms: Callable[[], int]) -> Event:
    key = restored_key(effect.attempt)
    try:
        made = store.create(key, encode(effect.restored))
        if isinstance(made, Created):
            return RestoredWritten(now_ms(), effect.attempt)
        found = store.read(key)
    except TidegateError as error:
        return RestoredUnknown(now_ms(), effect.attempt, failure_of(error))
    if found is None:
        return RestoredUnknown(now_ms(), effect.attempt)
    return RestoredRefused(now_ms(), effect.attempt, decode(Restored, key, found))


def _manifest(effect: StoreManifest, store: BlobStore, now_ms: Callable[[], int]) -> Event:
    ref = effect.manifest.ref
    key, data = manifest_key(ref), encode(effect.manifest)
    try:
        made = store.create(key, data)
        if isinstance(made, Created):
            return ManifestStored(now_ms(), ref)
        return ManifestRefused(now_ms(), ref, ours=store.read(key) == data)
    except TidegateError as error:
        return ManifestUnknown(now_ms(), ref, failure_of(error))


def _delete(effect: Delete, store: BlobStore, now_ms: Callable[[], int]) -> Event:
    deadline_ms = now_ms() + effect.timeout_ms
    undeletable: list[tuple[str, str]] = []
    done = 0
    while done < len(effect.keys):
        if now_ms() >= deadline_ms:
            return CleanupDone(now_ms(), effect.attempt, tuple(undeletable), effect.keys[done:])
        at_once = CHUNKS_AT_ONCE if store.deletes_together else 1
        together = _together(effect.keys[done : done + at_once])
        undeletable += store.delete_many(together).items()
        done += len(together)
    return CleanupDone(now_ms(), effect.attempt, tuple(undeletable))


def _together(keys: tuple[str, ...]) -> tuple[str, ...]:
    """The first of them that may be deleted in any order: chunks. A manifest and its mark keep their turn."""
    other = next((index for index, key in enumerate(keys) if not key.startswith(STATE_PREFIX)), len(keys))
    return keys[: max(1, other)]
