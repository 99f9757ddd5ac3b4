"""Questions to a Kafka cluster: which partitions there are and where they begin and end. Every answer or one typed error, in time."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from concurrent.futures import Future, wait
from dataclasses import dataclass
from typing import Any, TypeVar

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin import OffsetSpec as _OffsetSpec  # pyright: ignore[reportPrivateImportUsage]

from tidegate.connectors.kafka.client import Complaints, typed, unusable
from tidegate.connectors.kafka.config import KafkaSourceConfig
from tidegate.connectors.kafka.selection import Pattern, Place

ANSWER_TIMEOUT_S = 10.0
CONNECT_TIMEOUT_S = 3.0
"""For an answer while no broker can be connected to."""
LOG_END_SECONDS = 2.0
"""For an answer that will be asked for again."""
LEADERS_AGE_MS = 1_000
"""Who leads a partition is asked again then. The client asks old leaders until somebody makes it look for new ones."""
_LOOK_S = 0.05
_NO_ID = "A"
"""All that the id of a topic has in it, in base 64, if the broker knows of none."""

A = TypeVar("A")
OffsetSpec: Any = _OffsetSpec
"""Typed as if every kind of it could be missing."""

_ADMIN_HAS_NOT = ("group.id", "isolation.level")
_CONSUMER_PREFIXES = ("fetch.", "queued.", "max.p", "session.", "heartbeat.", "check.crcs", "auto.commit", "allow.auto")


@dataclass(frozen=True, slots=True)
class Topic:
    name: str
    id: str
    """Empty: the broker does not say."""
    partitions: tuple[int, ...]

    @property
    def places(self) -> tuple[Place, ...]:
        return tuple((self.name, partition) for partition in self.partitions)


class Cluster:
    """One connection, made at the first question. Used by one thread at a time."""

    def __init__(self, config: KafkaSourceConfig) -> None:
        self._config = config
        self._complaints = Complaints(config.what)
        level = IsolationLevel.READ_COMMITTED if config.committed_only else IsolationLevel.READ_UNCOMMITTED
        self._isolation = level
        own: dict[str, Any] = {
            name: value
            for name, value in config.client.items()
            if name not in _ADMIN_HAS_NOT and not name.startswith(_CONSUMER_PREFIXES)
        }
        own["metadata.max.age.ms"] = LEADERS_AGE_MS
        own["error_cb"] = self._complaints
        try:
            self._admin = AdminClient(own)
        except KafkaException as error:
            raise unusable(error, config.what) from error

    def topics(self, names: Iterable[str]) -> dict[str, Topic]:
        """Those of the topics that exist."""
        wanted = sorted(set(names))
        if not wanted:
            return {}
        asked = self._admin.describe_topics(TopicCollection(wanted), request_timeout=ANSWER_TIMEOUT_S)
        found: dict[str, Topic] = {}
        for name, future in asked.items():
            described: Any = self._answer(future, missing=True)
            if described is not None:
                identity = str(described.topic_id or "").strip(_NO_ID) and str(described.topic_id)
                found[name] = Topic(name, identity, tuple(sorted(one.id for one in described.partitions)))
        return found

    def matching(self, pattern: Pattern) -> tuple[str, ...]:
        """Names of all topics that match, Kafka's own ones left out."""
        listed = self._patiently(lambda left_s: self._admin.list_topics(timeout=left_s))
        return tuple(sorted(name for name in listed.topics if not name.startswith("__") and pattern.matches(name)))

    def earliest(self, places: Iterable[Place]) -> dict[Place, int]:
        return self._offsets({place: OffsetSpec.earliest() for place in places})

    def latest(self, places: Iterable[Place]) -> dict[Place, int]:
        """Where each partition ends now, as far as it may be read: before the first open transaction, if only committed rows are."""
        return self._offsets({place: OffsetSpec.latest() for place in places})

    def at(self, moments_ms: Mapping[Place, int]) -> dict[Place, int | None]:
        """First offset at or after the moment; None: no record is as late."""
        found = self._offsets({place: OffsetSpec.for_timestamp(at_ms) for place, at_ms in moments_ms.items()})
        return {place: offset if offset >= 0 else None for place, offset in found.items()}

    def ask_latest(self, places: Iterable[Place]) -> dict[Place, Future[Any]]:
        """As ``latest``, without waiting."""
        return self._ask({place: OffsetSpec.latest() for place in places}, self._isolation)

    def ask_log_ends(self, places: Iterable[Place]) -> dict[Place, Future[Any]]:
        """As ``ask_latest``, but behind records of open transactions. A broker that leads since a moment ago, and does not know yet
        how much of the log is there, refuses to answer."""
        edges = {place: OffsetSpec.latest() for place in places}
        return self._ask(edges, IsolationLevel.READ_UNCOMMITTED, LOG_END_SECONDS)

    def ask_topics(self, names: Iterable[str]) -> dict[str, Future[Any]]:
        """As ``topics``, without waiting."""
        return self._admin.describe_topics(TopicCollection(sorted(names)), request_timeout=LOG_END_SECONDS)

    def _offsets(self, wanted: Mapping[Place, Any]) -> dict[Place, int]:
        asked = self._ask(wanted, self._isolation) if wanted else {}
        answers: dict[Place, Any] = {place: self._answer(future) for place, future in asked.items()}
        return {place: int(answer.offset) for place, answer in answers.items()}

    def _ask(
        self, wanted: Mapping[Place, Any], level: Any, seconds: float = ANSWER_TIMEOUT_S
    ) -> dict[Place, Future[Any]]:
        request = {TopicPartition(*place): spec for place, spec in wanted.items()}
        asked = self._admin.list_offsets(request, isolation_level=level, request_timeout=seconds)
        return {(one.topic, one.partition): future for one, future in asked.items()}

    def _answer(self, future: Future[A], *, missing: bool = False) -> A | None:
        """Waits, listening to what the client complains about: a refused login is not waited out. ``missing``: None if unknown."""
        began = time.monotonic()
        while not wait((future,), _LOOK_S).done:
            self._admin.poll(0)
            if self._is_hopeless(time.monotonic() - began):
                raise self._typed(KafkaError(KafkaError._TIMED_OUT))
        failure = future.exception()
        if failure is None:
            self._complaints.recovered()
            return future.result()
        if not isinstance(failure, KafkaException):
            raise failure
        error: KafkaError = failure.args[0]
        if missing and error.code() in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.TOPIC_EXCEPTION):
            return None
        raise self._typed(error) from failure

    def _patiently(self, ask: Any) -> Any:
        """A question without a future, asked in short pieces for the same reason."""
        began = time.monotonic()
        while True:
            try:
                answer = ask(1.0)
            except KafkaException as failure:
                self._admin.poll(0)
                if self._is_hopeless(time.monotonic() - began):
                    raise self._typed(failure.args[0]) from failure
            else:
                self._complaints.recovered()
                return answer

    def _is_hopeless(self, waited_s: float) -> bool:
        limit_s = CONNECT_TIMEOUT_S if self._complaints.unreachable else ANSWER_TIMEOUT_S
        return self._complaints.refused is not None or waited_s > limit_s

    def _typed(self, error: KafkaError) -> Exception:
        return typed(error, self._complaints, self._config.servers, self._config.what)
