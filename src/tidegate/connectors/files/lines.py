"""Whole lines of a text file, block by block, without looking at what they say."""

from __future__ import annotations

import bz2
import gzip
import io
import os
from pathlib import Path
from typing import IO, cast

import numpy as np

BLOCK_BYTES = 1024 * 1024
"""Read at once: about 10,000 rows, some 10 ms to parse."""

_BOM = b"\xef\xbb\xbf"


class LineBlocks:
    """Hands out whole lines. ``offset`` is the byte where the next line starts; files ending in .gz or .bz2 are decompressed."""

    def __init__(self, path: str, offset: int) -> None:
        self._file = opened(path)
        self._file.seek(offset)
        self.offset = offset
        self._buffer = b""
        self._ended = False

    @property
    def starts_behind_end(self) -> bool:
        """There is no such byte, nor an end there. Asked before anything is taken."""
        size = os.fstat(self._file.fileno()).st_size if isinstance(self._file, io.FileIO) else self._file.tell()
        return self.offset > size

    def take(self, lines_max: int) -> bytes | None:
        """At most ``lines_max`` lines, each with its line end (the last one may lack it); None at the end of the file."""
        at_start = self.offset == 0
        cut = self._cut(lines_max)
        if cut == 0:
            return None
        block, self._buffer = self._buffer[:cut], self._buffer[cut:]
        self.offset += cut
        return block.removeprefix(_BOM) if at_start else block

    @property
    def finished(self) -> bool:
        if not self._buffer and not self._ended:
            self._fill()
        return self._ended and not self._buffer

    def close(self) -> None:
        self._file.close()

    def _cut(self, lines_max: int) -> int:
        """Where the block to hand out ends. Never in the middle of a line, so a very long line is one block."""
        while not self._ended and b"\n" not in self._buffer:
            self._fill()
        ends = np.flatnonzero(np.frombuffer(self._buffer, dtype=np.uint8) == ord("\n"))
        if len(ends) >= lines_max:
            return int(ends[lines_max - 1]) + 1
        if self._ended:
            return len(self._buffer)
        return int(ends[-1]) + 1

    def _fill(self) -> None:
        more = self._file.read(BLOCK_BYTES)
        self._ended = not more
        self._buffer += more


def to_newlines(block: bytes) -> bytes:
    """Every line end that Hadoop knows (``\\n``, ``\\r\\n``, ``\\r``) as ``\\n``, and one at the end."""
    if b"\r" in block:
        block = block.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    return block if block.endswith(b"\n") else block + b"\n"


def opened(path: str) -> IO[bytes]:
    match Path(path).suffix:
        case ".gz":
            return cast(IO[bytes], gzip.open(path, "rb"))
        case ".bz2":
            return cast(IO[bytes], bz2.open(path, "rb"))
        case _:
            return io.FileIO(path, "rb")
