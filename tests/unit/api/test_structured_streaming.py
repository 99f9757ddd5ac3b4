"""Checkpoint directories of Structured Streaming are known by what Spark writes into them; nothing else is taken for one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidegate.api.structured_streaming import refuse_structured_streaming
from tidegate.checkpoint import layout
from tidegate.model.errors import InvalidQuery
from tidegate.storage.local import LocalBlobStore

ID = b'{"id":"dd4c7a5b-6a8c-4a6b-bd0c-7b3a1c5f1c7e"}'


def holding(folder: Path, **files: bytes) -> LocalBlobStore:
    for name, data in files.items():
        path = folder / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return LocalBlobStore(folder)


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ({"metadata": ID, "offsets__0": b"v1", "offsets__12": b"v1", "commits__0": b"v1"}, "up to batch 12"),
        ({"offsets__3": b"v1"}, "up to batch 3"),
        ({"commits__4": b"v1"}, "up to batch 4"),
        ({"metadata": ID}, "its file metadata"),
    ],
)
def test_sparks_own_checkpoint_directory_is_refused_by_name(tmp_path: Path, files: dict[str, bytes], says: str) -> None:
    """T74"""
    store = holding(tmp_path, **files)
    with pytest.raises(
        InvalidQuery, match=f"/ck is the checkpoint directory .* Structured Streaming: it holds .*{says}"
    ) as refused:
        refuse_structured_streaming(store, "/ck")
    assert "new checkpointLocation" in refused.value.hint and "startingOffsets" in refused.value.hint
    assert len(store.list("")) == len(files), "nothing is written into it"


@pytest.mark.parametrize(
    "files",
    [
        {},
        {"metadata": b"my notes"},
        {"metadata": b'{"name": "somebody"}'},
        {"metadata": b"\xff\xfe"},
        {"metadata__v1.json": ID},
        {"offsets__notes.txt": b"mine", "commits__a": b"mine"},
        {layout.PIPELINE_KEY: b"{}", "metadata": ID, "offsets__0": b"v1"},
    ],
    ids=["empty", "text", "other json", "bytes", "directory", "other files", "a pipeline of Tidegate"],
)
def test_nothing_else_is_taken_for_one(tmp_path: Path, files: dict[str, bytes]) -> None:
    """A location that Tidegate has begun goes on, whatever lies beside."""
    refuse_structured_streaming(holding(tmp_path, **files), "/ck")
