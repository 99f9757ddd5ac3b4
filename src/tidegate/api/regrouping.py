"""Queries of a job that share their sources otherwise than they did: each would find another one's checkpoints, or none."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tidegate.api.location import newest_claim
from tidegate.checkpoint import layout
from tidegate.checkpoint.manifest import Manifest, decode
from tidegate.model.errors import CorruptSnapshot, InvalidQuery
from tidegate.model.ids import OperatorId
from tidegate.ports.store import BlobStore
from tidegate.storage.open import is_missing

_HINT = (
    "sources are shared by queries that read, filter and time them alike before withWatermark; write the queries as they were, "
    "or start the job at a new checkpointLocation and with new outputs"
)


@dataclass(frozen=True, slots=True)
class Group:
    """Queries that are to run as one pipeline."""

    queries: tuple[str, ...]
    sinks: tuple[OperatorId, ...]
    """Of the queries, in their order."""
    location: str
    open: Callable[[str], BlobStore]
    """The store of a location, which need not be there."""


def refuse_regrouped(groups: Sequence[Group], root: str | None) -> None:
    """Raises InvalidQuery before anything is written. ``root``: the job's own location, with one directory per pipeline."""
    queries = {sink: query for group in groups for query, sink in zip(group.queries, group.sinks, strict=True)}
    for group in groups:
        if not group.location or is_missing(group.location):
            continue
        _refuse_parted(group, queries)
        if root is not None and group.location == _beneath(root, group.queries[0]):
            _refuse_joined(group, root)


def _refuse_parted(group: Group, queries: Mapping[OperatorId, str]) -> None:
    newest = _newest(group.open(group.location))
    entries = newest.operators if newest is not None else ()
    parted = sorted({queries[entry.operator] for entry in entries if entry.operator in queries} - set(group.queries))
    if parted:
        raise InvalidQuery(
            f"query {parted[0]!r} has run in one pipeline with {group.queries[0]!r}, at {group.location}; now the two read their "
            f"source apart, and {parted[0]!r} would begin anew",
            hint=_HINT,
        )


def _refuse_joined(group: Group, root: str) -> None:
    for query in group.queries[1:]:
        before = _beneath(root, query)
        if not is_missing(before) and newest_claim(group.open(before)) > 0:
            raise InvalidQuery(
                f"query {query!r} has run as a pipeline of its own, at {before}; now it shares a source with {group.queries[0]!r}, "
                "and its checkpoints would be left behind",
                hint=_HINT,
            )


def _beneath(root: str, query: str) -> str:
    return f"{root.rstrip('/')}/{query}"


def _newest(store: BlobStore) -> Manifest | None:
    keys = map(layout.parse, store.list(layout.CHECKPOINTS_PREFIX))
    refs = sorted((key.ref for key in keys if isinstance(key, layout.ManifestKey)), reverse=True)
    for ref in refs:
        key = layout.manifest_key(ref)
        data = store.read(key)
        try:
            if data is not None:
                return decode(Manifest, key, data)
        except CorruptSnapshot:
            continue  # Recovery says so, or falls back to an older one.
    return None
