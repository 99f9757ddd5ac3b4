"""The log ``_spark_metadata``: which files of a directory count, as Spark's own streaming file sink writes it.

::

    <path>/_spark_metadata/0  1  2 … 8  9.compact  10  11 …      version line, then one JSON object per file

A batch file names what one commit added; ``.compact`` files stand for everything up to their number. Spark reads a directory that
has this log by the log alone, so what one batch adds appears at once. Numbers are dense and the log's own: they say nothing about
checkpoints. A batch is created whole or not at all, and a number is taken once, whoever writes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

import msgspec

from tidegate.connectors.files.metadata import escaped_uri
from tidegate.connectors.files.parallel import side_by_side
from tidegate.model.errors import CorruptSnapshot, InvalidQuery
from tidegate.ports.directory import FileStatus, OutputDirectory

LOG_DIRECTORY = "_spark_metadata"
COMPACT_INTERVAL = 10
"""Spark's default. A log that was begun with another interval keeps it, as in Spark."""
_VERSION = b"v1"
_BATCH_NAME = re.compile(r"(\d+)(\.compact)?")
_READS_MAX = 5
"""A writer may compact and delete under a reader: it looks again. Between two looks the log moves by many batches, so this is ample."""


class LoggedFile(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One file of the log: ``SinkFileStatus`` in Spark."""

    path: str
    """A URI, escaped as Java does it."""
    size: int
    is_dir: bool = False
    modification_time: int
    """Milliseconds since 1970."""
    block_replication: int = 1
    block_size: int = 32 * 1024 * 1024
    action: str = "add"

    @property
    def local_path(self) -> str:
        parts = urlsplit(self.path)
        if parts.scheme not in ("", "file"):
            raise InvalidQuery(
                f"{LOG_DIRECTORY} names {self.path}: only files of this machine's file systems can be read",
                hint="read a copy of the directory that was written where it lies",
            )
        return unquote(parts.path)


def logged_file(directory_url: str, name: str, status: FileStatus) -> LoggedFile:
    """An entry for a file that exists. Its scheme is the user's: Spark's readers have to come by the same."""
    scheme, _, place = directory_url.partition("://")
    authority, _, folder = place.partition("/")
    path = escaped_uri(f"/{folder}/{name}" if folder else f"/{name}")
    return LoggedFile(
        path=f"{scheme}://{authority}{path}", size=status.size_bytes, modification_time=status.modified_ms
    )


@dataclass(frozen=True, slots=True)
class Batches:
    """What a listing of the log showed."""

    plain: frozenset[int]
    compact: tuple[int, ...]
    """Ascending."""

    @property
    def latest(self) -> int:
        """-1: nothing was logged yet."""
        return max((*self.plain, *self.compact[-1:]), default=-1)

    @property
    def interval(self) -> int:
        """By the rules that Spark's readers and writers follow, so that all agree on which batch is a compact one."""
        match self.compact:
            case (*_, before, last):
                return last - before
            case (only,):
                return _derived_interval(only + 1)
            case _:
                # More batches than the default interval and none compact: begun with a longer one. From the first compact file on
                # everybody derives the interval from it.
                return (self.latest + 1) // COMPACT_INTERVAL * COMPACT_INTERVAL + COMPACT_INTERVAL

    @property
    def following(self) -> str:
        """The file name of the next batch."""
        number = self.latest + 1
        return f"{number}.compact" if (number + 1) % self.interval == 0 else str(number)

    @property
    def needed(self) -> tuple[str, ...]:
        """The files that together name everything, oldest first."""
        start = self.compact[-1] if self.compact else -1
        rest = tuple(map(str, range(start + 1, self.latest + 1)))
        return (f"{start}.compact", *rest) if self.compact else rest

    def since(self, seen: int) -> tuple[str, ...]:
        """The files that name everything after batch ``seen``; perhaps also some of what came before it."""
        start = self.compact[-1] if self.compact else -1
        if seen < start:
            return self.needed
        return tuple(map(str, range(seen + 1, self.latest + 1)))


@dataclass(frozen=True, slots=True)
class Logged:
    """Files in the order in which they were committed."""

    files: list[LoggedFile]
    latest: int
    """The newest batch among those read."""
    whole: bool
    """They are all files of the log, not only those since the last look."""


class SparkLog:
    """Reads the log of one output directory. Stateless; the directory may be written to by others all the time."""

    def __init__(self, output: OutputDirectory) -> None:
        self._output = output

    def __str__(self) -> str:
        return f"{self._output}/{LOG_DIRECTORY}"

    @property
    def exists(self) -> bool:
        return self._output.has(LOG_DIRECTORY)

    def begin(self) -> None:
        """The log exists from now on, before anything is in it."""
        self._output.begin(LOG_DIRECTORY)

    def batches(self) -> Batches:
        plain: set[int] = set()
        compact: list[int] = []
        names = self._output.names(LOG_DIRECTORY)
        for found in filter(None, map(_BATCH_NAME.fullmatch, names)):
            if found[2]:
                compact.append(int(found[1]))
            else:
                plain.add(int(found[1]))
        return Batches(frozenset(plain), tuple(sorted(compact)))

    def lines(self, names: Sequence[str]) -> list[bytes]:
        """The entries of these batch files, undecoded. FileNotFoundError: one was compacted away."""
        batches = side_by_side(self._lines, names, self._output.requests_at_once)
        return [line for lines in batches for line in lines]

    def _lines(self, name: str) -> list[bytes]:
        version, *lines = self._output.read(f"{LOG_DIRECTORY}/{name}").split(b"\n")
        if version != _VERSION:
            raise CorruptSnapshot(
                f"{self}/{name} begins with {version[:20]!r}: it is no Spark sink log of version 1",
                hint="restore the file, or move the whole log away and read the directory without it",
            )
        return [line for line in lines if line]

    def read(self, seen: int = -1) -> Logged:
        """What was logged after batch ``seen``, and perhaps all that was logged before it."""
        missing = ""
        for _ in range(_READS_MAX):
            batches = self.batches()
            names = batches.since(seen)
            try:
                lines = self.lines(names)
            except FileNotFoundError as error:
                missing = str(error.filename)
                continue
            return Logged(_live(map(self.decoded, lines)), batches.latest, whole=batches.needed == names)
        raise CorruptSnapshot(
            f"{self} has lost a batch: {missing} is not there",
            hint="restore the file, or move the whole log away and read the directory without it",
        )

    def decoded(self, line: bytes) -> LoggedFile:
        """One entry. Raises CorruptSnapshot, which shows the line."""
        try:
            return msgspec.json.decode(line, type=LoggedFile)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise CorruptSnapshot(
                f"{self} holds an entry that cannot be read ({error}): {line[:100]!r}",
                hint="restore the file, or move the whole log away and read the directory without it",
            ) from error


def encoded(lines: Iterable[bytes]) -> bytes:
    """A batch file."""
    return b"\n".join((_VERSION, *lines))


def _live(files: Iterable[LoggedFile]) -> list[LoggedFile]:
    """Logs of old Spark versions take files back."""
    alive: dict[str, LoggedFile] = {}
    for file in files:
        if file.action == "delete":
            alive.pop(file.path, None)
        elif not file.is_dir:
            alive[file.path] = file
    return list(alive.values())


def _derived_interval(length: int) -> int:
    """For a log with one compact file that stands for ``length`` batches: the shortest interval from the default on that fits it."""
    if length <= COMPACT_INTERVAL or length // 2 <= COMPACT_INTERVAL:
        return length
    return next((n for n in range(COMPACT_INTERVAL, length // 2 + 1) if length % n == 0), length)
