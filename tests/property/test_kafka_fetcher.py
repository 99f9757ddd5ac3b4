"""The fetcher of the Kafka source before brokers that move, lag and fall silent: readers get every record once, in order, and "nothing is
there" only when nothing is."""

from __future__ import annotations

from dataclasses import dataclass, field
from unittest import mock

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.property.kafka_cluster import TOPIC, Cluster, Wire

from tidegate.connectors.kafka.client import fetcher as fetcher_module
from tidegate.connectors.kafka.client import partition_leaders
from tidegate.connectors.kafka.client.fetcher import Fetcher
from tidegate.connectors.kafka.client.stream import Stream
from tidegate.connectors.kafka.protocol.fetching import Limits
from tidegate.connectors.kafka.protocol.unpacking import joined
from tidegate.connectors.kafka.source.consumer import unpacked_rows
from tidegate.connectors.kafka.source.selection import Place
from tidegate.connectors.kafka.source.splits import EARLIEST

PARTITIONS, BROKERS = 2, 2
PLACES = st.integers(0, PARTITIONS - 1).map(lambda number: (TOPIC, number))
PRODUCERS = st.sampled_from([7, 8])
QUEUE_BYTES = 400
ROUNDS_MAX = 400
"""Enough for every record, with answers of two batches."""


class Clock:
    def __init__(self) -> None:
        self.now_s = 1_000.0

    def monotonic(self) -> float:
        return self.now_s


class FetcherByHand(Fetcher):
    """Steps when it is told to; its thread ends at once."""

    def _run(self) -> None:
        pass

    def step(self) -> None:
        self._step()

    def use(self, wire: Wire) -> None:
        self._exchange.close()
        self._exchange = wire  # pyright: ignore[reportAttributeAccessIssue]


@dataclass
class Reader:
    stream: Stream
    position: int
    seen: list[int] = field(default_factory=list[int])


class Fetching(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.clock = Clock()
        self._patches = [
            mock.patch.object(module, "time", self.clock) for module in (fetcher_module, partition_leaders)
        ]
        for patch in self._patches:
            patch.start()
        self.cluster = Cluster(PARTITIONS, BROKERS)
        limits = Limits(wait_ms=100, bytes_min=1, bytes_max=1_000, partition_bytes_max=200)
        where = {"bootstrap.servers": "127.0.0.1:1"}
        self.fetcher = FetcherByHand(where, self.cluster, limits, QUEUE_BYTES, committed_only=True)
        self.wire = Wire(self.cluster)
        self.fetcher.use(self.wire)
        self.readers: dict[Place, Reader] = {}

    @initialize(offsets=st.tuples(*[st.sampled_from([EARLIEST, 0])] * PARTITIONS))
    def readers_begin(self, offsets: tuple[int, ...]) -> None:
        for place, offset in zip(self.cluster.logs, offsets, strict=True):
            self._begin(place, offset)
        self._step()

    # --- producers ----------------------------------------------------------------------------------------------------

    @rule(place=PLACES, steps=st.lists(st.sampled_from([1, 1, 1, 4]), max_size=4))
    def records_are_written(self, place: Place, steps: list[int]) -> None:
        self.cluster.logs[place].append(steps)
        self._step()

    @rule(place=PLACES, producer=PRODUCERS, steps=st.lists(st.just(1), max_size=2))
    def records_of_a_transaction_are_written(self, place: Place, producer: int, steps: list[int]) -> None:
        self.cluster.logs[place].append(steps, producer)
        self._step()

    @rule(place=PLACES, producer=PRODUCERS, commit=st.booleans())
    def a_transaction_ends(self, place: Place, producer: int, commit: bool) -> None:
        log = self.cluster.logs[place]
        if producer in log.open:
            log.finish(producer, commit=commit)

    @rule(place=PLACES, data=st.data())
    def retention_takes_the_oldest(self, place: Place, data: st.DataObject) -> None:
        log = self.cluster.logs[place]
        borders = [one for one in log.borders if log.start <= one <= log.stable_end]
        if borders:
            log.start = data.draw(st.sampled_from(borders))

    # --- brokers --------------------------------------------------------------------------------------------------------

    @rule(place=PLACES, to=st.integers(0, BROKERS), data=st.data())
    def the_leader_changes(self, place: Place, to: int, data: st.DataObject) -> None:
        """To one that may not know yet how much of the log is there, or to nobody."""
        self.cluster.leaders[place] = None if to == BROKERS else self.cluster.addresses[to]
        log = self.cluster.logs[place]
        log.told_end = data.draw(st.none() | st.integers(log.start, log.end))
        self._step()

    @rule(place=PLACES)
    def the_leader_has_caught_up(self, place: Place) -> None:
        self.cluster.logs[place].told_end = None

    @rule(number=st.integers(0, BROKERS - 1), up=st.booleans())
    def a_broker_goes_or_comes(self, number: int, up: bool) -> None:
        address = self.cluster.addresses[number]
        if up:
            self.cluster.down.discard(address)
        else:
            self.cluster.down.add(address)
            if self.wire.is_asked(address):
                self.wire.lose(address)

    @precondition(lambda self: self.wire.waiting)
    @rule(data=st.data(), torn=st.booleans(), rounds=st.integers(1, 4))
    def brokers_answer(self, data: st.DataObject, torn: bool, rounds: int) -> None:
        for _ in range(rounds):
            if self.wire.waiting:
                self.wire.answer(data.draw(st.sampled_from(self.wire.waiting)), torn=torn)
                self._step()

    @precondition(lambda self: self.wire.waiting)
    @rule(data=st.data())
    def an_answer_is_lost(self, data: st.DataObject) -> None:
        self.wire.lose(data.draw(st.sampled_from(self.wire.waiting)))
        self._step()

    @rule(seconds=st.sampled_from([0.001, 0.05, 2.0]))
    def time_goes_by(self, seconds: float) -> None:
        self.clock.now_s += seconds
        self._step()

    # --- readers --------------------------------------------------------------------------------------------------------

    @rule(place=PLACES, data=st.data())
    def a_reader_begins_or_seeks(self, place: Place, data: st.DataObject) -> None:
        log = self.cluster.logs[place]
        self._begin(place, data.draw(st.sampled_from([EARLIEST, log.start, *log.borders[-3:]])))
        self._step()

    @rule(place=PLACES)
    def a_reader_leaves(self, place: Place) -> None:
        if place in self.readers:
            self.fetcher.remove(self.readers.pop(place).stream)

    @rule(together_bytes=st.sampled_from([1, 150, 10_000]), times=st.integers(1, 3))
    def readers_take(self, together_bytes: int, times: int) -> None:
        for place in [*self.readers] * times:
            self._take(place, together_bytes)

    # --- what must hold -------------------------------------------------------------------------------------------------

    @invariant()
    def readers_have_what_is_there_in_order_and_nothing_else(self) -> None:
        for place, reader in self.readers.items():
            if reader.seen:
                expected = self.cluster.logs[place].readable(reader.position)
                assert reader.seen == expected[: len(reader.seen)]

    def teardown(self) -> None:
        """Whatever has happened: once brokers answer, every reader gets the rest, and then hears that nothing is left."""
        try:
            for place, log in self.cluster.logs.items():
                log.told_end, self.cluster.leaders[place] = None, self.cluster.addresses[place[1] % BROKERS]
                for producer in list(log.open):
                    log.finish(producer, commit=True)
            self.cluster.down.clear()
            for _ in range(ROUNDS_MAX):
                self.clock.now_s += 0.5
                self._step()
                for address in self.wire.waiting:
                    self.wire.answer(address)
                self._step()
                for place in self.readers:
                    self._take(place, 10_000)
                if all(map(self._is_at_the_end, self.readers)):
                    break
            assert all(map(self._is_at_the_end, self.readers)), "the fetcher stands still"
            self.readers_have_what_is_there_in_order_and_nothing_else()
        finally:
            self.fetcher.close()
            for patch in self._patches:
                patch.stop()

    def _is_at_the_end(self, place: Place) -> bool:
        reader, log = self.readers[place], self.cluster.logs[place]
        begin = log.start if reader.position == EARLIEST else reader.position
        has_all = reader.stream.following == log.end and reader.seen == log.readable(begin)
        said = reader.stream.log_end
        return has_all and reader.stream.end == log.end and said is not None and said.offset == log.end

    def _step(self) -> None:
        self.clock.now_s += 0.001
        self.fetcher.step()
        for place, reader in self.readers.items():
            self._judge_what_was_said(place, reader.stream)

    def _judge_what_was_said(self, place: Place, stream: Stream) -> None:
        """T72: a broker that lags, or leads since a moment ago, has not said that nothing is there."""
        said = stream.log_end
        if said is not None and said.at_s == self.clock.now_s and said.offset <= stream.following:
            assert stream.following >= self.cluster.logs[place].end, "something is there"

    def _begin(self, place: Place, offset: int) -> None:
        known = self.readers.get(place)
        stream = Stream(place) if known is None else known.stream
        with self.fetcher.lock:
            stream.begin(offset)
        if known is None:
            self.fetcher.add(stream)
        self.readers[place] = Reader(stream, offset)

    def _take(self, place: Place, together_bytes: int) -> None:
        reader, log = self.readers[place], self.cluster.logs[place]
        some = self.fetcher.take(reader.stream, together_bytes)
        if some:
            found = [int(one) for part in unpacked_rows(joined(some), "t-0") for one in part.offsets]
            if found and reader.position == EARLIEST:
                first = log.readable(log.start)
                assert not first or found[0] <= first[0], "the log began before"
                reader.position = found[0]
            reader.seen += found
        elif reader.stream.lost:
            assert reader.stream.following < log.start, "nothing was lost"
            self._begin(place, EARLIEST)
            return
        if reader.stream.end >= 0 and reader.position != EARLIEST:
            before = [one for one in log.readable(reader.position) if one < reader.stream.end]
            assert reader.seen[: len(before)] == before, "an end was shown before the rows that lead to it"


Fetching.TestCase.settings = settings(max_examples=250, stateful_step_count=60, deadline=None)
TestFetching = Fetching.TestCase
