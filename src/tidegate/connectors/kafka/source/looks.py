"""Looks at where partitions end now, in the background: what a reader is asked for while it goes on reading."""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor

from tidegate.connectors.kafka.client.pauses import Pauses
from tidegate.connectors.kafka.config import KafkaSourceConfig
from tidegate.connectors.kafka.source.cluster import Cluster
from tidegate.connectors.kafka.source.selection import Place
from tidegate.model.errors import Unavailable

PATIENCE_SECONDS = 2.0
"""For an answer that will be asked for again."""


class Looks:
    """One thread. Partitions that were named while it was busy are asked for together."""

    def __init__(self, config: KafkaSourceConfig) -> None:
        self._cluster = Cluster(config, PATIENCE_SECONDS)
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="tidegate-kafka-looks")
        self._lock = threading.Lock()
        self._pauses = Pauses()
        self._named: list[tuple[Place, Future[int]]] = []

    def end_of(self, place: Place) -> Future[int]:
        """Does not wait. Fails if nobody answers."""
        asked: Future[int] = Future()
        with self._lock:
            self._named.append((place, asked))
        self._executor.submit(self._look)
        return asked

    def close(self) -> None:
        """Does not wait for brokers that are gone."""
        self._cluster.stop.set()
        self._executor.submit(self._cluster.close)
        self._executor.shutdown(wait=False)

    def _look(self) -> None:
        with self._lock:
            named, self._named = self._named, []
        if not named:
            return
        try:
            found, trouble = self._cluster.latest_now({place for place, _ in named})
        except Exception as error:  # noqa: BLE001  the readers that asked hear of it
            found, trouble = {}, error
        for place, asked in named:
            if place in found:
                asked.set_result(found[place])
        if trouble is None:
            self._pauses.begin_again()
        else:
            self._cluster.stop.wait(self._pauses.next_s())  # Readers ask again at once.
        for place, asked in named:
            if place not in found:
                asked.set_exception(trouble or Unavailable(f"nobody says where {place[0]}-{place[1]} ends"))
