"""The content of compressed record batches. Arrow brings the codecs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from tidegate.connectors.kafka.protocol.codec import SPARE_BYTES, MalformedAnswer

Array = np.ndarray[Any, Any]

CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
"""As users name them, and as the attributes of a batch do."""
_NONE, _GZIP, _SNAPPY, _LZ4, _ZSTD = range(5)
_STREAMS = {_GZIP: "gzip", _LZ4: "lz4", _ZSTD: "zstd"}
_XERIAL, _XERIAL_HEAD_BYTES = b"\x82SNAPPY\0", 16
"""Java's clients cut what they compress by Snappy into blocks, each with its length before it."""
_LZ4_HEAD = bytes.fromhex("04224d186040" + "82")
"""Magic; blocks that stand for themselves, which Java's readers insist on (Arrow's frames have others); 64 KiB each; checksum."""
_LZ4_BLOCK_BYTES = 64 * 1024
_LZ4_AS_IT_IS = 1 << 31
_LZ4_END = bytes(4)


@dataclass(frozen=True, slots=True)
class Compression:
    """How batches are written."""

    codec: int = _NONE
    level: int | None = None
    """None: what the codec takes by itself."""

    def compressed(self, content: pa.Buffer) -> pa.Buffer:
        """As Kafka's consumers read it."""
        match self.codec:
            case 0:
                return content
            case 2:
                return pa.compress(content, codec="snappy")
            case 3:
                return _lz4_frame(content, self.level)
            case _:
                return pa.Codec(_STREAMS[self.codec], self.level).compress(content)


UNCOMPRESSED = Compression()


def decompressed(codec: int, content: memoryview) -> Array:
    """With ``SPARE_BYTES`` to spare at its end."""
    try:
        if codec in _STREAMS:
            whole = pa.CompressedInputStream(pa.BufferReader(pa.py_buffer(content)), _STREAMS[codec]).read()
        elif codec == _SNAPPY:
            whole = _unsnapped(content)
        else:
            raise MalformedAnswer(f"messages are compressed by a codec {codec}, which is not known")
    except (OSError, pa.ArrowInvalid) as error:
        raise MalformedAnswer(f"messages cannot be decompressed: {error}") from error
    return np.concatenate((np.frombuffer(whole, np.uint8), np.zeros(SPARE_BYTES, np.uint8)))


def _lz4_frame(content: pa.Buffer, level: int | None) -> pa.Buffer:
    codec = pa.Codec("lz4_raw", level)
    parts = [_LZ4_HEAD]
    for at in range(0, content.size, _LZ4_BLOCK_BYTES):
        block = content.slice(at, min(_LZ4_BLOCK_BYTES, content.size - at))
        packed: bytes = codec.compress(block, asbytes=True)
        if len(packed) < block.size:
            parts += [len(packed).to_bytes(4, "little"), packed]
        else:
            parts += [(block.size | _LZ4_AS_IT_IS).to_bytes(4, "little"), block.to_pybytes()]
    return pa.py_buffer(b"".join((*parts, _LZ4_END)))


def _unsnapped(content: memoryview) -> bytes:
    if content[: len(_XERIAL)] != _XERIAL:
        return _block(content)
    blocks: list[bytes] = []
    at = _XERIAL_HEAD_BYTES
    while at < len(content):
        size = int.from_bytes(content[at : at + 4], "big")
        blocks.append(_block(content[at + 4 : at + 4 + size]))
        at += 4 + size
    return b"".join(blocks)


def _block(content: memoryview) -> bytes:
    """It begins with the number of bytes that it becomes."""
    size = shift = 0
    for byte in content[:5]:
        size |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            break
    return pa.decompress(pa.py_buffer(content), decompressed_size=size, codec="snappy", asbytes=True)
