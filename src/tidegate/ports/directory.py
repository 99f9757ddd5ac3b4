"""What a sink of files needs from the directory it writes to, and a source from one that is not on this machine.

Implemented in ``connectors/files`` for a local disk and in ``storage/`` for object stores and HDFS.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import IO, NamedTuple, Protocol, TypeAlias


class FileStatus(NamedTuple):
    size_bytes: int
    modified_ms: int
    """Since 1970."""


class Draft(Protocol):
    """A file that is being written. Nobody sees anything of it before it is kept or published, which happens once."""

    @property
    def file(self) -> IO[bytes]:
        """To write into. It stays open: the draft closes it."""
        ...

    def keep(self) -> int:
        """Everything written lies under the draft's name from now on, for good once ``settle`` was called. Returns its size in bytes."""
        ...

    def publish(self, final: str) -> None:
        """Instead of ``keep``: the file appears under the name ``final``, whole."""
        ...

    def discard(self) -> None:
        """Instead of ``keep``: it is not wanted. Does what it can: what stays behind is swept like the drafts of a dead process."""
        ...


class OutputDirectory(Protocol):
    """All that the sink does to its directory. Names are relative to it, with slashes; the directories in them come with the files.

    FileNotFoundError is an answer. Everything else that goes wrong is a TidegateError that says what, or an OSError for the
    caller to explain. Threads may share it.
    """

    @property
    def requests_at_once(self) -> int:
        """How many calls to make at the same time; 1: nothing is gained by more."""
        ...

    @property
    def file_bytes_max(self) -> int:
        """A larger file cannot be published; 0: no limit."""
        ...

    @property
    def url(self) -> str:
        """Where it lies, as the user and Hadoop call it, with nothing escaped: ``file:///data/out``, ``s3a://bucket/out``."""
        ...

    def make(self) -> None:
        """The directory is there, and keeps what the other calls promise. Asked once, by the driver, before anything is written."""
        ...

    def draft(self, name: str) -> Draft:
        """Begins a file under a name that nobody else writes to."""
        ...

    def publish(self, staged: str, final: str, size_bytes: int) -> None:
        """What was kept as ``staged`` appears as ``final``, whole. May be repeated; ``staged`` may stay, or be gone.

        FileNotFoundError: it is not there.
        """
        ...

    def settle(self, names: Iterable[str]) -> None:
        """What was kept, published or created under these names survives a loss of power from now on."""
        ...

    def create(self, name: str, data: bytes) -> bool:
        """Of any number of callers exactly one gets True: its data lies under the name, whole and settled."""
        ...

    def read(self, name: str) -> bytes:
        """FileNotFoundError: it is not there."""
        ...

    def status(self, name: str) -> FileStatus | None:
        """None: it is not there."""
        ...

    def delete(self, name: str) -> None:
        """One that is not there is fine."""
        ...

    def begin(self, directory: str) -> None:
        """``has`` is true of it from now on, for good."""
        ...

    def has(self, directory: str) -> bool: ...

    def names(self, directory: str) -> list[str]:
        """Of the files in it, without those further down. Shows every call that had returned; nothing if there is no such directory."""
        ...

    def files(self) -> Iterator[str]:
        """All files, at any depth, in no order, found as they are asked for."""
        ...


class LocalCopy(Protocol):
    """A file of a store that is being brought to this machine."""

    @property
    def status(self) -> FileStatus | None:
        """Of the file in the store, once all of it is here; None: not yet. FileNotFoundError: it is not in the store (any more).
        Everything else that went wrong is a TidegateError."""
        ...

    @property
    def path(self) -> str:
        """Where it lies, once it is here. The last part is the name that it has in the store."""
        ...

    def discard(self) -> None:
        """It is not wanted any more, arrived or not."""
        ...


class RemoteDirectory(OutputDirectory, Protocol):
    """A directory in a store: sinks write to it, and sources read from it."""

    def check(self) -> None:
        """Raises InvalidQuery if it cannot be listed as things are. Asked once, before anything is read."""
        ...

    def found(self, enters: Callable[[str], bool]) -> Iterator[tuple[str, FileStatus]]:
        """Files at any depth, in no order, found as they are asked for. ``enters``: whether to look into a directory, by its name
        relative to this one; the directories above it come first."""
        ...

    def read_range(self, name: str, start: int, stop: int) -> bytes:
        """Bytes ``start`` to ``stop`` of a file that has at least ``stop`` of them. FileNotFoundError: it is not there."""
        ...

    def fetch(self, name: str) -> LocalCopy:
        """Begins to bring a file here, without waiting for anything."""
        ...


OpenDirectory: TypeAlias = Callable[[str], RemoteDirectory]
"""From a URL to the directory there. Asks nobody; raises InvalidQuery for one that names no store."""
