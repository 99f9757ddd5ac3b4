"""Which files belong to a source, found by looking again and again: the driver side of the file sources."""

from __future__ import annotations

import fnmatch
import glob
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from tidegate.connectors.files.config import FileSourceConfig
from tidegate.connectors.files.splits import SEGMENT_SIZE, FileSplit, KnownFiles, decode_split, seal, unseal
from tidegate.model.errors import CorruptSnapshot, InvalidQuery, Unavailable
from tidegate.model.snapshot import Split

_GLOB = re.compile(r"[*?\[{]")
_BRACES = re.compile(r"\{([^{}]*)\}")


class Found(NamedTuple):
    """A file seen on disk. Sorts in the order in which files are read: oldest first, then by name."""

    mtime_ns: int
    path: str
    size_bytes: int


class FileEnumerator:
    """Discovers whole files. A file must appear under its final name when it is complete (written elsewhere, then moved):
    what a path held when it was discovered is what is read. Empty files are not files yet. A known path is never read again.
    """

    def __init__(self, config: FileSourceConfig, *, bounded: bool) -> None:
        self._config = config
        self._stops = bounded
        self._looked = False
        self._known: set[str] = set()
        self._segments: list[bytes] = []
        self._newest: list[FileSplit] = []

    @property
    def bounded(self) -> bool:
        return self._stops and self._looked

    def discover(self, now_ms: int) -> tuple[Split, ...]:
        if self.bounded:
            return ()
        found = sorted(file for file in find_files(self._config) if file.path not in self._known)
        self._looked = True
        return tuple(self._remember(FileSplit(path=file.path, size_bytes=file.size_bytes)) for file in found)

    def snapshot(self) -> bytes:
        return msgspec.msgpack.encode(KnownFiles(segments=tuple(self._segments), newest=tuple(self._newest)))

    def restore(self, state: bytes, known: tuple[Split, ...]) -> tuple[Split, ...]:
        files: dict[int, FileSplit] = {}
        if state:
            try:
                stored = msgspec.msgpack.decode(state, type=KnownFiles)
                older = [file for segment in stored.segments for file in unseal(segment)]
            except (msgspec.DecodeError, msgspec.ValidationError) as error:
                raise CorruptSnapshot(f"the file source's list of known files cannot be decoded: {error}") from error
            files = dict(enumerate([*older, *stored.newest]))
        files |= {split.number: decode_split(split.payload) for split in known}
        if sorted(files) != list(range(len(files))):
            raise CorruptSnapshot(f"the file source knows {len(files)} files, but their numbers have gaps")
        return tuple(self._remember(files[number]) for number in range(len(files)))

    def _remember(self, file: FileSplit) -> Split:
        number = len(self._segments) * SEGMENT_SIZE + len(self._newest)
        self._known.add(file.path)
        self._newest.append(file)
        if len(self._newest) == SEGMENT_SIZE:
            self._segments.append(seal(self._newest))
            self._newest = []
        return Split(number=number, payload=msgspec.msgpack.encode(file))


def find_files(config: FileSourceConfig) -> Iterator[Found]:
    """All files of the source that exist now. Directories ``k=v`` are partitions; others are entered only recursively."""
    for root in _roots(config.path):
        if Path(root).is_file():
            yield from _found(root, config)
        else:
            yield from _walk(root, config)


def is_hidden(name: str) -> bool:
    """Spark's rule: names it keeps for itself and files still being copied."""
    return (name.startswith("_") and "=" not in name) or name.startswith(".") or name.endswith("._COPYING_")


def _roots(path: str) -> list[str]:
    if not _GLOB.search(path):
        if not os.path.lexists(path):
            raise InvalidQuery(f"the directory {path} does not exist", hint="create it, or correct load(path)")
        return [os.path.abspath(path)]  # noqa: PTH100 - resolve() would follow links and rename the files
    matches = {match for pattern in _braces_expanded(path) for match in glob.glob(pattern)}  # noqa: PTH207
    return sorted(os.path.abspath(match) for match in matches if not is_hidden(Path(match).name))  # noqa: PTH100


def _braces_expanded(pattern: str) -> list[str]:
    """Hadoop's ``{a,b}``, which Python's glob does not know."""
    braces = _BRACES.search(pattern)
    if braces is None:
        return [pattern]
    head, tail = pattern[: braces.start()], pattern[braces.end() :]
    return [full for choice in braces[1].split(",") for full in _braces_expanded(head + choice + tail)]


def _walk(directory: str, config: FileSourceConfig) -> Iterator[Found]:
    try:
        with os.scandir(directory) as entries:
            for entry in entries:
                if is_hidden(entry.name):
                    continue
                if entry.is_dir():
                    if config.recursive or "=" in entry.name:
                        yield from _walk(entry.path, config)
                else:
                    yield from _found(entry.path, config)
    except FileNotFoundError:
        return  # Removed between listing the parent and entering it.
    except OSError as error:
        raise Unavailable(
            f"cannot list {directory}: {error.strerror}", hint="the user that runs the driver must be able to read it"
        ) from error


def _found(path: str, config: FileSourceConfig) -> Iterator[Found]:
    if config.name_filter and not fnmatch.fnmatchcase(Path(path).name, config.name_filter):
        return
    try:
        status = Path(path).stat()
    except FileNotFoundError:
        return  # Moved away since it was listed.
    if status.st_size:
        yield Found(status.st_mtime_ns, path, status.st_size)
