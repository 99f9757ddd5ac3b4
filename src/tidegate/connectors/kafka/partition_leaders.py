"""Which broker leads which partition, as far as a reader needs to know: one that is not known now will be."""

from __future__ import annotations

import time

from tidegate.connectors.kafka.selection import Place
from tidegate.connectors.kafka.wire.brokers import Brokers
from tidegate.connectors.kafka.wire.pauses import Pauses
from tidegate.connectors.kafka.wire.requests import Address

PAUSE_SECONDS_MAX = 0.5


class PartitionLeaders:
    """For one thread."""

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers
        self._known: dict[Place, Address] = {}
        self._wanted: set[str] = set()
        """Topics to ask about."""
        self._looks_s = 0.0
        self._pauses = Pauses(PAUSE_SECONDS_MAX)

    def of(self, place: Place) -> Address | None:
        leader = self._known.get(place)
        if leader is None:
            self._wanted.add(place[0])
        return leader

    def doubt(self, place: Place) -> None:
        """It may be another one by now."""
        self._known.pop(place, None)
        self._wanted.add(place[0])

    @property
    def looks_s(self) -> float | None:
        """When ``look`` has something to do."""
        return self._looks_s if self._wanted else None

    def look(self, now_s: float) -> None:
        """Asks the cluster, if there is a reason and not too often. Raises Unavailable when it does not answer."""
        if not self._wanted or now_s < self._looks_s:
            return
        self._looks_s = now_s + self._pauses.next_s()
        wanted, self._wanted = self._wanted, set()
        try:
            found = self._brokers.topics(sorted(wanted))
        except BaseException:
            self._wanted |= wanted
            raise
        for name, topic in found.items():
            self._known |= {(name, n): leader for n, leader in topic.leaders.items() if leader is not None}
        self._looks_s = time.monotonic() + self._pauses.next_s()
        self._pauses.begin_again()
