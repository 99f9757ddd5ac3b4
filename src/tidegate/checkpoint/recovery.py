"""From the facts in a location to what an attempt restores. No I/O: the shell lists and reads, this module decides."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

from tidegate.checkpoint import layout, remembered
from tidegate.checkpoint.changes import fit
from tidegate.checkpoint.events import Facts, Failure
from tidegate.checkpoint.going_back import PassedOver, cannot_have_published, given_up, no_proof
from tidegate.checkpoint.invariants import every_source_tells_its_progress, splits_come_from_an_enumerator
from tidegate.checkpoint.layout import ManifestRef
from tidegate.checkpoint.manifest import Manifest, Restored, decode
from tidegate.checkpoint.numbering import UNNUMBERED, above, numbering_of
from tidegate.checkpoint.plan import CheckpointPlan
from tidegate.model.batch_ids import Numbering
from tidegate.model.elements import CheckpointKind
from tidegate.model.errors import CorruptSnapshot
from tidegate.model.ids import Attempt, CheckpointId, OperatorId
from tidegate.model.snapshot import Published


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
    accepted: tuple[Published, ...] = ()
    """Output beyond it that comes twice, as the user allows."""
    batches_lost: int = 0
    """How many batches beyond it a sink may have got, and nobody can read which."""

    @property
    def numbering(self) -> Numbering:
        """Of all batches that may have been given out."""
        known = UNNUMBERED if self.manifest is None else numbering_of(self.manifest)
        return above(known, self.batches_lost)


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
    published: tuple[tuple[OperatorId, Published], ...] = (),
) -> Facts:
    """Sort a listing made after claim ``attempt`` was written, reading only the documents the choice depends on.

    ``verify_chunks``: a checkpoint with a damaged chunk counts as damaged. It reads all state, so only somebody who is
    ready to go back further asks for it; without it the slot that needs the chunk finds out. ``published``: what targets had said
    before the listing, so that the manifest of whatever they know had to be in it.
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
        published=published,
    )
    writers = {key.attempt for key in parsed if isinstance(key, layout.RestoredKey)}
    if plan.rules.unknown_is_unknown:
        # Whoever stored a manifest had seen its ``restored`` stand; so if that is not listed, it has to be found missing.
        writers.update(ref.attempt for ref in manifests if ref.attempt != layout.IMPORTED)
    at = max((writer for writer in writers if writer < attempt), default=None)
    # The chain is followed until enough checkpoints are known, and to the oldest attempt of which a target holds something.
    oldest = min((one.attempt for _, one in published if one.attempt), default=attempt)
    while at is not None and (
        not facts.restored or at > oldest or len(candidates(plan, attempt, facts)) < plan.config.checkpoints_retained
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
    passed: list[PassedOver] = []
    for ref in lineage:
        manifest = facts.readable.get(ref)
        if manifest is not None and manifest.kind in REQUESTED and not plan.rules.requests_are_ordinary:
            continue
        problem = _problem(plan, facts, ref, manifest, stored)
        if manifest is None or problem is not None:
            passed.append(PassedOver(ref, problem or "its manifest was not read"))
            continue
        proven = not plan.rules.fall_back_with_proof or accept_duplicates
        harmless = not passed or cannot_have_published(facts, passed, manifest)
        if not proven and not harmless:
            return Refusal(no_proof(passed, ref))
        published = ref in facts.committed
        fitted = fit(plan, manifest, published=published)
        if isinstance(fitted, Failure):
            return Refusal(fitted)
        contradiction = None if accept_duplicates else remembered.contradiction(facts, ref)
        if contradiction is not None:
            return Refusal(contradiction)
        kept, garbage = _kept(facts, lineage, ref), _garbage(facts, attempt, lineage)
        history = lineage[lineage.index(ref) :]
        left = given_up(facts, passed, manifest)
        notes = (*fitted.notes, *left, *remembered.brought_back(facts, manifest, history))
        accepted = remembered.accepted(facts, ref)
        lost = _batches_lost(facts, ref, went_back=not harmless)
        return Choice(fitted.manifest, kept, _next(facts), garbage, notes, published, accepted, lost)
    if passed:
        return Refusal(
            Failure(
                CorruptSnapshot.code,
                "no checkpoint can be restored:\n  " + "\n  ".join(map(str, passed)),
                hint="restore the files from a copy, or start at a new checkpointLocation",
                retryable=False,
            )
        )
    contradiction = None if accept_duplicates else remembered.contradiction(facts, None)
    if contradiction is not None:
        return Refusal(contradiction)
    garbage = _garbage(facts, attempt, lineage)
    lost = _batches_lost(facts, None, went_back=False)
    notes = tuple(given_up(facts, (), None))
    accepted = remembered.accepted(facts, None)
    return Choice(None, (), _next(facts), garbage, notes, accepted=accepted, batches_lost=lost)


def _problem(
    plan: CheckpointPlan, facts: Facts, ref: ManifestRef, manifest: Manifest | None, stored: frozenset[str]
) -> str | None:
    if manifest is None:
        return facts.damaged.get(ref, "its manifest was not read")
    # A source without a word about it would start from its beginning, beside state that knows its rows.
    for words in (*every_source_tells_its_progress(manifest, plan.sources), *splits_come_from_an_enumerator(manifest)):
        return words
    missing = sorted(manifest.chunk_keys() - stored)
    return f"{missing[0]} is missing" if missing else None


def _kept(facts: Facts, lineage: tuple[ManifestRef, ...], chosen: ManifestRef) -> tuple[Manifest, ...]:
    # What was passed over on the way to the chosen one is not in its history.
    history = lineage[lineage.index(chosen) :]
    return tuple(facts.readable[ref] for ref in history if ref in facts.readable)


def _next(facts: Facts) -> CheckpointId:
    """Above every number that a manifest, a marker, a restore or a target knows, dead branches included: none is given out again."""
    known = {ref.checkpoint for ref in (*facts.manifests, *facts.committed)}
    for restored in facts.restored.values():
        known.update(published.checkpoint for published in restored.accepted)
        known.update((restored.ref.checkpoint,) if restored.ref is not None else ())
    known.update(published.checkpoint for _, published in facts.published)
    return CheckpointId(max(known, default=0) + 1)


def _batches_lost(facts: Facts, chosen: ManifestRef | None, *, went_back: bool) -> int:
    """How many ids of batches may have been given out beyond the chosen checkpoint: one for each number, at most, above what the attempts
    that gave them out had left out themselves. Attempts that restored the same one before, and came to nothing, pass on what they knew."""
    lost = max((one.batches_lost for one in facts.restored.values() if one.ref == chosen), default=0)
    if not went_back and not remembered.beyond(facts, chosen):
        return lost
    newest = _next(facts) - 1
    known = (*facts.manifests, *facts.committed, *(published for _, published in facts.published))
    author = max((one.attempt for one in known), default=layout.IMPORTED)
    # An attempt after the newest that has left anything has given nothing out.
    bounds = (
        _left_out(facts, chosen, attempt) + (newest if attempt <= author else _number(restored.ref))
        for attempt, restored in facts.restored.items()
    )
    return max(lost, max((newest, *bounds)) - _number(chosen))


def _number(ref: ManifestRef | None) -> int:
    return 0 if ref is None else ref.checkpoint


def _left_out(facts: Facts, chosen: ManifestRef | None, attempt: Attempt) -> int:
    """How many ids the attempt, and those it goes back to, left out above the chosen checkpoint; 0: it does not go back to that one."""
    total, restored = 0, facts.restored.get(attempt)
    while restored is not None:
        total += restored.batches_lost
        ref = restored.ref
        if ref is None or chosen is None:
            return total if ref is chosen else 0
        if ref.attempt <= chosen.attempt or ref.attempt >= restored.attempt:
            return total if ref.attempt == chosen.attempt and ref.checkpoint >= chosen.checkpoint else 0
        restored = facts.restored.get(ref.attempt)
    return 0


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
