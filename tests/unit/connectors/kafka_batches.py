"""Record batches byte by byte, as any producer may have written them."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Sequence
from dataclasses import dataclass

import google_crc32c
import numpy as np
import pyarrow as pa

from tidegate.connectors.kafka.protocol.codec import SPARE_BYTES, signed_varint
from tidegate.connectors.kafka.protocol.fetching import Aborted
from tidegate.connectors.kafka.protocol.unpacking import Received

Message = tuple[bytes | None, bytes | None]
CREATED_MS = 1_700_000_000_000
TRANSACTIONAL, CONTROL, APPEND_TIME = 0x10, 0x20, 0x08
COMMIT_MARKER = (b"\0\0\0\1", b"\0\0\0\0\0\0")


@dataclass(frozen=True)
class Batch:
    """As a producer writes it, byte by byte."""

    messages: Sequence[Message]
    first_offset: int = 0
    attributes: int = 0
    producer: int = -1
    deltas: Sequence[int] | None = None
    """Of offsets, where compaction has left gaps."""
    headers: bytes = b"\0"
    """Their number and content, behind each message."""
    record_attributes: bytes = b"\0"
    magic: int = 2
    epoch: int = 3

    def encode(self) -> bytes:
        content = b"".join(self._record(n) for n in range(len(self.messages)))
        match self.attributes & 7:
            case 1:
                content = gzip.compress(content)
            case 3:
                content = _stream(content, "lz4")
            case 4:
                content = _stream(content, "zstd")
            case 2:
                content = pa.compress(content, codec="snappy", asbytes=True)
            case _:
                pass
        checked = (
            struct.pack(">hiqqqhii", self.attributes, self._deltas[-1] if self._deltas else 0, CREATED_MS, CREATED_MS + 9, self.producer, 0, 0, len(self.messages))
            + content
        )  # fmt: skip
        crc = google_crc32c.value(checked)
        head = struct.pack(">qiibI", self.first_offset, 9 + len(checked), self.epoch, self.magic, crc)
        return head + checked

    @property
    def _deltas(self) -> Sequence[int]:
        return self.deltas if self.deltas is not None else range(len(self.messages))

    def _record(self, number: int) -> bytes:
        key, value = self.messages[number]
        body = self.record_attributes + signed_varint(number) + signed_varint(self._deltas[number])
        for one in (key, value):
            body += signed_varint(-1) if one is None else signed_varint(len(one)) + one
        body += self.headers
        return signed_varint(len(body)) + body


def _stream(content: bytes, codec: str) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, codec) as stream:
        stream.write(content)
    return sink.getvalue().to_pybytes()


def received(*batches: Batch, offset: int = 0, aborted: tuple[Aborted, ...] = ()) -> Received:
    data = b"".join(batch.encode() for batch in batches)
    return Received(np.frombuffer(bytearray(data + bytes(SPARE_BYTES)), np.uint8), offset, aborted)
