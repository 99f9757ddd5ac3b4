"""Which broker leads which partition, as far as a reader needs to know: one that is not known now will be."""

from __future__ import annotations

import time

from tidegate.connectors.kafka.client.brokers import Brokers
from tidegate.connectors.kafka.client.pauses import Pauses
from tidegate.connectors.kafka.protocol.errors import Code
from tidegate.connectors.kafka.protocol.metadata import Partition
from tidegate.connectors.kafka.protocol.requests import Address

PAUSE_SECONDS_MAX = 0.5
APPEAR_SECONDS = 10.0
"""A broker that has just begun may not know of a topic for a while."""


class PartitionLeaders:
    """For one thread."""

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers
        self._known: dict[Partition, Address] = {}
        self._leaderless: set[Partition] = set()
        self._missing: dict[str, tuple[float, float]] = {}
        """Topics of which brokers say that they do not exist: since when, and when they said so last."""
        self._wanted: set[str] = set()
        """Topics to ask about."""
        self._looks_s = 0.0
        self._pauses = Pauses(PAUSE_SECONDS_MAX)

    def of(self, place: Partition) -> Address | None:
        leader = self._known.get(place)
        if leader is None:
            self._wanted.add(place[0])
        return leader

    def why_none(self, place: Partition) -> str:
        """Why nobody leads it, as the cluster said last; empty: it has not said so."""
        if place[0] in self._missing:
            return "no such topic"
        return "no leader" if place in self._leaderless else ""

    def gone_s(self, topic: str) -> float | None:
        """When brokers last said that the topic does not exist, if they say so for long."""
        since_s, last_s = self._missing.get(topic, (0.0, 0.0))
        return last_s if last_s - since_s >= APPEAR_SECONDS else None

    def doubt(self, place: Partition) -> None:
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
        heard_s = time.monotonic()
        for name, topic in found.items():
            if topic.error == Code.UNKNOWN_TOPIC_OR_PARTITION:
                self._missing[name] = self._missing.get(name, (heard_s, heard_s))[0], heard_s
            else:
                self._missing.pop(name, None)
            places = {(name, n): leader for n, leader in topic.leaders.items()}
            self._leaderless -= places.keys()
            self._leaderless |= {place for place, leader in places.items() if leader is None}
            self._known |= {place: leader for place, leader in places.items() if leader is not None}
        self._looks_s = heard_s + self._pauses.next_s()
        self._pauses.begin_again()
