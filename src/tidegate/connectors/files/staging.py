"""Names of output files before and after their commit, and the document that ties them together.

::

    <path>/_tidegate/staged/<pipeline>/<sink>/<attempt>-<subtask>-<n>.parquet                 durable, not visible
    <path>/[k=v/…]part-<checkpoint>-<subtask>-<attempt>-<n>-<pipeline>-<sink>.snappy.parquet  committed
    <path>/[k=v/…]part-<checkpoint>-merged-<attempt>-<n>-<pipeline>-<sink>.snappy.parquet     committed, of several subtasks

Spark and every other reader of such directories skip names that begin with an underscore.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePosixPath

import msgspec

from tidegate.connectors.legacy import Sink
from tidegate.connectors.ownership import pipeline_of, safe
from tidegate.model.ids import Attempt, CheckpointId, SlotIndex
from tidegate.operators.values import decoded

STAGED = "_tidegate/staged"
MERGED = "merged"
"""Stands in names where the number of the subtask would."""
_STAGED_NAME = re.compile(r"(\d{6,})-(\d{5,}|merged)-(\d{6,})\.[a-z0-9.]+")
PUBLISHED_NAME = re.compile(r"part-(?P<checkpoint>\d{6,})-(?:\d{5,}|merged)-(?P<attempt>\d{6,})-\d{6,}-")
"""How the names of committed files begin, whichever pipeline wrote them."""


class StagedFile(msgspec.Struct, frozen=True, kw_only=True):
    """Both names are relative to the output path."""

    staged: str
    final: str
    rows: int
    size_bytes: int = 0
    join_bytes: int = 0
    """Small: published together with other small files of its checkpoint and directory, up to this size; 0: on its own."""


class FilesToCommit(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="files/1"):
    """What one subtask prepared for one checkpoint."""

    files: tuple[StagedFile, ...]

    def __post_init__(self) -> None:
        for name in (part for file in self.files for part in (file.staged, file.final)):
            if name.startswith("/") or ".." in PurePosixPath(name).parts:
                raise ValueError(f"{name!r} leaves the output directory")


@dataclass(frozen=True, slots=True)
class StagingNames:
    """All names of one sink of one pipeline. Nobody else's names can equal them."""

    pipeline: str
    sink: str

    @classmethod
    def of(cls, sink: Sink) -> StagingNames:
        return cls(safe(pipeline_of(sink)), safe(sink.id))

    @property
    def directory(self) -> str:
        return f"{STAGED}/{self.pipeline}/{self.sink}"

    def staged(self, attempt: Attempt, subtask: SlotIndex, number: int, extension: str) -> str:
        return f"{self.directory}/{attempt:06d}-{subtask:05d}-{number:06d}.{extension}"

    def final(
        self,
        partition: str,
        checkpoint: CheckpointId,
        attempt: Attempt,
        subtask: SlotIndex,
        number: int,
        extension: str,
    ) -> str:
        """Deterministic and unique. Sorts by checkpoint, so a listing shows the order of commits."""
        return _within(partition, self._final(checkpoint, f"{subtask:05d}", attempt, number, extension))

    def merged(self, first: StagedFile, checkpoint: CheckpointId, attempt: Attempt, number: int) -> str:
        """The final name of file ``number`` among those made of several small ones; ``first`` is one of its parts."""
        partition, _, name = first.final.rpartition("/")
        _, _, extension = name.partition(".")
        return _within(partition, self._final(checkpoint, MERGED, attempt, number, extension))

    def merging(self, attempt: Attempt, number: int, random: str) -> str:
        """Where such a file is written before it is whole. Nobody else writes there, and a later attempt sweeps what is left."""
        return f"{self.directory}/{attempt:06d}-{MERGED}-{number:06d}.{random}"

    def _final(self, checkpoint: CheckpointId, writer: str, attempt: Attempt, number: int, extension: str) -> str:
        return f"part-{checkpoint:06d}-{writer}-{attempt:06d}-{number:06d}-{self.pipeline}-{self.sink}.{extension}"


def _within(partition: str, name: str) -> str:
    return f"{partition}/{name}" if partition else name


def attempt_of(staged_name: str) -> Attempt | None:
    """Which attempt staged the file called so; None for a name that is not ours."""
    found = _STAGED_NAME.fullmatch(staged_name)
    return Attempt(int(found[1])) if found else None


def decode(payload: bytes) -> FilesToCommit:
    return decoded(payload, FilesToCommit, "a committable of the files sink")
