"""Whether a query can go on from what its checkpoint location and its targets hold: asked before anything runs. Nothing is written.

The first attempt asks the same again once it owns the location, because somebody else may have written there meanwhile.
"""

from __future__ import annotations

import logging
import time

from tidegate.checkpoint import layout
from tidegate.checkpoint.manifest import Manifest
from tidegate.checkpoint.plan import CheckpointPlan
from tidegate.checkpoint.recovery import Refusal, choose, facts_from
from tidegate.checkpoint.storing import AskTargets, error_from, refuse_lost_claims
from tidegate.connectors.home import RealConnectors
from tidegate.model.errors import CorruptSnapshot, InvalidQuery, TidegateError
from tidegate.model.ids import Attempt
from tidegate.plan.graph import JobGraph
from tidegate.ports.store import BlobStore
from tidegate.spark.letting_go import opened
from tidegate.spark.restored_sources import CheckSources, RestoredSources

log = logging.getLogger("tidegate")

LOOKS_MAX = 3


def checking_sources(graph: JobGraph, connectors: RealConnectors) -> CheckSources:
    def check(manifest: Manifest, document: str) -> None:
        restored = RestoredSources(manifest, None, document)
        for scan in graph.scans():
            with opened(connectors.enumerator(scan)) as enumerator:
                restored.restore(scan.id, enumerator, time.time_ns() // 1_000_000)

    return check


def refuse_unrestorable(
    plan: CheckpointPlan,
    store: BlobStore,
    *,
    accept_duplicates: bool,
    ask_targets: AskTargets = tuple,
    check_sources: CheckSources = lambda _manifest, _document: None,
) -> None:
    """Raises what an attempt would be refused with: ``InvalidQuery`` for a query that has changed, ``CorruptSnapshot`` for files that are
    damaged, missing, or older than what the targets hold.

    A running driver changes the location all the time. A refusal counts only if the location stayed as it was while it was read.
    """
    for _ in range(LOOKS_MAX):
        keys, refused = _look(plan, store, accept_duplicates, ask_targets, check_sources)
        if refused is None:
            return
        if store.list("") == keys:
            raise refused
    log.info("another driver writes to the checkpoint location: whether the query can go on is seen once it is stopped")


def _look(
    plan: CheckpointPlan,
    store: BlobStore,
    accept_duplicates: bool,
    ask_targets: AskTargets,
    check_sources: CheckSources,
) -> tuple[tuple[str, ...], TidegateError | None]:
    # Before the listing: the manifest of whatever is visible by now is in it.
    published = ask_targets()
    keys = store.list("")
    parsed = map(layout.parse, keys)
    newest = max((key.attempt for key in parsed if isinstance(key, layout.ClaimKey | layout.RestoredKey)), default=0)
    attempt = Attempt(newest + 1)
    try:
        refuse_lost_claims(Attempt(newest), keys, store)
        facts = facts_from(plan, attempt, keys, store.read, published=published)
    except CorruptSnapshot as error:
        return keys, error
    decision = choose(plan, attempt, facts, accept_duplicates=accept_duplicates)
    if isinstance(decision, Refusal):
        return keys, error_from(decision.failure)
    if decision.manifest is not None:
        try:
            check_sources(decision.manifest, layout.manifest_key(decision.manifest.ref))
        except (CorruptSnapshot, InvalidQuery) as error:
            return keys, error
    return keys, None
