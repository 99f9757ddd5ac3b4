"""Files of a store on their way to this machine: whoever wants to read one goes on meanwhile."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from tidegate.model.os_errors import explain
from tidegate.ports.directory import FileStatus
from tidegate.storage.scratch import scratch_directory

FILES_AT_ONCE = 2
"""Of one directory. The second is on its way while the first is read."""


class Fetched(NamedTuple):
    """A file as it was when the store was asked for it."""

    status: FileStatus
    pieces: Generator[bytes]
    """All of it, in order, as it is asked for."""


class FetchedCopy:
    """A ``LocalCopy``: fetched by a thread of its own when it is its turn, and gone with ``discard`` or with Spark's directory."""

    def __init__(self, name: str, fetch: Callable[[], Fetched], turns: threading.Semaphore) -> None:
        self._name = PurePosixPath(name).name
        self._fetch = fetch
        self._turns = turns
        self._lock = threading.Lock()
        self._discarded = False
        self._directory: str | None = None
        self._outcome: FileStatus | Exception | None = None
        threading.Thread(target=self._run, name="tidegate-fetch", daemon=True).start()

    @property
    def status(self) -> FileStatus | None:
        if isinstance(self._outcome, Exception):
            raise self._outcome
        return self._outcome

    @property
    def path(self) -> str:
        assert self._directory is not None, "it has not arrived"
        return f"{self._directory}/{self._name}"

    def discard(self) -> None:
        with self._lock:
            self._discarded = True
            arrived = self._outcome is not None
        if arrived:
            self._remove()

    def _run(self) -> None:
        with self._turns:
            try:
                outcome: FileStatus | Exception | None = None if self._discarded else self._arrive()
            except Exception as failure:  # noqa: BLE001  whoever reads the file hears of it
                outcome = failure
        with self._lock:
            self._outcome = outcome
            discarded = self._discarded
        if discarded:
            self._remove()

    def _arrive(self) -> FileStatus | None:
        """None: nobody wants it any more."""
        fetched = self._fetch()
        with closing(fetched.pieces):
            with _explained():
                self._directory = tempfile.mkdtemp(prefix="tidegate-file-", dir=scratch_directory())
                file = Path(self.path).open("wb")  # noqa: SIM115 - closed below
            with file:
                for piece in fetched.pieces:
                    if self._discarded:
                        return None
                    with _explained():
                        file.write(piece)
                with _explained():
                    file.flush()
        os.utime(self.path, ns=(0, fetched.status.modified_ms * 1_000_000))
        return fetched.status

    def _remove(self) -> None:
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)


@contextmanager
def _explained() -> Iterator[None]:
    """What goes wrong here goes wrong on this machine's disk: it says nothing about the file in the store."""
    try:
        yield
    except OSError as failure:
        raise explain(failure, "copy source files to", scratch_directory()) from failure
