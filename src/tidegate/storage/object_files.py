"""Files in a bucket: what sinks and sources need beyond blobs. There is no rename; a copy within the store takes its place."""

from __future__ import annotations

import errno
from collections.abc import Callable, Generator, Iterator
from typing import IO, TYPE_CHECKING

from tidegate.model.errors import Bug, DataError
from tidegate.ports.directory import FileStatus
from tidegate.ports.store import AlreadyThere
from tidegate.storage.keys import check_key, directory_of
from tidegate.storage.local_copy import Fetched
from tidegate.storage.object_store import PART_BYTES, ObjectBlobStore
from tidegate.storage.output_directory import FileStore

if TYPE_CHECKING:
    from obstore import ObjectMeta

PARTS_AT_ONCE = 2
"""Of one file: several files are sent at the same time, and every part is in memory."""
COPIED_AT_ONCE_BYTES = 64 << 20
"""A store copies this much in a second or so; a larger object may take longer than other requests."""


class ObjectFiles(ObjectBlobStore, FileStore):
    file_bytes_max = 4 << 30
    """S3 copies up to 5 GiB in one request. A file is ended a little after it has reached its limit."""

    def upload(self, key: str, file: IO[bytes], size_bytes: int) -> None:
        """From where ``file`` stands. A large one travels in parts; the object appears when all have arrived."""
        if size_bytes > PART_BYTES:
            self._put_parts(key, file, size_bytes, PARTS_AT_ONCE)
        elif isinstance(self.create(key, file.read()), AlreadyThere):
            raise Bug(f"{self._where(key)} was to be written by one writer alone, and somebody else did")

    def publish(self, source: str, target: str, size_bytes: int) -> None:
        """A copy, which is whole or not there, and the same however often it is made. The source stays."""
        import obstore

        client = self._clients.normal if size_bytes <= COPIED_AT_ONCE_BYTES else self._clients.bulk
        try:
            obstore.copy(client, check_key(source), check_key(target), overwrite=True)
        except Exception as failure:
            if self._says_absent(failure):
                raise FileNotFoundError(errno.ENOENT, "no such object", source) from failure
            raise self._error(failure, "copy to", target) from failure

    def status(self, key: str) -> FileStatus | None:
        import obstore

        try:
            found = obstore.head(self._clients.normal, check_key(key))
        except Exception as failure:
            if self._says_absent(failure):
                return None
            raise self._error(failure, "look at", key) from failure
        return _status(found)

    def found(self, enters: Callable[[str], bool]) -> Iterator[tuple[str, FileStatus]]:
        """Listed as a whole: there are no directories to leave out, only names."""
        entered: dict[str, bool] = {"": True}

        def is_entered(directory: str) -> bool:
            known = entered.get(directory)
            if known is None:
                known = entered[directory] = is_entered(directory.rpartition("/")[0]) and enters(directory)
            return known

        return ((one["path"], _status(one)) for one in self._objects() if is_entered(directory_of(one["path"])))

    def read_range(self, key: str, start: int, stop: int) -> bytes:
        import obstore

        check_key(key)
        try:
            return bytes(obstore.get(self._clients.normal, key, options={"range": (start, stop)}).bytes())
        except Exception as failure:
            raise self._unread(failure, key) from failure

    def fetch(self, key: str) -> Fetched:
        """The first part comes with the first answer: one round trip for most files."""
        import obstore

        check_key(key)
        try:
            answer = obstore.get(self._clients.normal, key, options={"range": (0, PART_BYTES)})
            first = bytes(answer.bytes())
        except Exception as failure:
            raise self._unread(failure, key) from failure
        return Fetched(_status(answer.meta), self._pieces(key, first, answer.meta))

    def _pieces(self, key: str, first: bytes, meta: ObjectMeta) -> Generator[bytes]:
        from obstore.exceptions import PreconditionError

        yield first
        try:
            yield from self._parts(key, meta["size"], PARTS_AT_ONCE, start=PART_BYTES, version=meta["e_tag"])
        except PreconditionError as replaced:
            raise DataError(
                f"{self._where(key)} was replaced while it was read",
                hint="never replace source files; give new ones new names",
            ) from replaced
        except Exception as failure:
            raise self._unread(failure, key) from failure

    def _unread(self, failure: Exception, key: str) -> Exception:
        absent = self._says_absent(failure)
        return FileNotFoundError(errno.ENOENT, "no such object", key) if absent else self._error(failure, "read", key)


def _status(found: ObjectMeta) -> FileStatus:
    return FileStatus(found["size"], int(found["last_modified"].timestamp() * 1_000))
