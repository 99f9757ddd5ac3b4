"""The rows of a batch on their way to the user's function: pieces of an Arrow stream, small ones inside the committable itself."""

from __future__ import annotations

import io
import zlib

import msgspec
import polars as pl

from tidegate.model.errors import CorruptSnapshot
from tidegate.model.ids import Attempt
from tidegate.operators.values import decoded


class BatchPart(msgspec.Struct, frozen=True, kw_only=True):
    """Rows of one subtask. ``key``: the object that holds them; ``data``: they themselves, then there is no object."""

    key: str = ""
    data: bytes | None = None
    rows: int
    size_bytes: int
    checksum: int
    """CRC-32 of the encoded bytes."""


class PartsOfBatch(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="batch/1"):
    """What one subtask prepared for one checkpoint, in the order in which it was written."""

    attempt: Attempt
    parts: tuple[BatchPart, ...]


def decode(payload: bytes) -> PartsOfBatch:
    return decoded(payload, PartsOfBatch, "a committable of foreachBatch")


def encode_rows(rows: pl.DataFrame) -> bytes:
    stream = io.BytesIO()
    rows.write_ipc_stream(stream, compression="lz4")
    return stream.getvalue()


def decode_rows(part: BatchPart, data: bytes) -> pl.DataFrame:
    """Raises CorruptSnapshot unless ``data`` is what was written."""
    if len(data) != part.size_bytes or zlib.crc32(data) != part.checksum:
        raise CorruptSnapshot(
            f"{part.key or 'a part of a batch'} is damaged: its checksum does not match its content",
            hint="restore the file from a copy of the checkpoint location",
        )
    try:
        return pl.read_ipc_stream(io.BytesIO(data))
    except (pl.exceptions.PolarsError, OSError) as error:
        raise CorruptSnapshot(
            f"{part.key or 'a part of a batch'} is damaged: it holds no rows: {error}",
            hint="restore the file from a copy of the checkpoint location",
        ) from error
