"""An output directory on a disk of this machine, or one that every machine mounts at the same place."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from tidegate.connectors.durable import create_whole, make_directory, sync
from tidegate.connectors.files.config import is_remote
from tidegate.model.errors import Bug
from tidegate.ports.directory import FileStatus, OpenDirectory, OutputDirectory


class LocalDirectory:
    """An ``OutputDirectory``. A published file is renamed, which happens once."""

    requests_at_once = 1
    file_bytes_max = 0

    def __init__(self, root: Path) -> None:
        self._root = root

    def __str__(self) -> str:
        return str(self._root)

    @property
    def url(self) -> str:
        return f"file://{self._root}"

    def make(self) -> None:
        make_directory(self._root)

    def draft(self, name: str) -> LocalDraft:
        return LocalDraft(self._root, name)

    def publish(self, staged: str, final: str, size_bytes: int) -> None:
        target = self._root / final
        make_directory(target.parent)
        os.rename(self._root / staged, target)  # noqa: PTH104 - one call, one effect

    def settle(self, names: Iterable[str]) -> None:
        for directory in sorted({(self._root / name).parent for name in names}):
            sync(directory)

    def create(self, name: str, data: bytes) -> bool:
        target = self._root / name
        make_directory(target.parent)
        return create_whole(target, data)

    def read(self, name: str) -> bytes:
        return (self._root / name).read_bytes()

    def status(self, name: str) -> FileStatus | None:
        try:
            status = os.stat(self._root / name)  # noqa: PTH116 - hundreds of them
        except FileNotFoundError:
            return None
        return FileStatus(status.st_size, status.st_mtime_ns // 1_000_000)

    def delete(self, name: str) -> None:
        (self._root / name).unlink(missing_ok=True)

    def begin(self, directory: str) -> None:
        make_directory(self._root / directory)

    def has(self, directory: str) -> bool:
        return (self._root / directory).is_dir()

    def names(self, directory: str) -> list[str]:
        folder = self._root / directory
        return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []

    def files(self) -> Iterator[str]:
        for folder, _, names in os.walk(self._root):
            for name in names:
                yield (Path(folder) / name).relative_to(self._root).as_posix()


class LocalDraft:
    """A ``Draft``. It is written where it is kept."""

    def __init__(self, root: Path, name: str) -> None:
        self._root = root
        self._path = root / name
        make_directory(self._path.parent)
        self.file = self._path.open("wb")

    def keep(self) -> int:
        with self.file as file:
            file.flush()
            os.fsync(file.fileno())
            return file.tell()

    def publish(self, final: str) -> None:
        self.keep()
        target = self._root / final
        make_directory(target.parent)
        self._path.replace(target)

    def discard(self) -> None:
        with contextlib.suppress(OSError):  # Only gives the handle back: the name goes next.
            self.file.close()
        with contextlib.suppress(OSError):
            self._path.unlink(missing_ok=True)


def directory_at(location: str, open_remote: OpenDirectory | None) -> OutputDirectory:
    """``location``: an absolute path, or the URL of a store."""
    if not is_remote(location):
        return LocalDirectory(Path(location))
    if open_remote is None:
        raise Bug(f"the files sink was not told how to reach {location}")
    return open_remote(location)
