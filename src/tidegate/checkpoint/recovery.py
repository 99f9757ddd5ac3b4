"""From the facts in a location to what an attempt restores. No I/O: the shell lists and reads, this module decides."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

from tidegate.checkpoint import layout
from tidegate.checkpoint.events import Facts, Failure
from tidegate.checkpoint.layout import ManifestRef
from tidegate.checkpoint.manifest import Manifest, Restored, decode
from tidegate.checkpoint.plan import CheckpointPlan
from tidegate.model.elements import CheckpointKind
from tidegate.model.errors import CorruptSnapshot, InvalidQuery
from tidegate.model.ids import Attempt, CheckpointId, OperatorId
from tidegate.model.snapshot import Committable


@dataclass(frozen=True, slots=True)
class Choice:
    """What to restore (None: start from nothing) and what the location teaches about the past."""

    manifest: Manifest | None
    lineage: tuple[Manifest, ...]
    """Readable checkpoints that may be kept, newest first; the first one is ``manifest``."""
    next_checkpoint: CheckpointId
    garbage: tuple[str, ...]
    """Keys no lineage needs, oldest first: deleted once this attempt has a checkpoint of its own."""


@dataclass(frozen=True, slots=True)
class Refusal:
    failure: Failure


Decision: TypeAlias = Choice | Refusal


def facts_from(
    plan: CheckpointPlan, attempt: Attempt, keys: Iterable[str], read: Callable[[str], bytes | None]
) -> Facts:
    """Sort a listing made after claim ``attempt`` was written, reading only the documents the choice depends on.

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
    writers = sorted(key.attempt for key in parsed if isinstance(key, layout.RestoredKey) and key.attempt < attempt)
    at = writers[-1] if writers else None
    # The chain is followed until enough checkpoints are known; older attempts cannot matter any more.
    while at is not None and len(candidates(plan, attempt, facts)) < plan.config.checkpoints_retained:
        key = layout.restored_key(at)
        data = read(key)
        if data is None:
            raise CorruptSnapshot(
                f"{key} is missing, though a later attempt built upon it",
                hint="restore the file from a copy of the location",
            )
        facts.restored[at] = decode(Restored, key, data)
        named = facts.restored[at].ref
        at = named.attempt if named is not None else None
    for ref in candidates(plan, attempt, facts):
        _read_manifest(facts, ref, read)
    return facts


def _read_manifest(facts: Facts, ref: ManifestRef, read: Callable[[str], bytes | None]) -> None:
    key = layout.manifest_key(ref)
    data = read(key)
    if data is None:
        facts.damaged[ref] = f"{key} is missing"
        return
    try:
        facts.readable[ref] = decode(Manifest, key, data)
    except CorruptSnapshot as error:
        facts.damaged[ref] = error.message


def lineage_of(facts: Facts, attempt: Attempt) -> tuple[ManifestRef, ...]:
    """Checkpoints that may be restored, best first, as far as ``facts.restored`` reaches.

    The manifests of the newest attempt that wrote ``restored``, then the one it names, then that one's elders. A
    manifest of an older attempt above the one that was restored from it lies on a dead branch: whoever chose to
    restore something else may have aborted its transactions.
    """
    at = max((writer for writer in facts.restored if writer < attempt), default=None)
    lineage: list[ManifestRef] = []
    newest: CheckpointId | None = None
    while at is not None:
        own = [ref for ref in facts.manifests if ref.attempt == at and (newest is None or ref.checkpoint <= newest)]
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
        if manifest is not None and manifest.kind is CheckpointKind.MANUAL and not plan.rules.requests_are_ordinary:
            continue
        problem = _problem(facts, ref, manifest, stored)
        if manifest is None or problem is not None:
            passed.append(ref)
            problems.append(f"{ref}: {problem}")
            continue
        proven = not plan.rules.fall_back_with_proof or accept_duplicates
        if passed and not proven and not _cannot_have_published(facts, passed, manifest):
            return _no_proof(passed[0], ref, problems)
        mismatch = _mismatch(plan, manifest)
        if mismatch is not None:
            return Refusal(mismatch)
        return Choice(manifest, _kept(facts, lineage, ref), _next(facts), _garbage(facts, attempt, lineage))
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


def _mismatch(plan: CheckpointPlan, manifest: Manifest) -> Failure | None:
    """Why this query cannot go on from this checkpoint; None when it can."""
    if manifest.pipeline != plan.pipeline:
        return Failure(
            CorruptSnapshot.code,
            f"checkpoint {manifest.ref} belongs to pipeline {manifest.pipeline}, not to {plan.pipeline}",
            hint="two locations were mixed: use a checkpointLocation of its own",
            retryable=False,
        )
    if manifest.max_parallelism != plan.config.max_parallelism:
        return Failure(
            InvalidQuery.code,
            f"checkpoint {manifest.ref} was taken with maxParallelism {manifest.max_parallelism}; "
            f"this start asks for {plan.config.max_parallelism}",
            hint=f'keep .option("maxParallelism", {manifest.max_parallelism}), or start at a new checkpointLocation',
            retryable=False,
        )
    held = {entry.operator for entry in manifest.operators}
    for operator in plan.stateful:
        if operator not in held:
            return Failure(
                InvalidQuery.code,
                f"checkpoint {manifest.ref} holds no state of operator {operator!r}; "
                "starting it empty would give wrong results",
                hint="restore the query as it was, or start the changed query at a new checkpointLocation",
                retryable=False,
            )
    for operator in sorted(held.difference(plan.stateful)):
        return Failure(
            InvalidQuery.code,
            f"checkpoint {manifest.ref} holds state of operator {operator!r}, absent from this query",
            hint="restore the query as it was, or start the changed query at a new checkpointLocation",
            retryable=False,
        )
    was = dict(manifest.shapes)
    for operator, shape in plan.shapes:
        if operator in was and was[operator] != shape:
            return Failure(
                InvalidQuery.code,
                f"operator {operator!r} has changed: checkpoint {manifest.ref} holds the state of one that {was[operator]}; "
                f"in this query it {shape}",
                hint="restore the query as it was, or start the changed query at a new checkpointLocation",
                retryable=False,
            )
    return None


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
