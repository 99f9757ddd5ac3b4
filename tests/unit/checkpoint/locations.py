"""Checkpoints with real chunks in real directories, and a store that dies at a given write."""

from __future__ import annotations

import zlib
from pathlib import Path

import msgspec
from tests.unit.checkpoint.scenario import COUNT, PLAN, SINK, SOURCE, committable

from tidegate.checkpoint.layout import ManifestRef, chunk_key, chunk_name, committed_key, manifest_key
from tidegate.checkpoint.manifest import Committed, Manifest, encode
from tidegate.model.ids import Attempt, CheckpointId, PipelineId, SlotIndex
from tidegate.model.snapshot import ChunkHandle, Committable, KeyGroupRange, OperatorSnapshot
from tidegate.ports.store import BlobStore, CreateOutcome
from tidegate.storage.local import LocalBlobStore

GROUPS = KeyGroupRange(0, PLAN.config.max_parallelism)


class Killed(BaseException):
    """Nothing after it runs, as after kill -9."""


class MortalStore(BlobStore):
    """Dies at the ``lives + 1``-th create or delete, before it lands or after, and stays dead."""

    def __init__(self, store: BlobStore, lives: int, *, after: bool) -> None:
        self._store = store
        self._lives = lives
        self._after = after

    def _step(self) -> None:
        self._lives -= 1
        if self._lives < 0:
            raise Killed

    def create(self, key: str, data: bytes) -> CreateOutcome:
        if not self._after:
            self._step()
        outcome = self._store.create(key, data)
        if self._after:
            self._step()
        return outcome

    def delete(self, key: str) -> None:
        if not self._after:
            self._step()
        self._store.delete(key)
        if self._after:
            self._step()

    def read(self, key: str) -> bytes | None:
        return self._store.read(key)

    def list(self, prefix: str) -> tuple[str, ...]:
        return self._store.list(prefix)


def chunk(store: BlobStore, attempt: int, checkpoint: int, number: int, data: bytes) -> ChunkHandle:
    """A stored chunk of the aggregation."""
    name = chunk_name(COUNT, Attempt(attempt), SlotIndex(0), CheckpointId(checkpoint), number)
    store.create(chunk_key(name), data)
    return ChunkHandle(name=name, groups=GROUPS, rows=1, size_bytes=len(data), checksum=zlib.crc32(data))


def inlined(attempt: int, checkpoint: int, data: bytes) -> ChunkHandle:
    name = chunk_name(COUNT, Attempt(attempt), SlotIndex(0), CheckpointId(checkpoint), 9)
    return ChunkHandle(name=name, groups=GROUPS, rows=1, size_bytes=len(data), checksum=zlib.crc32(data), data=data)


def checkpoint_of(
    *chunks: ChunkHandle, ref: tuple[int, int] = (42, 7), outputs: tuple[Committable, ...] | None = None
) -> Manifest:
    """A checkpoint that ``scenario.PLAN`` can go on from."""
    made = (committable(ref[0], 0, ref[1]),) if outputs is None else outputs
    return Manifest(
        pipeline=PipelineId("the old one"),
        checkpoint=CheckpointId(ref[0]),
        attempt=Attempt(ref[1]),
        parent=(CheckpointId(ref[0] - 1), Attempt(ref[1])),
        max_parallelism=PLAN.config.max_parallelism,
        operators=(
            OperatorSnapshot(operator=COUNT, subtask=SlotIndex(0), chunks=chunks, value=b"watermark"),
            OperatorSnapshot(operator=SINK, subtask=SlotIndex(0), committables=made),
            OperatorSnapshot(operator=SOURCE, subtask=SlotIndex(0)),
        ),
    )


def old_location(root: Path, *, committed: bool = True) -> tuple[LocalBlobStore, Manifest]:
    """A location with one checkpoint: chunks of two attempts that differ in nothing but the attempt, and an inlined one."""
    store = LocalBlobStore(root)
    manifest = checkpoint_of(
        chunk(store, 3, 5, 0, b"first"), chunk(store, 7, 5, 0, b"second" * 100), inlined(7, 42, b"small")
    )
    store.create(manifest_key(manifest.ref), encode(manifest))
    if committed:
        marker = Committed(checkpoint=manifest.checkpoint, attempt=manifest.attempt)
        store.create(committed_key(manifest.ref), encode(marker))
    return store, manifest


def state_of(store: BlobStore, manifest: Manifest) -> list[bytes | None]:
    """What the chunks of the aggregation hold, in their order."""
    return [
        one.data if one.data is not None else store.read(chunk_key(one.name))
        for entry in manifest.operators
        for one in entry.chunks
    ]


def ref(checkpoint: int, attempt: int) -> ManifestRef:
    return ManifestRef(CheckpointId(checkpoint), Attempt(attempt))


def contents(store: BlobStore) -> dict[str, bytes | None]:
    return {key: store.read(key) for key in store.list("")}


def renamed(manifest: Manifest, pipeline: str) -> Manifest:
    return msgspec.structs.replace(manifest, pipeline=PipelineId(pipeline))
