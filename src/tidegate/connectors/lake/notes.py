"""Notes about data files that the table does not know yet: how files that nobody will ever commit are found again.

::

    <table>/_tidegate/staged/<pipeline>/<sink>/<attempt>-<subtask>-<n>    a note: the location of one data file
    <table>/…/part-<attempt>-<subtask>-<n>-<random>-<pipeline>-<sink>.snappy.parquet    the data file, under its last name

A reader of the table goes by the table's log, so a data file is invisible until a commit names it, and never moves. The note is
written before its file and taken away after the commit. So of the files of an attempt that has ended, those that still have a
note and that no checkpoint carries are garbage. Files without a note are never touched: they belong to the table.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from uuid import uuid4

from tidegate.connectors.lake.storage import TableStorage
from tidegate.connectors.ownership import safe
from tidegate.model.ids import Attempt, SlotIndex
from tidegate.ports.context import SinkContext

DIRECTORY = "_tidegate/staged"
"""Spark, Delta's VACUUM and Iceberg's clean-up skip names that begin with an underscore."""

_NOTE = re.compile(r"(\d{6,})-(\d{5,})-(\d{6,})")


@dataclass(frozen=True, slots=True)
class SinkName:
    """One sink of one pipeline. Nobody else's names can equal its."""

    pipeline: str
    sink: str

    @classmethod
    def of(cls, context: SinkContext) -> SinkName:
        return cls(safe(context.pipeline), safe(context.operator))


def attempt_of(note: str) -> Attempt | None:
    """Which attempt wrote the file that the note is about; None for a note that is not ours."""
    found = _NOTE.fullmatch(note)
    return Attempt(int(found[1])) if found else None


class StagingNotes:
    """All notes of one sink of one pipeline."""

    def __init__(self, storage: TableStorage, root: str, name: SinkName) -> None:
        """``root``: location of the table; empty: locations are relative to it."""
        self._storage = storage
        within = f"{DIRECTORY}/{name.pipeline}/{name.sink}"
        self._directory = f"{root.rstrip('/')}/{within}" if root else within

    def write(self, note: str, location: str) -> None:
        self._storage.put(self._at(note), location.encode())

    def remove(self, notes: tuple[str, ...]) -> None:
        """Twice is fine."""
        self._storage.delete([self._at(note) for note in notes])

    def older_than(self, attempt: Attempt, keep: frozenset[str]) -> dict[str, str]:
        """Notes that attempts before ``attempt`` left, except those in ``keep``: the location of the file by note."""
        found = [
            note
            for note in self._storage.names(self._directory)
            if (its := attempt_of(note)) is not None and its < attempt and note not in keep
        ]
        return {note: self._storage.read(self._at(note)).decode() for note in found}

    def _at(self, note: str) -> str:
        return f"{self._directory}/{note}"


class FileNames:
    """Names of the files that one writer makes. Random in part: not even a second copy of the writer meets them."""

    def __init__(self, name: SinkName, attempt: Attempt, subtask: SlotIndex, extension: str) -> None:
        self._prefix = f"{attempt:06d}-{subtask:05d}"
        self._suffix = f"{uuid4().hex[:8]}-{name.pipeline}-{name.sink}.{extension}"
        self._next = 0

    def take(self) -> tuple[str, str]:
        """The next note and the next file name."""
        note = f"{self._prefix}-{self._next:06d}"
        self._next += 1
        return note, f"part-{note}-{self._suffix}"


def file_name(location: str) -> str:
    """By which a file is known whatever escapes and schemes its location is written with: no two files of ours share one."""
    return location.rpartition("/")[2]
