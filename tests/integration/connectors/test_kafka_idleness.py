"""Which partitions hold event time back: a reader of real brokers under a clock of the test's own, on which minutes pass at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic  # pyright: ignore[reportPrivateImportUsage]
from tests.integration.connectors.kafka_reading import (
    ENDLESS,
    SECONDS_MAX,
    eventually,
    fill,
    kafka_scan,
    settled,
)
from tests.servers.kafka import QUIET, Broker, kafka_cluster

from tidegate.connectors.kafka.client import partition_leaders
from tidegate.connectors.kafka.format import enumerator, source
from tidegate.connectors.kafka.source.reader import KafkaReader
from tidegate.connectors.legacy import Scan
from tidegate.model.elements import Batch, SourceStatus
from tidegate.model.ids import Attempt, CheckpointId, SlotIndex
from tidegate.model.messages import AssignSplits
from tidegate.model.snapshot import KeyGroupRange, SplitPosition
from tidegate.operators.protocol import OperatorContext, OperatorState, Restored
from tidegate.operators.source import SourceOperator

IDLE_MS = ENDLESS.idle_timeout_ms
TURNS = 200
"""Polls over which the test's clock runs."""


@dataclass
class Slot:
    """One subtask of the source, given all partitions."""

    scan: Scan
    restored: OperatorState | None = None
    now_ms: float = 0.0
    active: frozenset[int] = frozenset()
    """Splits that hold time back."""
    rows: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        values = () if self.restored is None or self.restored.value is None else (self.restored.value,)
        context = OperatorContext(
            operator=self.scan.id,
            subtask=SlotIndex(0),
            parallelism=1,
            max_parallelism=1,
            groups=KeyGroupRange(0, 1),
            restored=Restored(values=values),
        )
        self.operator = SourceOperator(self.scan, context, source(self.scan), ENDLESS)
        progress = self.restored.source if self.restored is not None else None
        if progress is not None:
            splits = progress.open
        else:
            found = enumerator(self.scan, ENDLESS).discover(0)
            splits = tuple(SplitPosition(split=one, position=None) for one in found)
        self.operator.assign(
            AssignSplits(
                attempt=Attempt(1),
                operator=self.scan.id,
                subtask=SlotIndex(0),
                sequence=0,
                splits=splits,
                ordered=True,
            ),
            0,
        )

    @property
    def readers(self) -> list[KafkaReader]:
        found = [one.reader for one in sorted(self.operator._open, key=lambda one: one.number)]
        assert all(isinstance(one, KafkaReader) for one in found)
        return found  # pyright: ignore[reportReturnType]

    def poll(self, passing_ms: float = 0.0) -> None:
        self.now_ms += passing_ms
        for element in self.operator.poll(1_000, self.now_ms):
            if isinstance(element, SourceStatus):
                self.active = element.open
            elif isinstance(element, Batch):
                self.rows += [value.decode() for value in element.rows.to_series()]

    def until(self, what: Callable[[], Any], why: str, passing_ms: float = 0.0) -> None:
        def now() -> Any:
            self.poll(passing_ms)
            return what()

        eventually(now, why)

    def until_rows(self, total: int) -> None:
        self.until(lambda: len(self.rows) >= total, f"{total} rows")

    def until_idle(self, *numbers: int) -> None:
        self.until(lambda: not self.active & set(numbers), f"{numbers} to be idle", passing_ms=1_000)

    def let_time_pass(self, *, holds: int) -> None:
        """Many times the time-out; the split never stops holding time back."""
        for _ in range(TURNS):
            self.poll(IDLE_MS)
            assert holds in self.active

    def stop(self) -> OperatorState:
        state = self.operator.snapshot(CheckpointId(1))
        self.operator.close()
        return state


def test_a_partition_is_idle_when_its_broker_has_said_for_long_that_nothing_is_there(kafka: Broker) -> None:
    topic = kafka.topic(partitions=2)
    fill(kafka, topic, ["a"], 0)
    slot = Slot(kafka_scan(kafka, subscribe=topic))
    slot.until_rows(1)
    assert slot.active == {0, 1}, "no time has passed"
    slot.until_idle(0, 1)
    fill(kafka, topic, ["b"], 1)
    slot.until_rows(2)
    slot.poll()
    assert slot.active == {1}, "its own row has woken it"
    slot.stop()


def test_rows_of_an_open_transaction_hold_time_until_it_is_decided(kafka: Broker) -> None:
    """A transaction over two partitions becomes visible in one after the other: rows of the first must not make those of the second
    late, however much time has passed since the last transaction."""
    topic = kafka.topic(partitions=2)
    fill(kafka, topic, ["a"], 0)
    producer = Producer({"bootstrap.servers": kafka.bootstrap, **QUIET, "transactional.id": f"{topic}-t"})
    producer.init_transactions(SECONDS_MAX)
    producer.begin_transaction()
    producer.produce(topic, b"aborted", partition=0)
    assert producer.flush(SECONDS_MAX) == 0
    slot = Slot(kafka_scan(kafka, subscribe=topic))
    slot.until_rows(1)
    slot.until_idle(1)
    assert slot.active == {0}
    slot.let_time_pass(holds=0)
    slot.until(lambda: "transaction is open at offset 1" in slot.readers[0].unanswered, "its reason")
    producer.abort_transaction(SECONDS_MAX)
    settled(kafka, topic)
    slot.until_idle(0)
    producer.begin_transaction()
    producer.produce(topic, b"committed", partition=0)
    assert producer.flush(SECONDS_MAX) == 0
    producer.commit_transaction(SECONDS_MAX)
    slot.until_rows(2)
    slot.until_idle(0)
    assert slot.rows == ["a", "committed"]
    slot.stop()


def test_a_partition_idle_at_the_barrier_is_awaited_after_the_restore(kafka: Broker) -> None:
    """T71: rows came while the query was down. Idleness is a hint: the broker has to say once more that nothing is there."""
    topic = kafka.topic(partitions=2)
    fill(kafka, topic, ["a"], 0)
    first = Slot(kafka_scan(kafka, subscribe=topic))
    first.until_rows(1)
    first.until_idle(0, 1)
    state = first.stop()
    fill(kafka, topic, ["b"], 0)
    second = Slot(kafka_scan(kafka, subscribe=topic), restored=state)
    while not second.rows:
        second.poll(IDLE_MS)
        assert 0 in second.active, "idle before its rows have been asked for"
    assert second.rows == ["b"]
    second.until(lambda: 1 not in second.active, "the other one to be idle after one answer, without time passing")
    second.stop()


@pytest.fixture
def gone_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition_leaders, "APPEAR_SECONDS", 0.5)


@pytest.mark.usefixtures("gone_soon")
def test_a_topic_that_is_gone_does_not_hold_time_for_a_query_that_goes_on_without_it(kafka: Broker) -> None:
    topic = kafka.topic()
    fill(kafka, topic, ["a"])
    strict, lax = (Slot(kafka_scan(kafka, subscribe=topic, failOnDataLoss=loses)) for loses in ("true", "false"))
    for slot in (strict, lax):
        slot.until_rows(1)
    kafka.admin.delete_topics([topic])[topic].result(SECONDS_MAX)
    # Answers that were on their way say nothing about the time to come.
    strict.until(lambda: strict.readers[0].unanswered, "what is missing")
    lax.until_idle(0)
    strict.let_time_pass(holds=0)
    for slot in (strict, lax):
        slot.stop()


def test_a_partition_that_nobody_can_read_is_not_idle_however_long_that_takes(tmp_path: Path) -> None:
    """T72: one of three partitions is cut off for many times ``idleTimeout``, first by a broker that is silent, then by one that is
    dead; its rows come before it has stopped holding time back."""
    with kafka_cluster(tmp_path, brokers=2, session_ms=3_000) as (first, second):
        made = first.admin.create_topics([NewTopic("cut", 3, replica_assignment=[[1], [1], [2]])])
        made["cut"].result(SECONDS_MAX)
        first.await_partitions("cut", 3)
        for partition in range(3):
            fill(first, "cut", ["before"], partition)
        slots = [Slot(kafka_scan(first, subscribe="cut"))]
        for slot in slots:
            slot.until_rows(3)
        second.pause()
        for slot in slots:
            slot.until(lambda: slot.readers[2].unanswered.startswith("cut-2: "), "its name")  # noqa: B023  asked at once
            slot.let_time_pass(holds=2)
        second.resume()
        for slot in slots:
            slot.until_idle(0, 1, 2)
        fill(first, "cut", ["between"], 2)
        for slot in slots:
            slot.until_rows(4)
        second.kill()
        for slot in slots:
            slot.until(lambda: slot.readers[2].unanswered == "cut-2: no leader", "its reason")  # noqa: B023  asked at once
            slot.until_idle(0, 1)
            slot.let_time_pass(holds=2)
        second.start()
        fill(first, "cut", ["after"], 2)
        for slot in slots:
            while len(slot.rows) < 5:
                slot.poll(IDLE_MS)
                assert 2 in slot.active or len(slot.rows) == 5
            slot.until_idle(2)
            assert sorted(slot.rows) == ["after", "before", "before", "before", "between"]
            assert not slot.readers[2].unanswered
            slot.stop()
