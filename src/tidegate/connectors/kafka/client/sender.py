"""Sends what the producers of a writer have to deliver. One thread, which owns the connections to the brokers."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from weakref import WeakValueDictionary

from tidegate.connectors.kafka.client.delivery import Delivery
from tidegate.connectors.kafka.client.exchange import Exchange, Outcome
from tidegate.connectors.kafka.client.lane import Lane
from tidegate.connectors.kafka.client.leaders import Leaders
from tidegate.connectors.kafka.client.refusals import explained
from tidegate.connectors.kafka.client.security import Security
from tidegate.connectors.kafka.client.transactions import Transactions
from tidegate.connectors.kafka.protocol.codec import MalformedAnswer
from tidegate.connectors.kafka.protocol.compression import UNCOMPRESSED, Compression
from tidegate.connectors.kafka.protocol.errors import NOT_TAKEN, Code, Refused, name_of
from tidegate.connectors.kafka.protocol.metadata import Partition
from tidegate.connectors.kafka.protocol.producing import produce, read_produced
from tidegate.connectors.kafka.protocol.record_batch import RecordBatch
from tidegate.connectors.kafka.protocol.requests import Address
from tidegate.connectors.kafka.protocol.transactions import Handle
from tidegate.model.errors import Bug, TidegateError, Unavailable

log = logging.getLogger("tidegate.kafka")

CONTROL_SECONDS = 10.0
"""For questions that hold up everything else: then others have their turn, and it is asked again."""
FAREWELL_SECONDS = 2.0
"""A thread that waits for a broker longer than that ends when its waiting does. What it might still send is refused by then."""
IDLE_SECONDS = 1.0
REQUEST_BYTES_MAX = 4 << 20
WRITTEN = frozenset({Code.NONE, Code.DUPLICATE_SEQUENCE_NUMBER})


@dataclass(frozen=True, slots=True)
class _Sent:
    """What is in one request."""

    delivery: Delivery
    batches: dict[Partition, tuple[Lane, RecordBatch]]


class Sender:
    """Deliveries are opened and forgotten by any thread, and written to one after the other, in the order in which they were opened:
    so their messages arrive, in each partition. Whatever may pass is tried again, for as long as a delivery is open: how long that may
    take is decided by those who wait for it."""

    def __init__(self, options: Mapping[str, str], *, creates_topics: bool = False) -> None:
        """``creates_topics``: brokers that are set to do so may make those that are missing."""
        self.changed = threading.Condition()
        self.where = options["bootstrap.servers"]
        self.trouble = ""
        """Why it last did not go on."""
        self._stop = threading.Event()
        self._wire = Transactions(options, CONTROL_SECONDS, self._stop)
        security = Security.of(options)
        self._client_id = security.client_id
        self._exchange: Exchange[_Sent, dict[Partition, int]] = Exchange(security)
        self.leaders = Leaders(self._wire, self.where, self.changed, creates_topics=creates_topics)
        self._deliveries: list[Delivery] = []
        self._newest: WeakValueDictionary[Partition, Lane] = WeakValueDictionary()
        """The last lane into each partition, of the deliveries that somebody still has."""
        self._failure: TidegateError | None = None
        """Why a delivery failed: none that is opened later can come behind its messages."""
        self._thread = threading.Thread(target=self._run, name="tidegate-kafka-sender", daemon=True)

    def open(self, handle: Handle, batch_bytes_max: int, compression: Compression = UNCOMPRESSED) -> Delivery:
        delivery = Delivery(handle, batch_bytes_max, self.changed, compression)
        with self.changed:
            delivery.failure = self._failure
            self._deliveries.append(delivery)
            if self._thread.ident is None and not self._stop.is_set():
                self._thread.start()
        return delivery

    def forget(self, delivery: Delivery) -> None:
        """What is not sent will not be sent."""
        with self.changed:
            if delivery in self._deliveries:
                self._deliveries.remove(delivery)

    def left(self, delivery: Delivery) -> int:
        """Messages that have to arrive before its last one has: its own, and those of the deliveries before it."""
        with self.changed:
            before = takewhile(lambda one: one is not delivery, self._deliveries)
            return sum(one.messages for one in before) + delivery.messages

    def wake(self) -> None:
        """There is something to do."""
        self._exchange.wake()

    def close(self) -> None:
        if self._stop.is_set():
            return
        self._stop.set()
        self.wake()
        if self._thread.ident is not None:
            self._thread.join(FAREWELL_SECONDS)
        else:
            self._exchange.close()

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                self._step()
        except Exception as error:  # Whoever waits, now or later, must hear of it.
            log.exception("the thread that sends to Kafka has ended")
            with self.changed:
                self._failure = Bug(f"the thread that sends to Kafka has ended: {error!r}")
                for delivery in self._deliveries:
                    delivery.fail(self._failure)
        finally:
            self._exchange.close()
            self._wire.close()

    def _step(self) -> None:
        with self.changed:
            deliveries = [one for one in self._deliveries if one.failure is None]
            for delivery in deliveries:
                delivery.accept(self._newest)
        try:
            self.leaders.look()
        except Unavailable as error:
            self.trouble = error.message
        except TidegateError as failure:
            for delivery in deliveries:
                self._fail(delivery, failure)
        now_s = time.monotonic()
        for delivery in deliveries:
            try:
                self._add(delivery, now_s)
                self._send(delivery, now_s)
            except TidegateError as failure:
                self._fail(delivery, failure)
        for outcome in self._exchange.wait(self._wakes_s(deliveries, now_s) - time.monotonic()):
            self._settle(outcome, time.monotonic())

    def _wakes_s(self, deliveries: list[Delivery], sent_s: float) -> float:
        """When something needs to be done unless something happens before. ``sent_s``: when it was last seen which lanes may send.
        Those that may since then have not been seen."""
        wakes = [lane.wakes_s(sent_s) for one in deliveries for lane in one.lanes.values()]
        return min([sent_s + IDLE_SECONDS, *(at for at in (*wakes, self.leaders.looks_s) if at is not None)])

    def _add(self, delivery: Delivery, now_s: float) -> None:
        """Tells the coordinator where the transaction writes, before it does. Without a transaction nobody has to know."""
        new = [lane for lane in delivery.lanes.values() if not lane.is_added and lane.wants(now_s)]
        if not new:
            return
        for lane in new:
            self.leaders.of(lane.place)  # A topic that is gone is found out here: the coordinator only says "not yet".
            lane.is_added = not delivery.handle.is_transactional
        if not delivery.handle.is_transactional:
            return
        try:
            self._wire.add_partitions(delivery.handle, [lane.place for lane in new])
        except Refused as error:
            if error.code not in NOT_TAKEN:
                raise explained(error.code, self.where, new[0].place[0], self.trouble) from error
            self._hold(new, str(error), now_s)
        except Unavailable as error:
            self._hold(new, error.message, now_s)
        else:
            for lane in new:
                lane.is_added = True

    def _send(self, delivery: Delivery, now_s: float) -> None:
        """As many batches as may be on their way, those for the same broker together."""
        while by_leader := self._ready(delivery, now_s):
            for leader, lanes in by_leader.items():
                try:
                    self._exchange.connect(leader)
                except (OSError, MalformedAnswer) as error:
                    self._hold(lanes, f"{leader}: {error}", now_s)
                else:
                    self._ask(leader, delivery, lanes)

    def _ready(self, delivery: Delivery, now_s: float) -> dict[Address, list[Lane]]:
        by_leader: dict[Address, list[Lane]] = {}
        for lane in delivery.lanes.values():
            if lane.is_added and lane.has_turn and lane.wants(now_s):
                if (leader := self.leaders.of(lane.place)) is None:
                    lane.pause(now_s)
                else:
                    by_leader.setdefault(leader, []).append(lane)
        return by_leader

    def _ask(self, leader: Address, delivery: Delivery, lanes: list[Lane]) -> None:
        sent, size, now_ms = _Sent(delivery, {}), 0, time.time_ns() // 1_000_000
        for lane in lanes:
            batch = lane.send(now_ms)
            sent.batches[lane.place] = lane, batch
            size += batch.size_bytes
            if size > REQUEST_BYTES_MAX:
                break
        content = {place: batch.parts for place, (_, batch) in sent.batches.items()}
        encode = partial(produce, delivery.handle.transactional_id, content, client_id=self._client_id)
        self._exchange.ask(leader, sent, encode, read_produced)

    def _settle(self, outcome: Outcome[_Sent, dict[Partition, int]], now_s: float) -> None:
        delivery, codes = outcome.subject.delivery, outcome.answer or {}
        for place, (lane, batch) in outcome.subject.batches.items():
            code = codes.get(place, Code.NETWORK_EXCEPTION)
            if code in WRITTEN:
                lane.taken(batch)
                delivery.taken(batch)
            elif code in NOT_TAKEN or (code == Code.OUT_OF_ORDER_SEQUENCE_NUMBER and lane.is_recovering):
                lane.lost(batch, now_s)
                self._hold([lane], outcome.lost or f"{name_of(code)} for {place[0]}-{place[1]}", now_s)
            else:
                self._fail(delivery, explained(code, self.where, place[0], self.trouble))

    def _fail(self, delivery: Delivery, failure: TidegateError) -> None:
        """And all behind it: their messages would have to wait for ever."""
        with self.changed:
            if delivery in self._deliveries:
                self._failure = self._failure or failure
                for one in self._deliveries[self._deliveries.index(delivery) :]:
                    one.fail(failure)

    def _hold(self, lanes: Iterable[Lane], why: str, now_s: float) -> None:
        """They are tried again a little later, when it is known again who leads them."""
        self.trouble = why
        for lane in lanes:
            lane.pause(now_s)
            self.leaders.doubt((lane.place[0],))
