"""Types of Kafka's protocol, the "flexible" encoding: lengths are varints, and structures end with tagged fields."""

from __future__ import annotations

import struct


class MalformedAnswer(Exception):
    """The bytes are not what the protocol says: not a Kafka broker, or one that speaks another version."""


def int8(value: int) -> bytes:
    return struct.pack(">b", value)


def int16(value: int) -> bytes:
    return struct.pack(">h", value)


def int32(value: int) -> bytes:
    return struct.pack(">i", value)


def int64(value: int) -> bytes:
    return struct.pack(">q", value)


def boolean(value: bool) -> bytes:
    return b"\x01" if value else b"\x00"


def varint(value: int) -> bytes:
    """Unsigned."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def signed_varint(value: int) -> bytes:
    """Zigzag: small numbers of either sign are short."""
    return varint(value << 1 if value >= 0 else (-value << 1) - 1)


def string(value: str) -> bytes:
    data = value.encode()
    return varint(len(data) + 1) + data


def array(items: tuple[bytes, ...]) -> bytes:
    return varint(len(items) + 1) + b"".join(items)


def plain_string(value: str) -> bytes:
    """As in requests older than the flexible ones, and in every request's header."""
    data = value.encode()
    return int16(len(data)) + data


def plain_bytes(value: bytes) -> bytes:
    return int32(len(value)) + value


NO_TAGS = b"\x00"
NULL_ARRAY = b"\x00"


Bytes = bytes | memoryview

SPARE_BYTES = 16
"""Zeros behind an answer: a reader of whole words may read the last one, too."""


class Reader:
    """Takes values off the front of an answer."""

    def __init__(self, data: Bytes) -> None:
        self.data = data
        self._at = 0

    def take(self, count: int) -> Bytes:
        start, end = self.skip(count)
        return self.data[start:end]

    def skip(self, count: int) -> tuple[int, int]:
        """Where those are, and where the next ones."""
        start, end = self._at, self._at + count
        if count < 0 or end > len(self.data):
            raise MalformedAnswer(f"{count} bytes wanted at {start} of {len(self.data)}")
        self._at = end
        return start, end

    def int8(self) -> int:
        return struct.unpack(">b", self.take(1))[0]

    def int16(self) -> int:
        return struct.unpack(">h", self.take(2))[0]

    def int32(self) -> int:
        return struct.unpack(">i", self.take(4))[0]

    def int64(self) -> int:
        return struct.unpack(">q", self.take(8))[0]

    def varint(self) -> int:
        value = shift = 0
        while True:
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            shift += 7
            if not byte & 0x80:
                return value

    def string(self) -> str | None:
        length = self.varint() - 1
        return None if length < 0 else self._text(length)

    def text(self) -> str:
        """A string that cannot be null."""
        return self.string() or ""

    def length(self) -> int:
        """How many items an array has; a null one counts as empty."""
        return max(0, self.varint() - 1)

    def plain_string(self) -> str | None:
        length = self.int16()
        return None if length < 0 else self._text(length)

    def plain_bytes(self) -> bytes:
        return bytes(self.take(max(0, self.int32())))

    def plain_length(self) -> int:
        return max(0, self.int32())

    def skip_tags(self) -> None:
        self.tags()

    def tags(self) -> frozenset[int]:
        """Which tagged fields there are."""
        found: set[int] = set()
        for _ in range(self.varint()):
            found.add(self.varint())
            self.skip(self.varint())
        return frozenset(found)

    def _text(self, length: int) -> str:
        try:
            return str(self.take(length), "utf-8")
        except UnicodeDecodeError as error:
            raise MalformedAnswer(str(error)) from error
