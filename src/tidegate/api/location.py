"""The checkpoint location at a start: is the store fit for it, whose is it, and does it begin with somebody else's checkpoint."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from tidegate.checkpoint import importing, layout
from tidegate.checkpoint.events import Facts
from tidegate.checkpoint.importing import Importable
from tidegate.checkpoint.layout import ManifestRef
from tidegate.checkpoint.manifest import Import, PipelineDocument, agree, decode_pipeline, encode_pipeline
from tidegate.checkpoint.plan import CheckpointPlan
from tidegate.checkpoint.ports import judge, probe
from tidegate.checkpoint.recovery import Refusal, choose
from tidegate.checkpoint.storing import error_from
from tidegate.model.errors import CorruptSnapshot, InvalidQuery, TidegateError
from tidegate.model.ids import Attempt, PipelineId
from tidegate.ports.store import BlobStore
from tidegate.spark.restored_sources import CheckSources
from tidegate.storage.errors import mistakes_told
from tidegate.storage.spreading import side_by_side

log = logging.getLogger("tidegate")


@dataclass(frozen=True, slots=True)
class StartFrom:
    """What ``startFrom`` names and ``startFromMode`` says about it."""

    path: str
    claim: bool
    open_source: Callable[[str], BlobStore]
    """Opens what is there, makes nothing."""


def check_store(store: BlobStore, location: str) -> None:
    """Raises InvalidQuery for a store that would let two drivers own one pipeline, or that lets nobody write."""
    question = probe(secrets.token_hex(16))
    with mistakes_told():
        first = store.create(question.key, question.first)
        second = store.create(question.key, question.second)
        store.delete(question.key)
    judge(location, first, second)


def open_pipeline(
    store: BlobStore,
    location: str,
    wanted: PipelineDocument,
    plan_for: Callable[[PipelineId], CheckpointPlan],
    start_from: StartFrom | None = None,
    check_sources: CheckSources = lambda _manifest, _document: None,
) -> PipelineDocument:
    """The identity of the pipeline at this location, made at its first start; what it starts from is imported.

    ``wanted``: what a new pipeline would be. Raises InvalidQuery when this start cannot go on here, CorruptSnapshot when
    files are damaged or missing. May be interrupted anywhere and called again.
    """
    found = None
    stored = store.read(layout.PIPELINE_KEY)
    if stored is None:
        refuse_headless(store, location)
        if start_from is not None:
            found = _find(start_from)
            refuse_unfit(found, plan_for(wanted.pipeline), check_sources)
            wanted = msgspec.structs.replace(wanted, imported_from=found.origin)
        store.create(layout.PIPELINE_KEY, encode_pipeline(wanted))
        # Whoever made it, what stands there now is the truth.
        stored = store.read(layout.PIPELINE_KEY)
    if stored is None:
        raise CorruptSnapshot(
            f"{location}/{layout.PIPELINE_KEY} vanished", hint="somebody deletes files there: use another location"
        )
    document = agree(decode_pipeline(stored), wanted, location)
    if document.imported_from is not None:
        _import(store, location, document, document.imported_from, plan_for, start_from, found, check_sources)
    elif start_from is not None:
        raise _begun_without(start_from, location)
    return document


def check_location(
    store: BlobStore | None,
    location: str,
    wanted: PipelineDocument,
    plan_for: Callable[[PipelineId], CheckpointPlan],
    start_from: StartFrom | None = None,
    check_sources: CheckSources = lambda _manifest, _document: None,
) -> PipelineDocument | None:
    """Raises what ``open_pipeline`` would refuse, and writes nothing. The identity of the pipeline whose checkpoints a start would go on
    from; None: there are none yet, and what it would start from instead was found good. ``store``: None if there is nothing."""
    stored = None if store is None else store.read(layout.PIPELINE_KEY)
    if store is None or stored is None:
        if store is not None:
            refuse_headless(store, location)
        if start_from is not None:
            refuse_unfit(_find(start_from), plan_for(wanted.pipeline), check_sources)
        return None
    document = agree(decode_pipeline(stored), wanted, location)
    origin = document.imported_from
    if origin is None:
        if start_from is not None:
            raise _begun_without(start_from, location)
        return document
    stands = _stands(store, origin)
    found = _judge_import(location, origin, start_from, None, stands=stands)
    if stands:
        return document
    if found is not None:
        refuse_unfit(found, plan_for(document.pipeline), check_sources)
    return None


def newest_claim(store: BlobStore) -> Attempt:
    """The highest attempt number in the location; 0: none. A claim that was lost is still known by what its owner wrote:
    its number is never given again, and recovery will miss the claim."""
    keys = (layout.parse(key) for key in store.list(layout.ATTEMPTS_PREFIX))
    return max(
        (key.attempt for key in keys if isinstance(key, layout.ClaimKey | layout.RestoredKey)), default=Attempt(0)
    )


def refuse_unfit(found: Importable, plan: CheckpointPlan, check_sources: CheckSources) -> None:
    """Raises what recovery would say to the checkpoint, before anything is copied."""
    manifest, _ = importing.relocated(found.manifest, plan.pipeline)
    facts = Facts(
        manifests=(manifest.ref,), readable={manifest.ref: manifest}, keys=tuple(sorted(manifest.chunk_keys()))
    )
    decision = choose(plan, Attempt(1), facts)
    if isinstance(decision, Refusal):
        raise error_from(decision.failure)
    if decision.manifest is not None:
        check_sources(decision.manifest, found.origin.source)


def _import(
    store: BlobStore,
    location: str,
    document: PipelineDocument,
    origin: Import,
    plan_for: Callable[[PipelineId], CheckpointPlan],
    start_from: StartFrom | None,
    found: Importable | None,
    check_sources: CheckSources,
) -> None:
    stands = _stands(store, origin)
    found = _judge_import(location, origin, start_from, found, stands=stands)
    if start_from is None:
        return
    if stands:
        log.info(
            "startFrom is spent: %s has begun with %s and goes on from its own checkpoints", location, origin.source
        )
    elif found is not None:
        refuse_unfit(found, plan_for(document.pipeline), check_sources)
        _warn(found)
        ref = importing.perform_import(found, store, location, document.pipeline, side_by_side)
        log.info("%s starts from checkpoint %s of %s", location, ref.checkpoint, start_from.path)
    if start_from.claim and found is not None:
        for problem in importing.delete_claimed(found):
            log.warning("the claimed savepoint %s could not be deleted: %s", start_from.path, problem)


def _stands(store: BlobStore, origin: Import) -> bool:
    """Nothing is claimed before the import stands; later its manifest may have been retired."""
    return newest_claim(store) > 0 or store.read(_manifest_key(origin)) is not None


def _judge_import(
    location: str, origin: Import, start_from: StartFrom | None, found: Importable | None, *, stands: bool
) -> Importable | None:
    """What ``startFrom`` names, if it is there and what this location has begun with, or is to begin with. Raises InvalidQuery if not."""
    if start_from is None:
        if not stands:
            raise InvalidQuery(
                f"the import of {origin.source} into {location} was interrupted",
                hint=f'start once more with .option("startFrom", {origin.source!r})',
            )
        return None
    if stands:
        found = _find_again(start_from)
        if (found.origin.checksum != origin.checksum) if found is not None else (start_from.path != origin.source):
            raise InvalidQuery(
                f"{location} has begun with another checkpoint than the one at {start_from.path}",
                hint="leave startFrom out to go on there, or choose a new checkpointLocation",
            )
        return found
    found = found or _find(start_from)
    if found.origin.checksum != origin.checksum:
        raise InvalidQuery(
            f"{location} holds part of another import, of {origin.source}",
            hint="choose a new checkpointLocation, or start from that one again",
        )
    return found


def _begun_without(start_from: StartFrom, location: str) -> InvalidQuery:
    return InvalidQuery(
        f"{location} belongs to a pipeline that has begun without {start_from.path}",
        hint="leave startFrom out to go on there, or choose a new checkpointLocation",
    )


def _find(start_from: StartFrom) -> Importable:
    found = importing.find(start_from.path, start_from.open_source)
    if start_from.claim and not found.savepoint:
        raise InvalidQuery(
            f"{start_from.path} is a checkpoint that another location keeps: it cannot be claimed",
            hint='leave startFromMode out, or claim a savepoint: query.savepoint("/a/path")',
        )
    return found


def _find_again(start_from: StartFrom) -> Importable | None:
    """None: what was imported is gone, or cannot be read, and need not be."""
    try:
        return _find(start_from)
    except TidegateError:
        return None


def _warn(found: Importable) -> None:
    if found.drained:
        log.warning(
            "%s was drained: its windows are closed and rows that belong to them are late. It was meant as the end of a query",
            found.origin.source,
        )


def _manifest_key(origin: Import) -> str:
    return layout.manifest_key(ManifestRef(origin.checkpoint, layout.IMPORTED))


def refuse_headless(store: BlobStore, location: str) -> None:
    """A new identity beside somebody's checkpoints would hide them."""
    left = [*store.list(layout.CHECKPOINTS_PREFIX), *store.list(layout.ATTEMPTS_PREFIX)]
    if left and store.read(layout.PIPELINE_KEY) is None:
        raise CorruptSnapshot(
            f"{layout.PIPELINE_KEY} is missing from {location}, though {left[0]} is there",
            hint="restore the file from a copy, or choose a new checkpointLocation",
        )
