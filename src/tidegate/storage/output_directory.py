"""Directories of files in object stores and in HDFS: what is written is made here first, and sent when it is whole."""

from __future__ import annotations

import errno
import os
import secrets
import tempfile
import threading
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import IO, cast

from tidegate.checkpoint.ports import Probe, judge
from tidegate.model.errors import InvalidQuery
from tidegate.ports.directory import FileStatus, RemoteDirectory
from tidegate.ports.store import BlobStore, Created
from tidegate.storage.errors import mistakes_told
from tidegate.storage.local_copy import FILES_AT_ONCE, Fetched, FetchedCopy
from tidegate.storage.options import NO_OPTIONS, StorageOptions
from tidegate.storage.places import BucketPlace, HdfsPlace, LocalPlace, place_of
from tidegate.storage.scratch import scratch_directory

REQUESTS_AT_ONCE = 16
HELD_BYTES_MAX = 1 << 20
"""Of a file that is being written; what is beyond lies on the local disk, without a name."""
_BEGUN = ".begun"
"""Stores have no empty directories: a hidden file makes one."""


class FileStore(BlobStore):
    """What a store of blobs needs for whole files. FileNotFoundError is an answer, everything else a TidegateError."""

    file_bytes_max: int

    @abstractmethod
    def upload(self, key: str, file: IO[bytes], size_bytes: int) -> None:
        """The rest of ``file``, under a key that nobody else writes to."""

    @abstractmethod
    def publish(self, source: str, target: str, size_bytes: int) -> None:
        """``target`` is there, whole, with the bytes of ``source``, which may be gone. FileNotFoundError: it was gone before."""

    @abstractmethod
    def status(self, key: str) -> FileStatus | None:
        """None: it is not there."""

    @abstractmethod
    def walk(self, directory: str = "") -> Iterator[str]:
        """Keys below the directory, as they are found."""

    @abstractmethod
    def found(self, enters: Callable[[str], bool]) -> Iterator[tuple[str, FileStatus]]:
        """All keys in directories that are entered, as they are found."""

    @abstractmethod
    def read_range(self, key: str, start: int, stop: int) -> bytes:
        """FileNotFoundError: it is not there."""

    @abstractmethod
    def fetch(self, key: str) -> Fetched:
        """FileNotFoundError: it is not there; also from the pieces, if it goes meanwhile. DataError: it was replaced meanwhile."""


class StoreDirectory:
    """A ``RemoteDirectory``. ``url``: the place as the user wrote it."""

    requests_at_once = REQUESTS_AT_ONCE

    def __init__(self, store: FileStore, url: str) -> None:
        self._store = store
        self._turns = threading.Semaphore(FILES_AT_ONCE)
        self.url = url

    def __str__(self) -> str:
        return self.url

    @property
    def file_bytes_max(self) -> int:
        return self._store.file_bytes_max

    def make(self) -> None:
        """Whether the store refuses a name that is taken is tried out: the order of commits rests on it."""
        question = Probe(f"_tidegate/probe/{secrets.token_hex(8)}")
        with mistakes_told():
            first = self._store.create(question.key, question.first)
            second = self._store.create(question.key, question.second)
            self._store.delete(question.key)
        judge(self.url, first, second)

    def check(self) -> None:
        with mistakes_told():
            next(self._store.walk(), None)

    def draft(self, name: str) -> StoredDraft:
        return StoredDraft(self._store, name)

    def publish(self, staged: str, final: str, size_bytes: int) -> None:
        self._store.publish(staged, final, size_bytes)

    def settle(self, names: Iterable[str]) -> None:
        """What a store has taken is safe."""

    def create(self, name: str, data: bytes) -> bool:
        return isinstance(self._store.create(name, data), Created)

    def read(self, name: str) -> bytes:
        data = self._store.read(name)
        if data is None:
            raise FileNotFoundError(errno.ENOENT, "no such file", f"{self.url}/{name}")
        return data

    def status(self, name: str) -> FileStatus | None:
        return self._store.status(name)

    def delete(self, name: str) -> None:
        self._store.delete(name)

    def begin(self, directory: str) -> None:
        self._store.create(f"{directory}/{_BEGUN}", b"")

    def has(self, directory: str) -> bool:
        return next(self._store.walk(directory), None) is not None

    def names(self, directory: str) -> list[str]:
        found = (key.removeprefix(f"{directory}/") for key in self._store.walk(directory))
        return sorted(name for name in found if "/" not in name)

    def files(self) -> Iterator[str]:
        return self._store.walk()

    def found(self, enters: Callable[[str], bool]) -> Iterator[tuple[str, FileStatus]]:
        return self._store.found(enters)

    def read_range(self, name: str, start: int, stop: int) -> bytes:
        return self._store.read_range(name, start, stop)

    def fetch(self, name: str) -> FetchedCopy:
        return FetchedCopy(name, partial(self._store.fetch, name), self._turns)


class StoredDraft:
    """A ``Draft``. Nothing of it is in the store before it is kept or published; a process that dies leaves nothing behind."""

    def __init__(self, store: FileStore, name: str) -> None:
        self._store = store
        self._name = name
        file = tempfile.SpooledTemporaryFile(HELD_BYTES_MAX, dir=scratch_directory())  # noqa: SIM115 - closed when it is sent, or discarded
        self.file = cast(IO[bytes], file)

    def keep(self) -> int:
        with self.file as file:
            size_bytes = file.seek(0, os.SEEK_END)
            file.seek(0)
            self._store.upload(self._name, file, size_bytes)
            return size_bytes

    def publish(self, final: str) -> None:
        with self.file as file:
            file.seek(0)
            self._store.create(final, file.read())  # Already there: somebody has published the same rows.

    def discard(self) -> None:
        self.file.close()


def open_directory(location: str, options: StorageOptions = NO_OPTIONS) -> RemoteDirectory:
    """Of an object store or HDFS. Asks nobody; raises InvalidQuery for a URL that names no store, or a package that is missing."""
    match place_of(location):
        case LocalPlace():
            raise InvalidQuery(f"{location!r} is no store", hint="a local directory needs none")
        case BucketPlace() as place:
            from tidegate.storage.object_files import ObjectFiles

            return StoreDirectory(ObjectFiles(place, options), _url(location, place.prefix))
        case HdfsPlace() as place:
            from tidegate.storage.hdfs_files import HdfsFiles

            return StoreDirectory(HdfsFiles(place, options, make=False), _url(location, place.path))


def _url(location: str, path: str) -> str:
    """The scheme and the host are the user's own, so that others who come by them find what is named by them."""
    scheme, _, place = location.partition("://")
    return f"{scheme}://{place.partition('/')[0]}/{path.strip('/')}".rstrip("/")
