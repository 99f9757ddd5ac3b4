"""What is new in a directory of a store.

Nothing there tells cheaply that nothing has changed, so every look lists all that is below the path (Spark does the same).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from functools import partial
from urllib.parse import unquote, urlsplit

from tidegate.connectors.files.config import FileSourceConfig
from tidegate.connectors.files.found import (
    PATTERN,
    Found,
    is_entered,
    is_filtered,
    is_hidden,
    matches,
    split_pattern,
    without_braces,
    would_find,
)
from tidegate.connectors.files.logged_files import LoggedFiles, logged_or_listed
from tidegate.connectors.files.spark_log import LOG_DIRECTORY, LoggedFile
from tidegate.model.errors import InvalidQuery, Unavailable
from tidegate.ports.directory import OpenDirectory, RemoteDirectory

_ALIASES = {"s3a": "s3", "s3n": "s3", "abfss": "abfs"}


class StoreListing:
    """Finds files that are not known yet, with the rules of a ``Listing``."""

    def __init__(self, config: FileSourceConfig, open_directory: OpenDirectory) -> None:
        self._config = config
        self._branches = [Branch(path, config, open_directory) for path in without_braces(config.path)]
        self._log: LoggedFiles | None = None
        if not PATTERN.search(config.path):
            directory = self._branches[0].directory
            self._log = LoggedFiles(directory, partial(_as_listed, directory.url))
        self._open_directory = open_directory

    def check(self) -> None:
        for branch in self._branches:
            branch.directory.check()
        self._refuse_file()

    def new_files(self, known: Set[str], now_ms: int) -> list[Found]:
        """Files that exist now and are not in ``known``, in reading order. The caller knows them from now on."""
        found = logged_or_listed(self._log, lambda: self._listed(known))
        return [file for file in found if file.path not in known and not is_filtered(file.path, self._config)]

    def elsewhere(self, paths: Iterable[str]) -> set[str]:
        """Those files, known from a checkpoint, that the query does not read. A bucket is the same under ``s3`` and ``s3a``."""
        return {path for path in paths if not any(branch.reads(path) for branch in self._branches)}

    def read_range(self, path: str, start: int, stop: int) -> bytes:
        """Of a file that was found."""
        directory = next(one.directory for one in self._branches if path.startswith(f"{one.directory.url}/"))
        return directory.read_range(path.removeprefix(f"{directory.url}/"), start, stop)

    def _listed(self, known: Set[str]) -> list[Found]:
        return sorted({file for branch in self._branches for file in branch.files() if file.path not in known})

    def _refuse_file(self) -> None:
        """An object's name, taken for a directory, would be an empty one for ever."""
        folder, _, name = self._config.path.rstrip("/").rpartition("/")
        if self._log is None or folder.endswith("/"):
            return
        try:
            status = self._open_directory(folder).status(name)
        except (InvalidQuery, Unavailable):
            return  # The folder may be none of ours to ask about: the root of HDFS, a prefix that the key gives no right to.
        if status is not None:
            raise InvalidQuery(
                f"{self._config.path} is a file", hint="a stream reads a directory, or a pattern such as name*"
            )


class Branch:
    """One path without braces: the directory above the first pattern in it, and the patterns below that."""

    def __init__(self, path: str, config: FileSourceConfig, open_directory: OpenDirectory) -> None:
        root, self._patterns = split_pattern(path)
        self._config = config
        self.directory: RemoteDirectory = open_directory(root)

    def files(self) -> Iterator[Found]:
        for name, status in self.directory.found(self._enters):
            if status.size_bytes and self._wants(name):
                yield Found(status.modified_ms * 1_000_000, f"{self.directory.url}/{name}", status.size_bytes)

    def reads(self, path: str) -> bool:
        return would_find(_plain_scheme(self.directory.url), self._patterns, _plain_scheme(path), self._config)

    def _enters(self, directory: str) -> bool:
        depth = directory.count("/")
        name = directory.rpartition("/")[2]
        return matches(name, self._patterns, depth) if depth < len(self._patterns) else is_entered(name, self._config)

    def _wants(self, path: str) -> bool:
        depth = path.count("/")
        name = path.rpartition("/")[2]
        if is_hidden(name):
            return False
        return depth >= len(self._patterns) or (
            depth == len(self._patterns) - 1 and matches(name, self._patterns, depth)
        )


def _plain_scheme(url: str) -> str:
    scheme, mark, place = url.partition("://")
    return f"{_ALIASES.get(scheme.lower(), scheme.lower())}{mark}{place}"


def _as_listed(root_url: str, file: LoggedFile) -> str:
    """The writer may have come by another scheme for the same store."""
    named, root = urlsplit(file.path), root_url.partition("://")[2]
    path = f"{named.netloc}{unquote(named.path)}"
    if not path.startswith(root + "/"):
        raise InvalidQuery(
            f"{LOG_DIRECTORY} in {root_url} names {file.path}, which lies elsewhere",
            hint="read the directory by the name under which it was written, or move the log away and read it without",
        )
    return f"{root_url}/{path.removeprefix(root + '/')}"
