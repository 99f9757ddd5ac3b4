"""A directory whose ``_spark_metadata`` log says what is in it."""

from __future__ import annotations

from collections.abc import Callable

from tidegate.connectors.files.found import Found, unlisted
from tidegate.connectors.files.spark_log import LoggedFile, SparkLog
from tidegate.model.os_errors import explain
from tidegate.ports.directory import OutputDirectory


class LoggedFiles:
    """The files that the log names, in the order in which they were committed.

    ``as_listed``: the path under which a listing would find the file. One file has one name, however it was found.
    """

    def __init__(self, directory: OutputDirectory, as_listed: Callable[[LoggedFile], str]) -> None:
        self._directory = directory
        self._log = SparkLog(directory)
        self._as_listed = as_listed
        self._seen = -1

    @property
    def exists(self) -> bool:
        try:
            return self._log.exists
        except OSError as error:
            raise unlisted(self._directory, error) from error

    def names(self) -> frozenset[str]:
        """Every file that the log names; none if there is no log."""
        if not self.exists:
            return frozenset()
        try:
            return frozenset(map(self._as_listed, self._log.read().files))
        except OSError as error:
            raise explain(error, "read", self._log) from error

    def new_files(self) -> list[Found]:
        """Those logged since the last call, and perhaps more."""
        try:
            logged = self._log.read(self._seen)
        except OSError as error:
            raise explain(error, "read", self._log) from error
        self._seen = logged.latest
        return [
            Found(file.modification_time * 1_000_000, self._as_listed(file), file.size)
            for file in logged.files
            if file.size
        ]


def logged_or_listed(log: LoggedFiles | None, listed: Callable[[], list[Found]]) -> list[Found]:
    """What a directory holds: what its log names, if it has one, else what is there."""
    if log is None:
        return listed()
    if not log.exists:
        found = listed()
        # Asked again: a sink begins its log before its first file, so a file seen without a log belongs to none.
        if not log.exists:
            return found
    return log.new_files()
