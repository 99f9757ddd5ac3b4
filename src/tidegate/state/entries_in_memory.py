"""Entries in Python dictionaries: user code asks for one at a time, and nothing answers that sooner."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from sys import getsizeof
from weakref import ref

from tidegate.state.entries import Entry

_ENTRY_BYTES = 2 * getsizeof(b"") + 16
"""What an entry takes beside its own bytes, about."""


class EntriesInMemory:
    """An ``EntryBackend``."""

    def __init__(self) -> None:
        self._points: dict[bytes, bytes] = {}
        """Entries with the empty sub-key."""
        self._cells: dict[bytes, dict[bytes, bytes]] = {}
        self._rows = 0
        self._bytes = 0
        self._frozen: ref[_Frozen] | None = None
        """Lives as long as somebody draws from it."""

    @property
    def rows(self) -> int:
        return self._rows

    @property
    def size_bytes(self) -> int:
        return self._bytes + self._rows * _ENTRY_BYTES

    def get(self, cell: bytes, sub: bytes) -> bytes | None:
        if not sub:
            return self._points.get(cell)
        within = self._cells.get(cell)
        return None if within is None else within.get(sub)

    def put(self, cell: bytes, sub: bytes, value: bytes) -> None:
        self._rescue(cell)
        if sub:
            within = self._cells.get(cell)
            if within is None:
                within = self._cells[cell] = {}
            old = within.get(sub)
            within[sub] = value
        else:
            old = self._points.get(cell)
            self._points[cell] = value
        if old is None:
            self._rows += 1
            self._bytes += len(cell) + len(sub) + len(value)
        else:
            self._bytes += len(value) - len(old)

    def put_many(self, entries: Sequence[Entry]) -> None:
        for cell, sub, value in entries:
            self.put(cell, sub, value)

    def delete(self, cell: bytes, sub: bytes) -> None:
        self._rescue(cell)
        if sub:
            within = self._cells[cell]
            old = within.pop(sub)
            if not within:
                del self._cells[cell]
        else:
            old = self._points.pop(cell)
        self._rows -= 1
        self._bytes -= len(cell) + len(sub) + len(old)

    def items(self, cell: bytes) -> list[tuple[bytes, bytes]]:
        return sorted(self._cells.get(cell, {}).items())

    def frozen(self) -> Iterator[Entry]:
        frozen = _Frozen(self._points, self._cells)
        self._frozen = ref(frozen)
        return frozen.drawn()

    def close(self) -> None:
        self._frozen = None
        self._points, self._cells = {}, {}

    def _rescue(self, cell: bytes) -> None:
        frozen = None if self._frozen is None else self._frozen()
        if frozen is not None:
            frozen.rescue(cell)


class _Frozen:
    """Cells as they were; one that is about to change and has not been drawn yet is copied first."""

    def __init__(self, points: dict[bytes, bytes], cells: dict[bytes, dict[bytes, bytes]]) -> None:
        self._points = dict(points)  # Values never change: sharing them is enough.
        self._cells = cells
        self._left = dict.fromkeys(cells)
        self._rescued: list[tuple[bytes, dict[bytes, bytes]]] = []

    def rescue(self, cell: bytes) -> None:
        if cell in self._left:
            del self._left[cell]
            self._rescued.append((cell, dict(self._cells[cell])))

    def drawn(self) -> Iterator[Entry]:
        while self._points:
            cell, value = self._points.popitem()
            yield cell, b"", value
        while self._left or self._rescued:
            if self._rescued:
                cell, within = self._rescued.pop()
            else:
                cell, _ = self._left.popitem()
                within = dict(self._cells[cell])
            for sub, value in within.items():
                yield cell, sub, value
