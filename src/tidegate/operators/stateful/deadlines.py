"""What falls due at a time: timers, and entries that expire. Kept in memory whatever the backend, and made anew from the entries at a restore."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heapify, heappop, heappush

from tidegate.state.entries import Address


class Deadlines:
    """Addresses by time, in milliseconds. Nothing is taken out: whoever takes a due one asks the state whether it still holds."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, Address]] = []

    @property
    def next_ms(self) -> float:
        return self._heap[0][0] if self._heap else float("inf")

    def add(self, at_ms: int, address: Address) -> None:
        heappush(self._heap, (at_ms, address))

    def load(self, all_of_them: list[tuple[int, Address]]) -> None:
        """Replaces everything."""
        self._heap = all_of_them
        heapify(self._heap)

    def due(self, until_ms: int) -> Iterator[tuple[int, Address]]:
        """Takes what falls due at ``until_ms`` or before, by time, then by address. What is added meanwhile and due waits for the next call."""
        taken: list[tuple[int, Address]] = []
        while self._heap and self._heap[0][0] <= until_ms:
            entry = heappop(self._heap)
            if not taken or taken[-1] != entry:
                taken.append(entry)
        return iter(taken)
