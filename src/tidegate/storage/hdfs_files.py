"""Files in HDFS: what sinks and sources need beyond create, read, list and delete."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Generator, Iterator
from typing import IO, Any

from tidegate.model.errors import Unavailable
from tidegate.ports.directory import FileStatus
from tidegate.storage.hdfs import PIECE_BYTES, HdfsBlobStore
from tidegate.storage.local_copy import Fetched
from tidegate.storage.output_directory import FileStore


class HdfsFiles(HdfsBlobStore, FileStore):
    file_bytes_max = 0

    def upload(self, key: str, file: IO[bytes], size_bytes: int) -> None:
        """From where ``file`` stands, over whatever an earlier try has left. It is whole when this returns, not before."""
        from hdfs_native import WriteOptions

        path = self._path(key)
        options = WriteOptions(overwrite=True, create_parent=True)
        try:
            writer = self._do("write", key, lambda: self._client.create(path, options))
            while piece := file.read(PIECE_BYTES):
                self._do("write", key, lambda piece=piece: writer.write(piece))
            self._do("write", key, writer.close)
        except FileNotFoundError as gone:
            raise Unavailable(
                f"cannot write {self._where(key)}: somebody removed it", hint="it is tried again"
            ) from gone

    def publish(self, source: str, target: str, size_bytes: int) -> None:
        """A rename, which happens once. Whose answer is lost finds the source gone, and the target there."""
        old, new = self._path(source), self._path(target)
        self._do(
            "make", posixpath.dirname(target), lambda: self._client.mkdirs(posixpath.dirname(new), create_parent=True)
        )
        self._do("rename to", target, lambda: self._client.rename(old, new, overwrite=True))

    def status(self, key: str) -> FileStatus | None:
        path = self._path(key)
        try:
            found = self._do("look at", key, lambda: self._client.get_file_info(path))
        except FileNotFoundError:
            return None
        return None if found.isdir else _status(found)

    def found(self, enters: Callable[[str], bool]) -> Iterator[tuple[str, FileStatus]]:
        return ((key, _status(one)) for key, one in self._walk("", enters))

    def read_range(self, key: str, start: int, stop: int) -> bytes:
        path = self._path(key)
        file = self._do("read", key, lambda: self._client.read(path))
        return self._do("read", key, lambda: file.read_range(start, stop - start))

    def fetch(self, key: str) -> Fetched:
        path = self._path(key)
        status = self._do("look at", key, lambda: self._client.get_file_info(path))
        file = self._do("read", key, lambda: self._client.read(path))
        return Fetched(_status(status), self._pieces(key, file))

    def _pieces(self, key: str, file: Any) -> Generator[bytes]:
        size_bytes = len(file)
        for start in range(0, size_bytes, PIECE_BYTES):
            length = min(PIECE_BYTES, size_bytes - start)
            yield self._do("read", key, lambda start=start, length=length: file.read_range(start, length))


def _status(found: Any) -> FileStatus:
    return FileStatus(found.length, found.modification_time)
