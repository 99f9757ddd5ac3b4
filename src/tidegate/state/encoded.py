"""A chunk on its way to a store: bytes that lie in several places of memory and are not brought together without need."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

Piece: TypeAlias = bytes | memoryview
"""A view has items of one byte, and nobody changes what it shows."""

_POLYNOMIAL = 0xEDB88320


@dataclass(frozen=True, slots=True)
class Encoded:
    """One object, in pieces that may refer to the rows they were made of: the pieces keep those alive."""

    pieces: tuple[Piece, ...]
    size_bytes: int
    checksum: int
    """CRC-32 of all bytes."""

    @staticmethod
    def of(*pieces: Piece) -> Encoded:
        checksum = 0
        for piece in pieces:
            checksum = zlib.crc32(piece, checksum)
        return Encoded(pieces, sum(map(len, pieces)), checksum)

    def after(self, header: bytes) -> Encoded:
        """This object with ``header`` before it. The bytes are not read again."""
        checksum = combined(zlib.crc32(header), self.checksum, self.size_bytes)
        return Encoded((header, *self.pieces), len(header) + self.size_bytes, checksum)

    def joined(self) -> bytes:
        return b"".join(self.pieces)

    def parts(self, part_bytes: int) -> Iterator[bytes]:
        """The same bytes in parts of this size, the last one shorter. A copy of each is made when it is asked for."""
        waiting: list[Piece] = []
        missing_bytes = part_bytes
        for piece in self.pieces:
            start = 0
            while len(piece) - start >= missing_bytes:
                waiting.append(memoryview(piece)[start : start + missing_bytes])
                start += missing_bytes
                yield b"".join(waiting)
                waiting, missing_bytes = [], part_bytes
            waiting.append(memoryview(piece)[start:])
            missing_bytes -= len(piece) - start
        if missing_bytes < part_bytes:
            yield b"".join(waiting)


def combined(first: int, second: int, second_bytes: int) -> int:
    """CRC-32 of two texts in a row, from their own: the first is multiplied by x^(8n) modulo the polynomial, as zlib does it."""
    factor, square = 1 << 31, 1 << 23  # The highest bit is x^0: one, and x^8.
    while second_bytes:
        if second_bytes & 1:
            factor = _product(factor, square)
        square = _product(square, square)
        second_bytes >>= 1
    return _product(factor, first) ^ second


def _product(a: int, b: int) -> int:
    """Of two polynomials over one bit, modulo that of CRC-32."""
    product = 0
    for place in range(31, -1, -1):
        if a >> place & 1:
            product ^= b
        b = b >> 1 ^ (_POLYNOMIAL if b & 1 else 0)
    return product
