"""Asks brokers where logs end of which nothing comes. The client library does not say whether it still gets answers for a partition:
it speaks of an end once, and then no more."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from functools import partial
from typing import Any, Protocol

from confluent_kafka import KafkaError, KafkaException

from tidegate.connectors.kafka.feeds import NO_LOG, Feed, LogEnd
from tidegate.connectors.kafka.partition_leaders import APPEAR_SECONDS
from tidegate.connectors.kafka.selection import Place

ASK_SECONDS = 1.0
_WELL_KNOWN = {
    KafkaError.LEADER_NOT_AVAILABLE: "no leader",
    KafkaError._NOENT: "no leader",
    KafkaError._TIMED_OUT: "no answer",
}


class Questions(Protocol):
    """Of which none waits for its answer."""

    def ask_log_ends(self, places: Iterable[Place]) -> Mapping[Place, Future[Any]]: ...

    def ask_topics(self, names: Iterable[str]) -> Mapping[str, Future[Any]]: ...


class LogEnds:
    """For the slot's thread; answers come in one of the client's."""

    def __init__(self, cluster: Callable[[], Questions], *, without_lost_topics: bool) -> None:
        """``without_lost_topics``: those that do not exist any more have nothing to read."""
        self._cluster = cluster
        self._without_lost_topics = without_lost_topics
        self._quiet: dict[Place, Feed] = {}
        self._asked: set[Place] = set()
        """Without an answer yet."""
        self._missing: dict[str, tuple[float, float]] = {}
        """Topics of which brokers say that they do not exist: since when, and when they said so last."""
        self._asks_s = 0.0

    def nothing_of(self, feed: Feed) -> None:
        """There was nothing to hand out."""
        self._quiet[feed.place] = feed
        now_s = time.monotonic()
        if now_s < self._asks_s:
            return
        self._asks_s = now_s + ASK_SECONDS
        quiet, self._quiet = self._quiet, {}
        asked = [one for one in quiet.values() if one.place not in self._asked]
        # A question is answered when all of it is: a partition that nobody leads would keep the others waiting.
        alone = [[one] for one in asked if one.trouble]
        for some in ([one for one in asked if not one.trouble], *alone):
            self._ask_about(some)
        # To a question about its end the client says of a lost topic what it says of one without leaders.
        if self._without_lost_topics:
            self._ask_whether_there_is({one.place[0] for one in asked if one.trouble})

    def _ask_about(self, feeds: list[Feed]) -> None:
        if not feeds:
            return
        futures = self._cluster().ask_log_ends([one.place for one in feeds])
        self._asked.update(futures)
        for feed in feeds:
            futures[feed.place].add_done_callback(partial(self._answered, feed))

    def _answered(self, feed: Feed, future: Future[Any]) -> None:
        failure = future.exception()
        since_s, last_s = self._missing.get(feed.place[0], (0.0, 0.0))
        if failure is None:
            feed.log_end, feed.trouble = LogEnd(int(future.result().offset), time.monotonic()), ""
        elif last_s - since_s >= APPEAR_SECONDS:
            feed.log_end, feed.trouble = LogEnd(NO_LOG, last_s), ""
        else:
            feed.trouble = _text_of(failure)
        self._asked.discard(feed.place)

    def _ask_whether_there_is(self, topics: set[str]) -> None:
        if topics:
            for topic, future in self._cluster().ask_topics(topics).items():
                future.add_done_callback(partial(self._described, topic))

    def _described(self, topic: str, future: Future[Any]) -> None:
        failure, now_s = future.exception(), time.monotonic()
        if isinstance(failure, KafkaException) and failure.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            self._missing[topic] = self._missing.get(topic, (now_s, now_s))[0], now_s
        else:
            self._missing.pop(topic, None)


def _text_of(failure: BaseException) -> str:
    error = failure.args[0] if failure.args else failure
    if not isinstance(error, KafkaError):
        return str(failure)
    return _WELL_KNOWN.get(error.code()) or error.str()
