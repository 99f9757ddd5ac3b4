"""Where the partitions of topics lie. Asked for again when somebody was sent to the wrong broker, and from time to time."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping

from tidegate.connectors.kafka.client.pauses import Pauses
from tidegate.connectors.kafka.client.refusals import explained, topic_gone
from tidegate.connectors.kafka.client.transactions import Transactions
from tidegate.connectors.kafka.protocol.errors import NOT_TAKEN, Code
from tidegate.connectors.kafka.protocol.metadata import Partition
from tidegate.connectors.kafka.protocol.requests import Address
from tidegate.model.errors import TidegateError

PAUSE_SECONDS_MAX = 0.5
REFRESH_SECONDS = 300.0
"""New partitions are noticed by then."""
APPEAR_SECONDS = 10.0
"""So long a topic that does not exist may still be on its way from one broker to the other."""


class Leaders:
    """``look`` is called by the sender alone; what is known may be asked by anyone."""

    def __init__(
        self, wire: Transactions, where: str, changed: threading.Condition, *, creates_topics: bool = False
    ) -> None:
        """``changed`` is notified when something new is known."""
        self._wire = wire
        self._where = where
        self._changed = changed
        self._creates_topics = creates_topics
        self._known: dict[str, Mapping[int, Address | None]] = {}
        self._doubted: dict[str, None] = {}
        self._missing_since_s: dict[str, float] = {}
        self._gone: dict[str, TidegateError] = {}
        self._looks_s = 0.0
        self._pauses = Pauses(PAUSE_SECONDS_MAX)
        self._looked_s = time.monotonic()

    def of(self, place: Partition) -> Address | None:
        """Raises for a topic that cannot be written to."""
        topic, partition = place
        if topic in self._gone:
            raise self._gone[topic]
        leader = self._known.get(topic, {}).get(partition)
        if leader is None:
            self.doubt((topic,))
        return leader

    def partitions(self, topic: str) -> Mapping[int, Address | None] | None:
        """By number; None: not known yet. Raises for a topic that cannot be written to."""
        with self._changed:
            if topic in self._gone:
                raise self._gone[topic]
            return self._known.get(topic)

    def doubt(self, topics: Iterable[str]) -> None:
        """What is known about them may be wrong."""
        with self._changed:
            self._doubted |= dict.fromkeys(topics)

    def doubts(self, topic: str) -> bool:
        with self._changed:
            return topic in self._doubted

    @property
    def looks_s(self) -> float | None:
        """When ``look`` has something to do."""
        return self._looks_s if self._doubted else None

    def look(self) -> None:
        """Asks the cluster, if there is a reason and not too often."""
        now_s = time.monotonic()
        if now_s > self._looked_s + REFRESH_SECONDS:
            self.doubt(self._known)
        with self._changed:
            doubted = tuple(self._doubted)
        if not doubted or now_s < self._looks_s:
            return
        self._looks_s = now_s + self._pauses.next_s()
        self._looked_s = now_s
        found = self._wire.topics(doubted, create=self._creates_topics)
        with self._changed:
            for name, topic in found.items():
                if topic.error and topic.error not in NOT_TAKEN:
                    self._gone[name] = explained(topic.error, self._where, name)
                elif topic.error or not topic.leaders:
                    self._miss(name, now_s)
                else:
                    self._missing_since_s.pop(name, None)
                    self._known[name] = topic.leaders
                    self._doubted.pop(name, None)
            if not self._doubted:
                self._pauses.begin_again()
            self._changed.notify_all()

    def _miss(self, name: str, now_s: float) -> None:
        since_s = self._missing_since_s.setdefault(name, now_s)
        if now_s < since_s + APPEAR_SECONDS:
            return
        if name in self._known:
            self._gone[name] = topic_gone(self._where, name)
        else:
            self._gone[name] = explained(Code.UNKNOWN_TOPIC_OR_PARTITION, self._where, name)
        self._doubted.pop(name, None)
