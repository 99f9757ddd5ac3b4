"""Who has the work: a job in one thread whose slots are timed one by one, as if each had a core of its own."""

from __future__ import annotations

import time
from collections import defaultdict

from tidegate.model.ids import SlotIndex
from tidegate.testing.slots import SlotHarness


class TimedHarness(SlotHarness):
    """``busy_s``: CPU time of the turns of each slot. With a core per slot a job takes at least as long as its busiest one."""

    busy_s: dict[SlotIndex, float]

    def _turn(self, slot: SlotIndex) -> None:
        if not hasattr(self, "busy_s"):
            self.busy_s = defaultdict(float)
        began_s = time.thread_time()
        super()._turn(slot)
        self.busy_s[slot] += time.thread_time() - began_s
