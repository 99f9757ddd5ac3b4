"""Data files on their way into the table: the document of a committable."""

from __future__ import annotations

import msgspec

from tidegate.operators.values import decoded


class DeltaFile(msgspec.Struct, frozen=True, kw_only=True):
    """A data file, complete and durable, with all that the table's log wants to know about it."""

    path: str
    """Relative to the table."""
    note: str
    size_bytes: int
    modified_ms: int
    rows: int
    partition: dict[str, str | None]
    statistics: str
    """JSON, as it stands in the log."""


class DeltaFilesToCommit(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="delta/1"):
    """What one subtask prepared for one checkpoint."""

    files: tuple[DeltaFile, ...]


def decode(payload: bytes) -> DeltaFilesToCommit:
    return decoded(payload, DeltaFilesToCommit, "a committable of the delta sink")
