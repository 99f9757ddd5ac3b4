"""What the file source stores: splits, positions and the enumerator's memory. Documents of this package alone, versioned by tag."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import NamedTuple, TypeVar

import msgspec

from tidegate.eventtime.batches import Limits
from tidegate.operators.values import Natural, decoded

SEGMENT_SIZE = 1_024
"""Files per sealed segment: a segment is compressed once, so a snapshot costs what is new, not what is known."""


class FileSplit(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="file/1", omit_defaults=True):
    """One whole file. ``size_bytes`` tells a file that was rewritten under us from the one that was discovered."""

    path: str
    size_bytes: Natural
    event_time: str = ""
    """The column that ``earliest_us`` is about: a query that has changed may ask for another."""
    earliest_us: int | None = None
    """No row has an earlier time there, by the file's own word."""
    cut: bool = False
    """A batch of ``maxFilesPerTrigger`` or ``maxBytesPerTrigger`` begins with it."""

    def earliest_in(self, column: str) -> int | None:
        return self.earliest_us if column == self.event_time else None


class SourceFile(NamedTuple):
    """A discovered file on a disk of this machine."""

    path: str
    """Where it is read."""
    name: str
    """What people know it by: the same path, or a URL if this is a copy."""


class ParquetPosition(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="parquet/1"):
    """The next row: ``row`` of row group ``group``."""

    group: Natural = 0
    row: Natural = 0


class LinePosition(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="line/1"):
    """The next line starts at byte ``offset`` (of the decompressed text); ``row`` lines came before it."""

    offset: Natural = 0
    row: Natural = 0


class KnownFiles(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="known-files/1"):
    """All files discovered, in the order of their split numbers: compressed segments, then the newest ones."""

    segments: tuple[bytes, ...] = ()
    newest: tuple[FileSplit, ...] = ()
    limits: Limits | None = None
    """They have cut the batches; None: nobody has noted it."""


def seal(files: Sequence[FileSplit]) -> bytes:
    return zlib.compress(msgspec.msgpack.encode(files), level=1)


def unseal(segment: bytes) -> list[FileSplit]:
    """Raises msgspec's errors, or zlib's, for anything but what ``seal`` made."""
    return msgspec.msgpack.decode(zlib.decompress(segment), type=list[FileSplit])


def decode_split(payload: bytes) -> FileSplit:
    return decoded(payload, FileSplit, "a split of the file source")


Position = TypeVar("Position", ParquetPosition, LinePosition)


def decode_position(position: bytes, kind: type[Position]) -> Position:
    return decoded(position, kind, "a position of the file source")
