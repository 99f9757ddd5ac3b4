"""Chunks of a restore, read from the store ahead of the operator that asks for them, several at the same time."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor

import polars as pl

from tidegate.checkpoint.layout import chunk_key
from tidegate.model.errors import CorruptSnapshot
from tidegate.model.snapshot import ChunkHandle, KeyGroupRange, OperatorSnapshot
from tidegate.ports.store import BlobStore
from tidegate.state.codec import decode_chunk

BYTES_AHEAD_MAX = 256 << 20
"""Read and not asked for yet; one chunk may be larger, alone."""
CHUNK_HINT = (
    "restore the file from a copy of the checkpoint location; or go back to an older checkpoint and accept duplicates: "
    '.option("onCorruptCheckpoint", "fallBack")'
)


class ReadAhead:
    """A loader of chunks. Reads those of ``snapshots`` that ``groups`` concern, in their order; any other is read when asked for.

    For one thread, which closes it when the restore is over; it may be asked afterwards, too.
    """

    def __init__(
        self, store: BlobStore, snapshots: Iterable[OperatorSnapshot], groups: KeyGroupRange, reads_max: int
    ) -> None:
        self._store = store
        self._readers = ThreadPoolExecutor(reads_max, "tidegate-restore")
        self._waiting = {
            handle.name: handle
            for snapshot in snapshots
            for handle in snapshot.chunks
            if handle.data is None and handle.groups.intersect(groups) is not None
        }
        self._reading: dict[str, tuple[Future[bytes | None], int]] = {}
        self._bytes = 0
        self._read_on()

    def __enter__(self) -> ReadAhead:
        return self

    def __exit__(self, *failure: object) -> None:
        self._waiting.clear()
        self._readers.shutdown(wait=False, cancel_futures=True)

    def __call__(self, handle: ChunkHandle) -> pl.DataFrame:
        """Raises CorruptSnapshot, naming the chunk, when it is missing or damaged, ``Unavailable`` when the store does not answer."""
        if handle.data is not None:
            return checked(handle, handle.data)
        found = self._reading.pop(handle.name, None)
        if found is None:
            self._waiting.pop(handle.name, None)
            return read_chunk(self._store, handle)
        future, size_bytes = found
        data = future.result()
        self._bytes -= size_bytes
        self._read_on()
        return checked(handle, data)

    def _read_on(self) -> None:
        while self._waiting:
            handle = next(iter(self._waiting.values()))
            if self._bytes and self._bytes + handle.size_bytes > BYTES_AHEAD_MAX:
                return
            del self._waiting[handle.name]
            self._bytes += handle.size_bytes
            future = self._readers.submit(self._store.read, chunk_key(handle.name))
            self._reading[handle.name] = (future, handle.size_bytes)


def read_chunk(store: BlobStore, handle: ChunkHandle) -> pl.DataFrame:
    """A chunk of the restored checkpoint, checked. Raises CorruptSnapshot, naming it, when it is missing or damaged."""
    return checked(handle, handle.data if handle.data is not None else store.read(chunk_key(handle.name)))


def checked(handle: ChunkHandle, data: bytes | None) -> pl.DataFrame:
    key = chunk_key(handle.name)
    if data is None:
        raise CorruptSnapshot(f"{key} is missing", hint=CHUNK_HINT)
    if len(data) != handle.size_bytes or zlib.crc32(data) != handle.checksum:
        raise CorruptSnapshot(f"{key} is damaged: its checksum does not match its content", hint=CHUNK_HINT)
    return decode_chunk(data, handle.name)
