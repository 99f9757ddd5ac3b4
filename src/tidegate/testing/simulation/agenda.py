"""Simulated time: things happen at moments, in an order that only the seed decides."""

from __future__ import annotations

import hashlib
import heapq
import random
from collections.abc import Callable

Action = Callable[[], None]


class Agenda:
    """The world's clock, its to-do list and its only source of chance. One seed, one history."""

    def __init__(self, seed: int, *, keep_trace: bool = False) -> None:
        self.random = random.Random(seed)
        self.now_ms = 0
        self._order = 0
        self._due: list[tuple[int, int, Action]] = []
        self._digest = hashlib.blake2b(digest_size=16)
        self._trace: list[str] | None = [] if keep_trace else None
        self.steps = 0

    def after(self, delay_ms: int, action: Action) -> None:
        self._order += 1
        heapq.heappush(self._due, (self.now_ms + max(delay_ms, 0), self._order, action))

    def soon(self, low_ms: int, high_ms: int, action: Action) -> None:
        """At a random moment between the two delays."""
        self.after(self.random.randint(low_ms, high_ms), action)

    def run_next(self) -> bool:
        """Performs the next action; False when nothing is left to do."""
        if not self._due:
            return False
        self.now_ms, _, action = heapq.heappop(self._due)
        self.steps += 1
        action()
        return True

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def note(self, who: str, what: str) -> None:
        """One line of history. Two runs of one seed must write the same lines."""
        line = f"{self.now_ms:>7} {who:<14} {what}"
        self._digest.update(line.encode())
        if self._trace is not None:
            self._trace.append(line)

    @property
    def digest(self) -> str:
        return self._digest.hexdigest()

    @property
    def trace(self) -> tuple[str, ...]:
        return tuple(self._trace or ())
