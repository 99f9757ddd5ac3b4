"""What is new in a directory tree on a disk, without reading all of it each time."""

from __future__ import annotations

import glob
import logging
import os
import time
from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

from tidegate.connectors.files.config import FileSourceConfig
from tidegate.connectors.files.found import (
    PATTERN,
    Found,
    is_entered,
    is_filtered,
    is_hidden,
    split_place,
    unlisted,
    without_braces,
    would_find,
)
from tidegate.connectors.files.local_directory import LocalDirectory
from tidegate.connectors.files.logged_files import LoggedFiles, logged_or_listed
from tidegate.connectors.files.spark_log import LoggedFile
from tidegate.model.errors import InvalidQuery

log = logging.getLogger("tidegate")

SETTLED_MS = 2_000
"""The coarsest clock of a file system in use. A directory touched more recently than this may change again in the same tick."""
TRUST_FACTOR = 500
"""An unchanged directory is believed for this many times as long as listing it took: small ones are listed every time."""
TRUST_MAX_MS = 10_000
"""Some network file systems do not date their directories: nothing stays unseen for longer than this."""


class Version(NamedTuple):
    """Tells a directory from what it was: creating, removing or renaming an entry changes its time."""

    device: int
    inode: int
    mtime_ns: int


@dataclass(frozen=True, slots=True)
class Listed:
    """A directory that held nothing but known files and these directories when it was listed."""

    version: Version
    directories: tuple[str, ...]
    trusted_until_ms: float


class Listing:
    """Finds files that are not known yet. Directories ``k=v`` are partitions; others are entered only recursively.

    A directory with a ``_spark_metadata`` log holds what the log names and nothing else, as for Spark.

    A directory is read again when its version changed, when it held something that can become a file without changing it (an
    empty file, a link), and from time to time anyway.
    """

    def __init__(self, config: FileSourceConfig) -> None:
        self._config = config
        self._listed: dict[str, Listed] = {}
        self._log = None if PATTERN.search(config.path) else _logged_files(os.path.abspath(config.path))  # noqa: PTH100

    def check(self) -> None:
        """Once, when the query is started. A directory that goes away later is empty until it is there again."""
        path = self._config.path
        if not PATTERN.search(path) and not os.path.lexists(path):
            raise InvalidQuery(f"the directory {path} does not exist", hint="create it, or correct load(path)")

    def new_files(self, known: Set[str], now_ms: int) -> list[Found]:
        """Files that exist now and are not in ``known``, in reading order. The caller knows them from now on."""
        found = logged_or_listed(self._log, lambda: self._new_in_directories(known, now_ms))
        return [file for file in found if file.path not in known and not is_filtered(file.path, self._config)]

    def elsewhere(self, paths: Iterable[str]) -> set[str]:
        """Those files, known from a checkpoint, that the query does not read."""
        absolute = os.path.abspath(self._config.path)  # noqa: PTH100 - as it is listed
        places = [split_place(one) for one in without_braces(absolute)]
        others = {
            path
            for path in paths
            if path != absolute and not any(would_find(*place, path, self._config) for place in places)
        }
        # A log names files wherever they lie.
        return others - self._log.names() if others and self._log is not None else others

    def read_range(self, path: str, start: int, stop: int) -> bytes:
        """Of a file that was found."""
        with Path(path).open("rb") as file:
            file.seek(start)
            return file.read(stop - start)

    def _new_in_directories(self, known: Set[str], now_ms: int) -> list[Found]:
        found: list[Found] = []
        listed: dict[str, Listed] = {}
        roots = set(_roots(self._config.path))
        for root in roots - known:
            if Path(root).is_file():
                found.extend(self._stat(root))
            else:
                self._walk(root, known, now_ms, found, listed)
        for root in roots & self._listed.keys() - listed.keys():
            log.warning("the directory %s is gone; files that appear there again are read", root)
        # Only now: had a directory further down been unreadable, these files would have to be found again.
        self._listed = listed
        return sorted(found)

    def _walk(
        self, directory: str, known: Set[str], now_ms: int, found: list[Found], listed: dict[str, Listed]
    ) -> None:
        try:
            # Before listing: an entry made while we list belongs to a later version, or is younger than SETTLED_MS.
            status = os.stat(directory)  # noqa: PTH116 - called for every directory at every look
            version = Version(status.st_dev, status.st_ino, status.st_mtime_ns)
            before = self._listed.get(directory)
            if before is None or before.version != version or now_ms >= before.trusted_until_ms:
                before = self._list(directory, version, known, now_ms, found)
        except FileNotFoundError:
            return  # Removed between listing the parent and entering it.
        except OSError as error:
            raise unlisted(directory, error) from error
        listed[directory] = before
        for inner in before.directories:
            self._walk(inner, known, now_ms, found, listed)

    def _list(self, directory: str, version: Version, known: Set[str], now_ms: int, found: list[Found]) -> Listed:
        begin_s = time.perf_counter()
        settled = now_ms - version.mtime_ns / 1e6 >= SETTLED_MS
        directories: list[str] = []
        with os.scandir(directory) as entries:
            for entry in entries:
                if entry.path in known or is_hidden(entry.name):
                    continue
                settled = settled and not entry.is_symlink()
                if entry.is_dir():
                    if is_entered(entry.name, self._config):
                        directories.append(entry.path)
                else:
                    files = self._stat(entry.path)
                    found.extend(files)
                    settled = settled and bool(files or is_filtered(entry.path, self._config))
        cost_ms = (time.perf_counter() - begin_s) * 1000
        trust_ms = min(TRUST_FACTOR * cost_ms, TRUST_MAX_MS) if settled else 0.0
        return Listed(version, tuple(sorted(directories)), now_ms + trust_ms)

    def _stat(self, path: str) -> tuple[Found, ...]:
        if is_filtered(path, self._config):
            return ()
        try:
            status = Path(path).stat()
        except FileNotFoundError:
            return ()  # Moved away since it was listed.
        return (Found(status.st_mtime_ns, path, status.st_size),) if status.st_size else ()


def _logged_files(root: str) -> LoggedFiles:
    return LoggedFiles(LocalDirectory(Path(root)), partial(_as_listed, root, os.path.realpath(root)))


def _roots(path: str) -> Iterator[str]:
    absolute = os.path.abspath(path)  # noqa: PTH100 - resolve() would follow links and rename the files
    if not PATTERN.search(path):
        yield absolute
        return
    for match in {match for pattern in without_braces(absolute) for match in glob.glob(pattern)}:  # noqa: PTH207
        if not is_hidden(os.path.basename(match)):  # noqa: PTH119 - thousands of matches, at every look
            yield match


def _as_listed(root: str, real: str, file: LoggedFile) -> str:
    """The writer may have come by another way (a link, which leads to ``real``)."""
    path = file.local_path
    below = path.removeprefix(real + "/")
    return path if below == path else f"{root}/{below}"
