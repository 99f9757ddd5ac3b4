"""Helpers: topics filled by a plain producer, the Kafka source driven without a job, as the coordinator and the slots would."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import IsolationLevel, Producer, TopicPartition
from confluent_kafka.admin import OffsetSpec  # pyright: ignore[reportPrivateImportUsage]
from tests.servers.kafka import QUIET, Broker

from tidegate.connectors.kafka.config import source_schema
from tidegate.connectors.kafka.format import enumerator, source
from tidegate.connectors.kafka.source.enumerator import KafkaEnumerator
from tidegate.connectors.kafka.source.reader import KafkaReader, KafkaSource
from tidegate.connectors.legacy import Scan
from tidegate.model.config import QueryConfig
from tidegate.model.ids import OperatorId
from tidegate.model.snapshot import Split, SplitPosition
from tidegate.model.types import Field

SECONDS_MAX = 90.0
BOUNDED, ENDLESS = QueryConfig(bounded=True), QueryConfig()


def kafka_scan(broker: Broker, columns: tuple[str, ...] = ("value",), **options: Any) -> Scan:
    """Options as keywords; dots as underscores in those of the client: ``kafka_isolation_level``."""
    given = {(name.replace("_", ".") if name.startswith("kafka_") else name): str(v) for name, v in options.items()}
    given = {"kafka.bootstrap.servers": broker.bootstrap, "startingOffsets": "earliest"} | given
    schema = source_schema(given)
    kinds = {one.name: one.type for one in schema}
    return Scan(
        id=OperatorId("source-0"),
        format="kafka",
        options=given,
        schema=tuple(Field(f"{name}#{n}", kinds[name]) for n, name in enumerate(columns)),
        columns=columns,
        source_schema=schema,
    )


class HurriedClock:
    """Like ``time``, but ``step_s`` more pass whenever somebody looks."""

    def __init__(self, step_s: float) -> None:
        self._step_s = step_s
        self._ahead_s = 0.0

    def monotonic(self) -> float:
        self._ahead_s += self._step_s
        return time.monotonic() + self._ahead_s


def fill(broker: Broker, topic: str, values: Iterable[Any], partition: int = 0, transaction: str = "") -> None:
    """Each value is its own key as well. Returns when the broker has them, and shows them if ``transaction`` names one."""
    options = {"transactional.id": transaction} if transaction else {}
    producer = Producer({"bootstrap.servers": broker.bootstrap, **QUIET, "linger.ms": 0} | options)
    if transaction:
        producer.init_transactions(SECONDS_MAX)
        producer.begin_transaction()
    for value in values:
        producer.produce(topic, str(value).encode(), str(value).encode(), partition=partition)
    assert producer.flush(SECONDS_MAX) == 0
    if transaction:
        producer.commit_transaction(SECONDS_MAX)
        settled(broker, topic, partition)


def settled(broker: Broker, topic: str, partition: int = 0) -> None:
    """Waits until nothing of the partition is hidden from readers: markers are written after a commit has been answered."""
    place = TopicPartition(topic, partition)

    def ends(level: IsolationLevel) -> int:
        latest: Any = OffsetSpec.latest()
        return broker.admin.list_offsets({place: latest}, isolation_level=level)[place].result(SECONDS_MAX).offset

    eventually(lambda: ends(IsolationLevel.READ_COMMITTED) == ends(IsolationLevel.READ_UNCOMMITTED), "its markers")


def eventually(what: Callable[[], Any], why: str, seconds: float = SECONDS_MAX) -> Any:
    """Asks until the answer is true."""
    until = time.monotonic() + seconds
    while not (answer := what()):
        assert time.monotonic() < until, f"not within {seconds} s: {why}"
        time.sleep(0.005)
    return answer


@dataclass
class Reading:
    """One run over a scan. ``state``: where an earlier run stood."""

    scan: Scan
    config: QueryConfig = BOUNDED
    state: State | None = None
    rows: list[tuple[Any, ...]] = field(default_factory=list)
    finished: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.enumerator: KafkaEnumerator = enumerator(self.scan, self.config)
        self.source: KafkaSource = source(self.scan)
        self.readers: dict[int, tuple[Split, KafkaReader]] = {}
        positions: dict[int, bytes | None] = {}
        known: tuple[Split, ...] = ()
        if self.state is not None:
            positions = {one.split.number: one.position for one in self.state.open}
            self.enumerator.learn_done(self.state.finished.__contains__)
            known = self.enumerator.restore(self.state.enumerator, tuple(one.split for one in self.state.open))
            self.finished |= self.state.finished
        self._open(known, positions)
        self.discover(0)

    def discover(self, now_ms: int) -> tuple[Split, ...]:
        found = self.enumerator.discover(now_ms)
        self._open(found, {})
        return found

    def poll(self, rows_max: int = 1_000) -> int:
        """One turn over all readers."""
        before = len(self.rows)
        for number, (_, reader) in list(self.readers.items()):
            rows = reader.read(rows_max, 0) if not reader.finished else None
            if rows is not None:
                self.rows += rows.rows() if rows.width else [()] * rows.height
            if reader.finished:
                self.finished.add(number)
        return len(self.rows) - before

    def until_finished(self) -> list[tuple[Any, ...]]:
        eventually(lambda: self.poll() or len(self.finished & self.readers.keys()) == len(self.readers), "an end")
        while len(self.finished & self.readers.keys()) < len(self.readers):
            eventually(lambda: self.poll() or self.finished >= self.readers.keys(), "an end")
        return self.rows

    def until(self, rows: int) -> list[tuple[Any, ...]]:
        eventually(lambda: self.poll() >= 0 and len(self.rows) >= rows, f"{rows} rows, have {len(self.rows)}")
        return self.rows

    def snapshot(self) -> State:
        open_now = tuple(
            SplitPosition(split=split, position=reader.position)
            for number, (split, reader) in self.readers.items()
            if number not in self.finished
        )
        return State(self.enumerator.snapshot(), open_now, frozenset(self.finished))

    def stop(self) -> State:
        """Where it stands; everything is closed."""
        state = self.snapshot()
        for _, reader in self.readers.values():
            reader.close()
        self.source.close()
        return state

    def _open(self, splits: Sequence[Split], positions: dict[int, bytes | None]) -> None:
        for split in splits:
            if split.number not in self.finished:
                reader = self.source.open(split, positions.get(split.number))
                self.readers[split.number] = (split, reader)  # pyright: ignore[reportArgumentType]


@dataclass(frozen=True)
class State:
    enumerator: bytes
    open: tuple[SplitPosition, ...]
    finished: frozenset[int]


def values(rows: Iterable[tuple[Any, ...]]) -> list[str]:
    """The first column as text."""
    return [row[0].decode() for row in rows]
