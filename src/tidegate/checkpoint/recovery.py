"""From the facts in a location to what an attempt restores. No I/O: the shell lists and reads, this module decides."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

from tidegate.checkpoint import layout
from tidegate.checkpoint.changes import fit
from tidegate.checkpoint.events import Facts, Failure
from tidegate.checkpoint.layout import ManifestRef
from tidegate.checkpoint.manifest import Manifest, Restored, decode
from tidegate.checkpoint.plan import CheckpointPlan
from tidegate.model.elements import CheckpointKind
from tidegate.model.errors import CorruptSnapshot
from tidegate.model.ids import Attempt, CheckpointId, OperatorId
from tidegate.model.snapshot import Committable


@dataclass(frozen=True, slots=True)
class Choice:
    """What to restore (None: start from nothing) and what the location teaches about the past."""

    manifest: Manifest | None
    """With exactly the operators of this query (``changes.fit``)."""
    lineage: tuple[Manifest, ...]
    """Readable checkpoints that may be kept, newest first, as they are stored; the first one is what ``manifest`` was made of."""
    next_checkpoint: CheckpointId
    garbage: tuple[str, ...]
    """Keys no lineage needs, oldest first: deleted once this attempt has a checkpoint of its own."""
    notes: tuple[str, ...] = ()
    """How the query differs from the one that took the checkpoint; for the user."""
    published: bool = False
    """A marker says that all output the checkpoint carries is visible."""


@dataclass(frozen=True, slots=True)
class Refusal:
    failure: Failure


Decision: TypeAlias = Choice | Refusal

NOTHING = ManifestRef(CheckpointId(0), layout.IMPORTED)
"""Orders before every checkpoint."""
REQUESTED = frozenset({CheckpointKind.MANUAL, CheckpointKind.SAVEPOINT})
"""Kinds that a person asked for."""


def facts_from(
    plan: CheckpointPlan,
    attempt: Attempt,
    keys: Iterable[str],
    read: Callable[[str], bytes | None],
    *,
    verify_chunks: bool = False,
) -> Facts:
    """Sort a listing made after claim ``attempt`` was written, reading only the documents the choice depends on.

    ``verify_chunks``: a checkpoint with a damaged chunk counts as damaged. It reads all state, so only somebody who is
    ready to go back further asks for it; without it the slot that needs the chunk finds out.
    Raises ``CorruptSnapshot`` when a ``restored`` document is damaged: without it the lineage is unknown.
    """
    keys = tuple(sorted(keys))
    parsed = [layout.parse(key) for key in keys]
    manifests = tuple(sorted(key.ref for key in parsed if isinstance(key, layout.ManifestKey)))
    facts = Facts(
        claims=tuple(sorted(key.attempt for key in parsed if isinstance(key, layout.ClaimKey))),
        manifests=manifests,
        committed=frozenset(key.ref for key in parsed if isinstance(key, layout.CommittedKey)),
        keys=keys,
    )
    writers = {key.attempt for key in parsed if isinstance(key, layout.RestoredKey)}
    if plan.rules.unknown_is_unknown:
        # Whoever stored a manifest had seen its ``restored`` stand; so if that is not listed, it has to be found missing.
        writers.update(ref.attempt for ref in manifests if ref.attempt != layout.IMPORTED)
    at = max((writer for writer in writers if writer < attempt), default=None)
    # The chain is followed until enough checkpoints are known; older attempts cannot matter any more.
    while at is not None and (
        not facts.restored or len(candidates(plan, attempt, facts)) < plan.config.checkpoints_retained
    ):
        key = layout.restored_key(at)
        data = read(key)
        if data is None:
            raise CorruptSnapshot(
                f"{key} is missing, though checkpoints were built upon it",
                hint="restore the file from a copy of the location",
            )
        facts.restored[at] = decode(Restored, key, data)
        named = facts.restored[at].ref
        at = named.attempt if named is not None and named.attempt != layout.IMPORTED else None
    for ref in candidates(plan, attempt, facts):
        _read_manifest(facts, ref, read, verify_chunks)
    return facts


def _read_manifest(facts: Facts, ref: ManifestRef, read: Callable[[str], bytes | None], verify_chunks: bool) -> None:
    key = layout.manifest_key(ref)
    data = read(key)
    if data is None:
        facts.damaged[ref] = f"{key} is missing"
        return
    try:
        manifest = decode(Manifest, key, data)
    except CorruptSnapshot as error:
        facts.damaged[ref] = error.message
        return
    broken = _broken_chunk(manifest, read) if verify_chunks else None
    if broken is None:
        facts.readable[ref] = manifest
    else:
        facts.damaged[ref] = broken


def _broken_chunk(manifest: Manifest, read: Callable[[str], bytes | None]) -> str | None:
    for chunk in manifest.chunks():
        key = layout.chunk_key(chunk.name)
        data = chunk.data if chunk.data is not None else read(key)
        if data is None:
            return f"{key} is missing"
        if len(data) != chunk.size_bytes or zlib.crc32(data) != chunk.checksum:
            return f"{key} is damaged: its checksum does not match its content"
    return None


def lineage_of(facts: Facts, attempt: Attempt) -> tuple[ManifestRef, ...]:
    """Checkpoints that may be restored, best first, as far as ``facts.restored`` reaches.

    The manifests of the newest attempt that wrote ``restored``, then the one it names, then that one's elders. A
    manifest of an older attempt above the one that was restored from it lies on a dead branch: whoever chose to
    restore something else may have aborted its transactions. Before the first ``restored`` there is only what was
    imported: it stood before the first claim.
    """
    at = max((writer for writer in facts.restored if writer < attempt), default=layout.IMPORTED)
    lineage: list[ManifestRef] = []
    newest: CheckpointId | None = None
    while True:
        own = [ref for ref in facts.manifests if ref.attempt == at and (newest is None or ref.checkpoint <= newest)]
        if newest is None:
            # The newest manifest of the newest attempt is never deleted: a marker above it says that one was lost.
            own.extend([ref for ref in facts.committed if ref.attempt == at and ref > max(own, default=NOTHING)])
        lineage.extend(ref for ref in sorted(own, reverse=True) if ref not in lineage)
        restored = facts.restored.get(at)
        named = restored.ref if restored is not None else None
        if named is None:
            break
        if named not in lineage:
            lineage.append(named)  # Listed or not: it must be there, and its absence must be noticed.
        at, newest = named.attempt, named.checkpoint
    return tuple(lineage)


def candidates(plan: CheckpointPlan, attempt: Attempt, facts: Facts) -> tuple[ManifestRef, ...]:
    """As much of the lineage as is retained, best first: nobody goes back further."""
    lineage = lineage_of(facts, attempt)
    if not plan.rules.lineage:
        lineage = tuple(ref for ref in sorted(facts.manifests, reverse=True) if ref.attempt < attempt)
    return lineage[: plan.config.checkpoints_retained]


def choose(plan: CheckpointPlan, attempt: Attempt, facts: Facts, *, accept_duplicates: bool = False) -> Decision:
    """The newest restorable checkpoint of the lineage, or the reason why none may be restored."""
    lineage = candidates(plan, attempt, facts)
    stored = frozenset(facts.keys)
    passed: list[ManifestRef] = []
    problems: list[str] = []
    for ref in lineage:
        manifest = facts.readable.get(ref)
        if manifest is not None and manifest.kind in REQUESTED and not plan.rules.requests_are_ordinary:
            continue
        problem = _problem(facts, ref, manifest, stored)
        if manifest is None or problem is not None:
            passed.append(ref)
            problems.append(f"{ref}: {problem}")
            continue
        proven = not plan.rules.fall_back_with_proof or accept_duplicates
        if passed and not proven and not _cannot_have_published(facts, passed, manifest):
            return _no_proof(passed[0], ref, problems)
        published = ref in facts.committed
        fitted = fit(plan, manifest, published=published)
        if isinstance(fitted, Failure):
            return Refusal(fitted)
        kept, garbage = _kept(facts, lineage, ref), _garbage(facts, attempt, lineage)
        return Choice(fitted.manifest, kept, _next(facts), garbage, fitted.notes, published)
    if passed:
        return Refusal(
            Failure(
                CorruptSnapshot.code,
                "no checkpoint can be restored:\n  " + "\n  ".join(problems),
                hint="restore the files from a copy, or start at a new checkpointLocation",
                retryable=False,
            )
        )
    return Choice(None, (), _next(facts), _garbage(facts, attempt, lineage))


def _problem(facts: Facts, ref: ManifestRef, manifest: Manifest | None, stored: frozenset[str]) -> str | None:
    if manifest is None:
        return facts.damaged.get(ref, "its manifest was not read")
    missing = sorted(manifest.chunk_keys() - stored)
    return f"{missing[0]} is missing" if missing else None


def _cannot_have_published(facts: Facts, passed: list[ManifestRef], target: Manifest) -> bool:
    """Proof that restoring ``target`` repeats no output: nothing above it had anything to publish that it has not.

    A missing ``committed`` is no proof, nor is a transaction that is still prepared: its author's commit may be in flight.
    A manifest that cannot be read is no proof either.
    """
    carried = _all_committables(target)
    return all(
        manifest is not None and _all_committables(manifest) <= carried
        for manifest in (facts.readable.get(ref) for ref in passed)
    )


def _all_committables(manifest: Manifest) -> frozenset[tuple[OperatorId, Committable]]:
    return frozenset((entry.operator, one) for entry in manifest.operators for one in entry.committables)


def _no_proof(newest: ManifestRef, older: ManifestRef, problems: list[str]) -> Refusal:
    return Refusal(
        Failure(
            CorruptSnapshot.code,
            f"checkpoint {newest} cannot be restored, and its output may be visible already, so going back to "
            f"{older} could double rows:\n  " + "\n  ".join(problems),
            hint='restore the files from a copy; or accept duplicates: .option("onCorruptCheckpoint", "fallBack")',
            retryable=False,
        )
    )


def _kept(facts: Facts, lineage: tuple[ManifestRef, ...], chosen: ManifestRef) -> tuple[Manifest, ...]:
    # What was passed over on the way to the chosen one is not in its history.
    history = lineage[lineage.index(chosen) :]
    return tuple(facts.readable[ref] for ref in history if ref in facts.readable)


def _next(facts: Facts) -> CheckpointId:
    """Above every number ever used, dead branches included: numbers only rise."""
    return CheckpointId(max((ref.checkpoint for ref in facts.manifests), default=0) + 1)


def _garbage(facts: Facts, attempt: Attempt, lineage: tuple[ManifestRef, ...]) -> tuple[str, ...]:
    """Files of older attempts that no checkpoint of the lineage names: manifests first, so that none outlives its chunks."""
    alive = set(lineage)
    dead = [ref for ref in facts.manifests if ref.attempt < attempt and ref not in alive]
    files = [layout.manifest_key(ref) for ref in dead]
    markers = sorted(ref for ref in facts.committed if ref.attempt < attempt and ref not in alive)
    files.extend(layout.committed_key(ref) for ref in markers)
    if facts.damaged:
        return tuple(files)  # What a damaged manifest names is unknown; a copy of it may be put back.
    named = frozenset[str]().union(*(manifest.chunk_keys() for manifest in facts.readable.values()))
    for key in facts.keys:
        parsed = layout.parse(key)
        if isinstance(parsed, layout.ChunkKey) and parsed.attempt < attempt and key not in named:
            files.append(key)
    return tuple(files)
