"""Questions to a Kafka cluster: which partitions there are and where they begin and end. Every answer or one typed error, in time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from tidegate.connectors.kafka.client.brokers import Brokers
from tidegate.connectors.kafka.client.connection import NotAdmitted
from tidegate.connectors.kafka.config import KafkaSourceConfig
from tidegate.connectors.kafka.protocol import fetching, metadata
from tidegate.connectors.kafka.protocol.errors import NOT_ALLOWED, NOT_TAKEN, Code, Refused
from tidegate.connectors.kafka.protocol.fetching import EARLIEST, LATEST, offsets
from tidegate.connectors.kafka.protocol.requests import Address
from tidegate.connectors.kafka.source.selection import Pattern, Place
from tidegate.model.errors import InvalidQuery, TidegateError, Unavailable

ANSWER_TIMEOUT_S = 10.0
CONNECT_TIMEOUT_S = 3.0
"""For an answer while no broker can be connected to."""
_MISSING = frozenset({Code.UNKNOWN_TOPIC_OR_PARTITION, Code.INVALID_TOPIC})
_INTERNAL = "__"
"""What the names of Kafka's own topics begin with."""

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Topic:
    name: str
    id: str
    """Empty: the broker does not say."""
    partitions: tuple[int, ...]

    @property
    def places(self) -> tuple[Place, ...]:
        return tuple((self.name, partition) for partition in self.partitions)


class Cluster(Brokers):
    """Connects at the first question. Used by one thread at a time."""

    retriable = NOT_TAKEN | {Code.OFFSET_NOT_AVAILABLE}
    unauthorized = NOT_ALLOWED

    def __init__(self, config: KafkaSourceConfig, patience_s: float = ANSWER_TIMEOUT_S) -> None:
        super().__init__(config.client, patience_s, connect_patience_s=CONNECT_TIMEOUT_S)
        self._config = config
        self._metadata_version: int | None = None
        """None: the brokers have not been asked what they know."""

    def described(self, names: Iterable[str]) -> dict[str, Topic]:
        """Those of the topics that exist."""
        wanted = sorted(set(names))
        if not wanted:
            return {}
        return self._existing(wanted)

    def matching(self, pattern: Pattern) -> tuple[str, ...]:
        """Names of all topics that match, Kafka's own ones left out."""
        everything = self._existing(None)
        return tuple(sorted(name for name in everything if not name.startswith(_INTERNAL) and pattern.matches(name)))

    def earliest(self, places: Iterable[Place]) -> dict[Place, int]:
        return self._offsets(dict.fromkeys(places, EARLIEST))

    def latest(self, places: Iterable[Place]) -> dict[Place, int]:
        """Where each partition ends now, as far as it may be read: before the first open transaction, if only committed rows are."""
        return self._offsets(dict.fromkeys(places, LATEST))

    def at(self, moments_ms: Mapping[Place, int]) -> dict[Place, int | None]:
        """First offset at or after the moment; None: no record is as late."""
        found = self._offsets(moments_ms)
        return {place: offset if offset >= 0 else None for place, offset in found.items()}

    def latest_now(self, places: Iterable[Place]) -> tuple[dict[Place, int], Exception | None]:
        """As ``latest``, asked once: what is known, and why something is not."""
        self._check_versions()
        return self._ask_leaders(dict.fromkeys(places, LATEST))

    def _existing(self, names: list[str] | None) -> dict[str, Topic]:
        version = self._check_versions()
        asked = metadata.metadata(names, version)
        found: dict[str, Topic] = {}
        for name, topic in self._patiently("its topics", lambda: self._described(asked)).topics.items():
            if topic.error in NOT_ALLOWED:
                raise self._forbidden(Refused(topic.error, f"topic {name}"))
            if topic.error not in _MISSING:
                found[name] = Topic(name, topic.id, tuple(sorted(topic.leaders)))
        return found

    def _check_versions(self) -> int:
        """The version of Metadata to ask in. Raises InvalidQuery for brokers that are too old to be read from."""
        if self._metadata_version is None:
            self.require(
                (*metadata.USED, *fetching.USED), hint=f"the {self._config.what} reads from Kafka 2.7 or later"
            )
            without_ids = self.unknown((("Metadata", metadata.METADATA, metadata.WITH_IDS),))
            self._metadata_version = metadata.WITHOUT_IDS if without_ids else metadata.WITH_IDS
        return self._metadata_version

    def _offsets(self, moments: Mapping[Place, int]) -> dict[Place, int]:
        if not moments:
            return {}
        self._check_versions()
        found: dict[Place, int] = {}

        def once() -> dict[Place, int]:
            more, trouble = self._ask_leaders({place: at for place, at in moments.items() if place not in found})
            found.update(more)
            if trouble is not None:
                raise trouble
            return found

        return self._patiently("the offsets of partitions", once)

    def _ask_leaders(self, moments: Mapping[Place, int]) -> tuple[dict[Place, int], Exception | None]:
        """What the leaders answer, and why one of them does not."""
        known = self._described(metadata.metadata(sorted({topic for topic, _ in moments}))).topics
        groups: dict[Address, dict[Place, int]] = {}
        found: dict[Place, int] = {}
        trouble: Exception | None = None
        for (topic, number), moment in moments.items():
            leader = known[topic].leaders.get(number)
            if leader is None:
                trouble = Refused(known[topic].error or Code.LEADER_NOT_AVAILABLE, f"{topic}-{number}")
            else:
                groups.setdefault(leader, {})[topic, number] = moment
        for leader, some in groups.items():
            try:
                answers = self._ask(leader, offsets(some, committed_only=self._config.committed_only))
            except OSError as error:
                trouble = error
                continue
            for place, (code, offset) in answers.items():
                if code:
                    trouble = Refused(code, f"{place[0]}-{place[1]}")
                else:
                    found[place] = offset
        return found, trouble

    def _patiently(self, what: str, once: Callable[[], Result]) -> Result:
        try:
            return super()._patiently(what, once)
        except NotAdmitted as refused:
            raise InvalidQuery(
                f"the {self._config.what} may not log in at {self._config.servers}: {refused.why}",
                hint="check kafka.security.protocol, kafka.sasl.mechanism and kafka.sasl.jaas.config",
            ) from refused
        except Refused as error:
            raise self._silent(what, error) from error

    def _forbidden(self, error: Refused) -> TidegateError:
        return InvalidQuery(
            f"the {self._config.what} lacks a permission at {self._config.servers}: {error}",
            hint="ask for the ACL it names",
        )

    def _silent(self, what: str, trouble: Exception) -> TidegateError:
        return Unavailable(
            f"the {self._config.what} gets no answer from Kafka at {self._config.servers}: {what}: {trouble}",
            hint="check kafka.bootstrap.servers, the network and the brokers' advertised listeners",
        )
