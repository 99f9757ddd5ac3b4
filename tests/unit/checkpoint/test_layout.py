"""Keys: what is written can be recognised, and nothing leaves the location."""

from __future__ import annotations

import pytest

from tidegate.checkpoint import layout
from tidegate.checkpoint.layout import ManifestRef
from tidegate.model.errors import CorruptSnapshot
from tidegate.model.ids import Attempt, CheckpointId, OperatorId, SlotIndex

REF = ManifestRef(CheckpointId(42), Attempt(7))
CHUNK = layout.chunk_name(OperatorId("aggregate-1"), Attempt(7), SlotIndex(3), CheckpointId(42), 0)


@pytest.mark.parametrize(
    ("key", "meaning"),
    [
        (layout.claim_key(Attempt(8)), layout.ClaimKey(Attempt(8))),
        (layout.restored_key(Attempt(8)), layout.RestoredKey(Attempt(8))),
        (layout.manifest_key(REF), layout.ManifestKey(REF)),
        (layout.committed_key(REF), layout.CommittedKey(REF)),
        (layout.chunk_key(CHUNK), layout.ChunkKey(CHUNK, Attempt(7))),
        (
            layout.manifest_key(ManifestRef(CheckpointId(12_345_678), Attempt(1))),
            layout.ManifestKey(ManifestRef(CheckpointId(12_345_678), Attempt(1))),
        ),
    ],
)
def test_every_key_that_is_written_is_recognised(key: str, meaning: layout.Key) -> None:
    assert layout.parse(key) == meaning


@pytest.mark.parametrize("key", ["notes.txt", "attempts/8/claim", "checkpoints/000042-000007/manifest.tmp", "state/x"])
def test_what_is_not_ours_is_nothing(key: str) -> None:
    assert layout.parse(key) is None


@pytest.mark.parametrize("name", ["../secret", "a/../../b", "/etc/passwd", "a/b/c", "a//b", "a/", "a/.hidden", "a\\b"])
def test_a_manifest_cannot_point_outside_the_location(name: str) -> None:
    with pytest.raises(CorruptSnapshot):
        layout.chunk_key(name)


def test_a_chunk_tells_which_checkpoint_wrote_it() -> None:
    assert CHUNK == "aggregate-1/000007-00003-000042-0"
    assert layout.chunk_origin(CHUNK) == REF
    assert layout.chunk_origin("aggregate-1/foreign") is None


@pytest.mark.parametrize(
    ("path", "location"),
    [
        ("/data/q1/checkpoints/000042-000007", "/data/q1"),
        ("/data/q1/checkpoints/000042-000007/", "/data/q1"),
        ("/checkpoints/checkpoints/000042-000007", "/checkpoints"),
        ("/checkpoints/000042-000007", "/"),
    ],
)
def test_a_checkpoint_is_named_by_its_path(path: str, location: str) -> None:
    assert layout.checkpoint_path(path) == (location, ManifestRef(CheckpointId(42), Attempt(7)))


@pytest.mark.parametrize(
    "path", ["/data/q1", "/data/000042-000007", "/q/checkpoints/42-7", "/q/checkpoints/000042-000007/x"]
)
def test_other_paths_name_no_checkpoint(path: str) -> None:
    assert layout.checkpoint_path(path) is None
