"""Whether the queries of a storm get on: how much of their input is done, and how long they had to wait for a checkpoint."""

from __future__ import annotations

from collections import Counter, deque
from math import inf

from storm_processes import Status

WINDOW_S = 30.0


class Pace:
    """Fed with what drivers say of themselves. Times are seconds since the storm began."""

    def __init__(self) -> None:
        self.events = 0
        """The most that the watermark has ever passed: a restart goes back behind it, and that is no progress."""
        self.harmed = 0
        """How often somebody was harmed since the newest checkpoint; counted by whoever does it."""
        self._began_s: dict[str, float] = {}
        self._seen: deque[tuple[float, int]] = deque([(0.0, 0)])
        self._checkpoints: Counter[str] = Counter()
        self._newest_s = 0.0
        self._longest_s = 0.0

    def began_s(self, driver: str) -> float:
        """When it was first seen with a checkpoint of its own for every query."""
        return self._began_s.get(driver, inf)

    def see(self, now_s: float, driver: str, status: Status) -> None:
        if status.progressing:
            self._began_s.setdefault(driver, now_s)
        self.events = max(self.events, status.events)
        self._seen.append((now_s, self.events))
        while self._seen[0][0] < now_s - WINDOW_S:
            self._seen.popleft()
        self._longest_s = max(self._longest_s, now_s - self._newest_s)
        if any(newest > self._checkpoints[name] for name, newest in status.checkpoints.items()):
            self._checkpoints |= Counter(status.checkpoints)
            self._newest_s, self.harmed = now_s, 0

    def lately(self) -> str:
        (then_s, then), (now_s, now) = self._seen[0], self._seen[-1]
        per_s = (now - then) / max(now_s - then_s, 1.0)
        return f"{self.events:,} events done, {per_s:,.0f} per s in the last {now_s - then_s:.0f} s"

    def __str__(self) -> str:
        return f"at most {self._longest_s:.0f} s without a checkpoint"
