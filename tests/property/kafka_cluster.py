"""Kafka brokers as the fetcher sees them, without sockets or threads: logs with transactions and gaps, leaders that move and lag, answers that
come late, in part, or not at all."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.unit.connectors.kafka_batches import COMMIT_MARKER, CONTROL, TRANSACTIONAL, Batch

from tidegate.connectors.kafka.client.brokers import Brokers
from tidegate.connectors.kafka.client.exchange import Outcome
from tidegate.connectors.kafka.client.stream import Stream
from tidegate.connectors.kafka.protocol.codec import SPARE_BYTES
from tidegate.connectors.kafka.protocol.errors import Code
from tidegate.connectors.kafka.protocol.fetching import Aborted, Fetch, FetchedPartition
from tidegate.connectors.kafka.protocol.metadata import TopicLeaders
from tidegate.connectors.kafka.protocol.requests import Address
from tidegate.connectors.kafka.source.selection import Place
from tidegate.connectors.kafka.source.splits import EARLIEST
from tidegate.model.errors import Unavailable

TOPIC = "orders"
BATCHES_PER_ANSWER = 2
ABORT_MARKER = (b"\0\0\0\0", COMMIT_MARKER[1])
NO_PRODUCER = -1


@dataclass(frozen=True, slots=True)
class _Written:
    batch: Batch
    offsets: tuple[int, ...]
    data: bytes


@dataclass
class Log:
    start: int = 0
    end: int = 0
    open: dict[int, int] = field(default_factory=dict[int, int])
    """Producers with an open transaction, and the first offset of it."""
    aborted: list[tuple[int, int, int]] = field(default_factory=list[tuple[int, int, int]])
    """Producer, first offset, offset of the marker."""
    told_end: int | None = None
    """What a leader knows that leads since a moment ago and does not know all yet."""
    _written: list[_Written] = field(default_factory=list[_Written])

    def append(self, steps: Sequence[int], producer: int = NO_PRODUCER) -> None:
        """``steps``: from offset to offset; more than one where compaction has left a gap."""
        deltas = (0, *itertools.accumulate(steps))
        attributes = 0 if producer == NO_PRODUCER else TRANSACTIONAL
        if producer != NO_PRODUCER:
            self.open.setdefault(producer, self.end)
        self._write(Batch([(b"k", b"v")] * len(deltas), self.end, attributes, producer, deltas))

    def finish(self, producer: int, *, commit: bool) -> None:
        first = self.open.pop(producer)
        if not commit:
            self.aborted.append((producer, first, self.end))
        marker = COMMIT_MARKER if commit else ABORT_MARKER
        self._write(Batch([marker], self.end, TRANSACTIONAL | CONTROL, producer))

    @property
    def stable_end(self) -> int:
        return min(self.open.values(), default=self.end)

    @property
    def borders(self) -> list[int]:
        return [one.offsets[0] for one in self._written]

    def readable(self, offset: int) -> list[int]:
        """All that a reader from there has to be given so far, also what retention has taken since."""
        return [
            one
            for written in self._written
            if not written.batch.attributes & CONTROL and not self._is_aborted(written.batch)
            for one in written.offsets
            if offset <= one < self.stable_end
        ]

    def fetch(self, offset: int, *, torn: bool) -> tuple[FetchedPartition, bytes]:
        """``torn``: the first bytes of one more batch, as where an answer is full. The place is within the data of this partition."""
        known = self.end if self.told_end is None else self.told_end
        end = min(self.stable_end, known)
        if not self.start <= offset <= self.end:
            return FetchedPartition(Code.OFFSET_OUT_OF_RANGE, -1, -1, (), (0, 0), diverges=False), b""
        found = [one for one in self._written if one.offsets[-1] >= offset and one.offsets[0] < end]
        some, rest = found[:BATCHES_PER_ANSWER], found[BATCHES_PER_ANSWER:]
        data = b"".join(one.data for one in some) + (rest[0].data[:40] if rest and torn else b"")
        last = some[-1].offsets[-1] if some else offset
        aborted = tuple(
            Aborted(who, first) for who, first, marker in self.aborted if first <= last and marker >= offset
        )
        return FetchedPartition(0, end, known, aborted, (0, len(data)), diverges=False), data

    def _write(self, batch: Batch) -> None:
        offsets = tuple(batch.first_offset + delta for delta in (batch.deltas or (0,)))
        self._written.append(_Written(batch, offsets, batch.encode()))
        self.end = offsets[-1] + 1

    def _is_aborted(self, batch: Batch) -> bool:
        return any(who == batch.producer and first <= batch.first_offset < end for who, first, end in self.aborted)


class Cluster(Brokers):
    """Leaders, and what clients are told of them."""

    def __init__(self, partitions: int, brokers: int) -> None:
        super().__init__({"bootstrap.servers": "127.0.0.1:1"})
        self.addresses = [Address("broker", number) for number in range(brokers)]
        self.logs = {(TOPIC, number): Log() for number in range(partitions)}
        self.leaders: dict[Place, Address | None] = dict.fromkeys(self.logs, self.addresses[0])
        self.down: set[Address] = set()

    def topics(self, names: Sequence[str]) -> dict[str, TopicLeaders]:
        if len(self.down) == len(self.addresses):
            raise Unavailable("nobody answers")
        return {TOPIC: TopicLeaders(0, {number: leader for (_, number), leader in self.leaders.items()})}


@dataclass(frozen=True, slots=True)
class _Question:
    kind: str
    subject: dict[Place, tuple[Stream, int]]
    wanted: dict[Place, int]


class Wire:
    """Takes the place of the exchange: questions wait here until somebody answers them, or they are lost."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._asked: dict[Address, _Question] = {}
        self._outcomes: list[Outcome[Any, Any]] = []

    # --- what the fetcher calls -------------------------------------------------------------------------------------

    def connect(self, address: Address) -> None:
        if address in self._cluster.down:
            raise ConnectionRefusedError("it is down")

    def is_asked(self, address: Address) -> bool:
        return address in self._asked

    def ask(self, address: Address, subject: Any, encode: Callable[[int], Sequence[bytes]], read: Any) -> None:
        assert address not in self._asked, "a broker answers one question at a time"
        assert encode(1), "the question can be written down"
        wanted = {place: stream.following for place, (stream, _) in subject.items()}
        self._asked[address] = _Question(read.__self__.name, dict(subject), wanted)

    def wait(self, seconds: float) -> list[Outcome[Any, Any]]:
        outcomes, self._outcomes = self._outcomes, []
        return outcomes

    def wake(self) -> None:
        """Nobody sleeps here."""

    def close(self) -> None:
        self._asked = {}

    # --- what becomes of questions ----------------------------------------------------------------------------------

    @property
    def waiting(self) -> list[Address]:
        return sorted(self._asked, key=lambda address: address.port)

    def lose(self, address: Address) -> None:
        self._outcomes.append(Outcome(self._asked.pop(address).subject, None, "cut off"))

    def answer(self, address: Address, *, torn: bool = False) -> None:
        question = self._asked.pop(address)
        answer = self._fetched(address, question, torn) if question.kind == "Fetch" else self._edges(address, question)
        self._outcomes.append(Outcome(question.subject, answer))

    def _fetched(self, address: Address, question: _Question, torn: bool) -> Fetch:
        data, parts = bytearray(), dict[Place, FetchedPartition]()
        for place, offset in question.wanted.items():
            if self._cluster.leaders[place] != address:
                parts[place] = FetchedPartition(Code.NOT_LEADER, -1, -1, (), (0, 0), diverges=False)
                continue
            part, its = self._cluster.logs[place].fetch(offset, torn=torn)
            begin = len(data)
            parts[place] = FetchedPartition(
                part.error, part.end, part.high_watermark, part.aborted, (begin, begin + len(its)), diverges=False
            )
            data += its
        return Fetch(0, parts, memoryview(data + bytes(SPARE_BYTES)))

    def _edges(self, address: Address, question: _Question) -> dict[Place, tuple[int, int]]:
        return {place: self._edge(address, place, offset) for place, offset in question.wanted.items()}

    def _edge(self, address: Address, place: Place, offset: int) -> tuple[int, int]:
        log = self._cluster.logs[place]
        if self._cluster.leaders[place] != address:
            return Code.NOT_LEADER, -1
        if offset == EARLIEST:
            return 0, log.start
        if log.told_end is not None:
            return Code.OFFSET_NOT_AVAILABLE, -1
        return 0, log.end
