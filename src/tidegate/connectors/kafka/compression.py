"""The content of compressed record batches. Arrow brings the codecs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from tidegate.connectors.kafka.wire.codec import MalformedAnswer
from tidegate.connectors.kafka.wire.pipeline import SPARE_BYTES

Array = np.ndarray[Any, Any]

_STREAMS = {1: "gzip", 3: "lz4", 4: "zstd"}
_SNAPPY = 2
_XERIAL, _XERIAL_HEAD_BYTES = b"\x82SNAPPY\0", 16
"""Java's clients cut what they compress by Snappy into blocks, each with its length before it."""


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
