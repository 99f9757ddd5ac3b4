"""Files in a bucket: what a sink needs beyond create, read, list and delete. There is no rename; a copy within the store takes its place."""

from __future__ import annotations

import errno
from typing import IO

from tidegate.checkpoint.ports import AlreadyThere
from tidegate.model.errors import Bug
from tidegate.operators.output_directory import FileStatus
from tidegate.storage.keys import check_key
from tidegate.storage.object_store import PART_BYTES, ObjectBlobStore

PARTS_AT_ONCE = 2
"""Of one file: several files are sent at the same time, and every part is in memory."""
COPIED_AT_ONCE_BYTES = 64 << 20
"""A store copies this much in a second or so; a larger object may take longer than other requests."""


class ObjectFiles(ObjectBlobStore):
    """A ``FileStore``."""

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
        return FileStatus(found["size"], int(found["last_modified"].timestamp() * 1_000))
