"""A job whose queries share their sources otherwise than they did: refused, before one of them begins anew."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidegate.api.regrouping import Group, refuse_regrouped
from tidegate.checkpoint.layout import ManifestRef, claim_key, manifest_key
from tidegate.checkpoint.manifest import Claim, Manifest, encode
from tidegate.model.errors import InvalidQuery
from tidegate.model.ids import Attempt, CheckpointId, OperatorId, PipelineId, SlotIndex
from tidegate.model.snapshot import OperatorSnapshot
from tidegate.storage.local import LocalBlobStore


def sink(query: str) -> OperatorId:
    return OperatorId(f"sink-parquet_{query}")


def group(root: Path, *queries: str) -> Group:
    return Group(
        queries, tuple(map(sink, queries)), f"{root}/{queries[0]}", lambda place: LocalBlobStore(place, make=False)
    )


def ran(root: Path, *queries: str, checkpoint: int = 1) -> None:
    """The queries ran as one pipeline, as far as this checkpoint."""
    store = LocalBlobStore(root / queries[0])
    first = Attempt(1)
    store.create(claim_key(first), encode(Claim(attempt=first, process="p")))
    entries = tuple(OperatorSnapshot(operator=one, subtask=SlotIndex(0)) for one in sorted(map(sink, queries)))
    manifest = Manifest(
        pipeline=PipelineId(queries[0]),
        checkpoint=CheckpointId(checkpoint),
        attempt=first,
        max_parallelism=8,
        operators=entries,
    )
    store.create(manifest_key(manifest.ref), encode(manifest))


def test_queries_that_ran_together_are_not_started_apart(tmp_path: Path) -> None:
    """T48: the second one would begin anew, and write all its rows again."""
    ran(tmp_path, "a", "b")
    refuse_regrouped([group(tmp_path, "a", "b")], str(tmp_path))
    with pytest.raises(InvalidQuery, match="'b' has run in one pipeline with 'a'"):
        refuse_regrouped([group(tmp_path, "a"), group(tmp_path, "b")], str(tmp_path))


def test_queries_that_ran_apart_are_not_started_together(tmp_path: Path) -> None:
    """T48: where the second one was would be forgotten."""
    ran(tmp_path, "a")
    ran(tmp_path, "b")
    refuse_regrouped([group(tmp_path, "a"), group(tmp_path, "b")], str(tmp_path))
    with pytest.raises(InvalidQuery, match="'b' has run as a pipeline of its own"):
        refuse_regrouped([group(tmp_path, "a", "b")], str(tmp_path))


def test_queries_may_come_and_go(tmp_path: Path) -> None:
    ran(tmp_path, "a", "b", checkpoint=1)
    ran(tmp_path, "a", checkpoint=2)
    refuse_regrouped([group(tmp_path, "a"), group(tmp_path, "b")], str(tmp_path))
    refuse_regrouped([group(tmp_path, "a", "c"), group(tmp_path, "d")], str(tmp_path))


def test_a_damaged_checkpoint_is_left_to_recovery(tmp_path: Path) -> None:
    ran(tmp_path, "a", "b")
    newest = manifest_key(ManifestRef(CheckpointId(2), Attempt(1)))
    LocalBlobStore(tmp_path / "a").create(newest, b"damage")
    with pytest.raises(InvalidQuery, match="'b' has run in one pipeline with 'a'"):
        refuse_regrouped([group(tmp_path, "a"), group(tmp_path, "b")], str(tmp_path))
