"""The files of a table, on a local disk or in an object store, behind one small interface."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, Any, TypeAlias

from pyarrow import fs

from tidegate.connectors.durable import make_directory, sync
from tidegate.model.errors import TidegateError, Unavailable
from tidegate.model.os_errors import explain

Resolve: TypeAlias = Callable[[str], tuple[fs.FileSystem, str]]
"""From a location, as the table format writes it, to a file system and the path there."""

REQUESTS_MAX = 16
"""Requests to an object store at a time."""
TEXT_MAX = 500
"""Characters of somebody else's error."""
_BRANCH = re.compile(r"\s*(?:\x1b\[\d*m)*↳(?:\x1b\[\d*m)*\s*")


class TableStorage:
    """Writes, lists and deletes files by location. Raises Unavailable or InvalidQuery, and names the file."""

    def __init__(self, resolve: Resolve) -> None:
        self._resolve = resolve

    def create(self, location: str) -> IO[Any]:
        """An empty file to write into. It may be relied on after ``close`` and ``sync``."""
        try:
            filesystem, path = self._resolve(location)
            if not _local(filesystem):
                return filesystem.open_output_stream(path)
            make_directory(Path(path).parent)
            return Path(path).open("wb")
        except Exception as error:
            raise failed(error, "write", location) from error

    def sync(self, locations: Iterable[str]) -> None:
        """Survives a loss of power from now on. What an object store has taken is safe already."""
        directories: set[Path] = set()
        for location in locations:
            filesystem, path = self._resolve(location)
            if not _local(filesystem):
                continue
            try:
                sync(Path(path))
            except OSError as error:
                raise failed(error, "write", location) from error
            directories.add(Path(path).parent)
        for directory in sorted(directories):
            try:
                sync(directory)
            except OSError as error:
                raise failed(error, "write to", str(directory)) from error

    def put(self, location: str, content: bytes) -> None:
        try:
            with self.create(location) as file:
                file.write(content)
        except TidegateError:
            raise
        except Exception as error:
            raise failed(error, "write", location) from error

    def read(self, location: str) -> bytes:
        filesystem, path = self._resolve(location)
        try:
            with filesystem.open_input_file(path) as file:
                return file.read()
        except Exception as error:
            raise failed(error, "read", location) from error

    def sizes_bytes(self, locations: Sequence[str]) -> list[int | None]:
        """None for a file that is not there."""
        return self._at_once(self._size_bytes, locations)

    def delete(self, locations: Sequence[str]) -> None:
        """One that is not there is fine."""
        self._at_once(self._delete, locations)

    def names(self, directory: str) -> list[str]:
        """Names of the files in it; none if there is no such directory."""
        try:
            filesystem, path = self._resolve(directory)
            found = filesystem.get_file_info(fs.FileSelector(path, allow_not_found=True, recursive=False))
        except FileNotFoundError:
            return []
        except Exception as error:
            raise failed(error, "list", directory) from error
        return sorted(info.base_name for info in found if info.is_file)

    def _size_bytes(self, location: str) -> int | None:
        try:
            filesystem, path = self._resolve(location)
            info = filesystem.get_file_info(path)
        except Exception as error:
            raise failed(error, "look for", location) from error
        return info.size if info.is_file else None

    def _delete(self, location: str) -> None:
        try:
            filesystem, path = self._resolve(location)
            if _local(filesystem):
                Path(path).unlink(missing_ok=True)
            elif filesystem.get_file_info(path).is_file:
                filesystem.delete_file(path)
        except FileNotFoundError:
            return
        except Exception as error:
            raise failed(error, "delete", location) from error

    def _at_once(self, do: Callable[[str], Any], locations: Sequence[str]) -> list[Any]:
        if len(locations) < 2 or all(_local(self._resolve(location)[0]) for location in locations):
            return [do(location) for location in locations]
        with ThreadPoolExecutor(min(REQUESTS_MAX, len(locations)), "tidegate-lake") as pool:
            return list(pool.map(do, locations))


_FULL = ("No space left", "disk is full", "Disk quota exceeded", "StorageFull")
"""Of libraries that say it in words alone."""


def failed(error: Exception, doing: str, location: str) -> TidegateError:
    """What a person can do about it. Stores and their clients raise all kinds of things: what is not known may pass."""
    if isinstance(error, TidegateError):
        return error
    if isinstance(error, OSError) and error.errno is not None:
        return explain(error, doing, location)
    words = in_short(error)
    full = any(sign in words for sign in _FULL)
    return Unavailable(
        f"cannot {doing} {location}: {type(error).__name__}: {words}",
        hint="the disk or the quota is full: free some space, the query goes on by itself"
        if full
        else "check that the store is reachable and that the credentials allow it; it is tried again",
    )


def in_short(error: BaseException) -> str:
    """On one line. Clients of object stores print trees, and the reason hangs at the end of a branch."""
    words = " ".join(_BRANCH.sub(": ", str(error)).split())
    return words[:TEXT_MAX] if words else type(error).__name__


def _local(filesystem: fs.FileSystem) -> bool:
    return isinstance(filesystem, fs.LocalFileSystem)
