"""Chunks as bytes: a small header, then an Arrow IPC stream. Decoding builds columns and can run no code.

======  =====  ==========================================================
offset  bytes  meaning (little endian)
======  =====  ==========================================================
0       4      ``TGCK``
4       2      format version
6       2      reserved, 0
8       4      CRC-32 of the body
12      8      length of the body
20      …      body: Arrow IPC stream, short integers; LZ4 if there are columns of variable width
======  =====  ==========================================================
"""

from __future__ import annotations

import struct
import zlib

import msgspec
import polars as pl
import pyarrow as pa

from tidegate.model.errors import CorruptSnapshot
from tidegate.state.encoded import Encoded, Piece
from tidegate.state.shrinking import Shrunk, expand, shrink

VERSION = 2
_MAGIC = b"TGCK"
_HEADER = struct.Struct("<4sHHIQ")
_PLAIN = pa.ipc.IpcWriteOptions()
_COMPRESSED = pa.ipc.IpcWriteOptions(compression="lz4")
_SHRUNK = b"tidegate.shrunk"
_RECORD_ROWS = 1 << 20


def encode_chunk(rows: pl.DataFrame) -> bytes:
    """``encode`` in one piece."""
    return encode(rows).joined()


def encode(rows: pl.DataFrame) -> Encoded:
    """Columns of fixed width are referred to, not copied."""
    short, shrunk = shrink(rows)
    table = short.to_arrow(compat_level=pl.CompatLevel.oldest())
    if shrunk:
        table = table.replace_schema_metadata({_SHRUNK: msgspec.json.encode(shrunk)})
    fixed = all(pa.types.is_primitive(field.type) for field in table.schema)
    sink = _Pieces()
    with pa.ipc.new_stream(
        pa.PythonFile(sink, mode="w"), table.schema, options=_PLAIN if fixed else _COMPRESSED
    ) as writer:
        writer.write_table(table, max_chunksize=_RECORD_ROWS)
    body = Encoded.of(*sink.pieces)
    return body.after(_HEADER.pack(_MAGIC, VERSION, 0, body.checksum, body.size_bytes))


class _Pieces:
    """A file for Arrow, which hands over its buffers as they are."""

    closed = False

    def __init__(self) -> None:
        self.pieces: list[Piece] = []
        self._size_bytes = 0

    def write(self, data: bytes | pa.Buffer) -> int:
        piece = data if isinstance(data, bytes) else memoryview(data).cast("B")
        self.pieces.append(piece)
        self._size_bytes += len(piece)
        return len(piece)

    def tell(self) -> int:
        return self._size_bytes

    def flush(self) -> None:
        """All is written already."""


def decode_chunk(data: bytes, name: str) -> pl.DataFrame:
    """The rows that were encoded, types included. ``name`` is for the message when ``data`` is not a whole chunk of ours."""
    if len(data) < _HEADER.size or data[:4] != _MAGIC:
        raise _corrupt(name, f"it does not begin like a state chunk ({len(data)} bytes)")
    _, version, _, checksum, length = _HEADER.unpack_from(data)
    if version > VERSION:
        raise CorruptSnapshot(
            f"state chunk {name} has format {version}; this version of Tidegate reads up to {VERSION}",
            hint="start the query with the Tidegate version that wrote the checkpoint, or a newer one",
        )
    body = memoryview(data)[_HEADER.size :]
    if len(body) != length:
        raise _corrupt(name, f"its body has {len(body)} bytes instead of {length}")
    if zlib.crc32(body) != checksum:
        raise _corrupt(name, "its checksum does not match")
    try:
        with pa.ipc.open_stream(pa.py_buffer(body)) as reader:
            table = reader.read_all()
        table.validate()
    except (pa.ArrowException, OSError) as error:
        raise _corrupt(name, f"its body is not Arrow data: {error}") from error
    if b"ARROW:extension" in table.schema.serialize().to_pybytes():
        # We write none, and what an extension type does on arrival is not ours to say.
        raise _corrupt(name, "it holds extension types")
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)
    try:
        shrunk = msgspec.json.decode((table.schema.metadata or {}).get(_SHRUNK, b"{}"), type=Shrunk)
        return expand(frame, shrunk)
    except (msgspec.MsgspecError, pl.exceptions.PolarsError, KeyError) as error:
        raise _corrupt(name, f"its integers cannot be restored: {error}") from error


def _corrupt(name: str, what: str) -> CorruptSnapshot:
    return CorruptSnapshot(
        f"state chunk {name} is damaged: {what}",
        hint="restore an older checkpoint, knowing that output committed since then may repeat",
    )
