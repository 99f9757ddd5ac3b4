"""Fetches ahead for all partitions that a slot reads. One thread, which owns the connections to the brokers."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping

import numpy as np

from tidegate.connectors.kafka.client.brokers import Brokers
from tidegate.connectors.kafka.client.exchange import Exchange, Outcome
from tidegate.connectors.kafka.client.feeds import NO_LOG, LogEnd
from tidegate.connectors.kafka.client.partition_leaders import PartitionLeaders
from tidegate.connectors.kafka.client.refusals import explained
from tidegate.connectors.kafka.client.security import Security
from tidegate.connectors.kafka.client.stream import Stream
from tidegate.connectors.kafka.protocol.codec import SPARE_BYTES, MalformedAnswer
from tidegate.connectors.kafka.protocol.errors import NOT_TAKEN, Code, name_of
from tidegate.connectors.kafka.protocol.fetching import (
    EARLIEST,
    Fetch,
    FetchedPartition,
    Limits,
    Wanted,
    beginnings,
    ends,
    fetch,
)
from tidegate.connectors.kafka.protocol.metadata import Partition
from tidegate.connectors.kafka.protocol.requests import Address, Request
from tidegate.connectors.kafka.protocol.unpacking import Received, extent
from tidegate.model.errors import Bug, TidegateError, Unavailable

log = logging.getLogger("tidegate.connectors.kafka")

FAREWELL_SECONDS = 2.0
"""A thread that waits for a broker longer than that ends when its waiting does."""
IDLE_SECONDS = 1.0
BREATH_SECONDS = 0.003
"""Between questions while little comes: what is saved is a round trip for every few messages, here and on the broker."""
LITTLE_BYTES = 65_536
_PASSING = NOT_TAKEN | {Code.OFFSET_NOT_AVAILABLE, Code.UNKNOWN_TOPIC_ID, Code.INCONSISTENT_TOPIC_ID}
"""The partition is elsewhere, or will be back; the enumerator sees topics that vanish."""

Question = dict[Partition, tuple[Stream, int]]
"""What was asked for: the streams with their versions."""
Answer = Fetch | dict[Partition, tuple[int, int]]


class Fetcher:
    """Streams are added and removed by the slot's thread. Whatever may pass is tried again for as long as a stream is there."""

    def __init__(
        self,
        options: Mapping[str, str],
        brokers: Brokers,
        limits: Limits,
        bytes_max: int,
        *,
        committed_only: bool,
        without_lost_topics: bool = False,
    ) -> None:
        """``bytes_max``: no more than about that waits for the slot.
        ``without_lost_topics``: those that do not exist any more have nothing to read; otherwise they are waited for."""
        self.lock = threading.Lock()
        self.failure: TidegateError | None = None
        self._where = options["bootstrap.servers"]
        self._stop = brokers.stop  # which ends its patience, too
        self._brokers = brokers
        security = Security.of(options)
        self._client_id = security.client_id
        self._exchange: Exchange[Question, Answer] = Exchange(security)
        self._leaders = PartitionLeaders(brokers)
        self._limits, self._bytes_max, self._committed_only = limits, bytes_max, committed_only
        self._without_lost_topics = without_lost_topics
        self._streams: dict[Partition, Stream] = {}
        """In the order in which brokers are asked for them: they fill an answer from the front."""
        self._held_up = False
        """Something was not asked for because too much waits for the slot."""
        self._trouble = ""
        self._thread = threading.Thread(target=self._run, name="tidegate-kafka-fetcher", daemon=True)
        self._thread.start()

    def add(self, stream: Stream) -> None:
        with self.lock:
            self._streams[stream.place] = stream
        self.wake()

    def remove(self, stream: Stream) -> None:
        with self.lock:
            if self._streams.get(stream.place) is stream:
                del self._streams[stream.place]
            stream.begin(EARLIEST)

    def wake(self) -> None:
        """There is something to do."""
        self._exchange.wake()

    def take(self, stream: Stream, together_bytes: int) -> list[Received]:
        """What has come of it: several answers, if they are small."""
        with self.lock:
            first = stream.take()
            if first is None:
                return []
            some = [first, *stream.take_more(together_bytes - first.size_bytes)]
            held_up, self._held_up = self._held_up, False
        if held_up:
            self.wake()
        return some

    def close(self) -> None:
        self._stop.set()
        self.wake()
        if threading.current_thread() is not self._thread:  # which may be the one that collects what nobody closed
            self._thread.join(FAREWELL_SECONDS)

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                self._step()
        except TidegateError as error:
            self.failure = error
        except MalformedAnswer as error:
            self.failure = Unavailable(f"Kafka at {self._where} sent what cannot be read: {error}")
        except Exception as error:  # Whoever reads must hear of it.
            log.exception("the thread that fetches from Kafka has ended")
            self.failure = Bug(f"the thread that fetches from Kafka has ended: {error!r}")
        finally:
            self._exchange.close()
            self._brokers.close()

    def _step(self) -> None:
        now_s = time.monotonic()
        try:
            self._leaders.look(now_s)
        except Unavailable as error:
            self._complain(error.message)
        for leader, streams in self._ready(now_s).items():
            self._ask(leader, streams, now_s)
        for outcome in self._exchange.wait(self._wakes_s(now_s) - time.monotonic()):
            self._heed(outcome, time.monotonic())

    def _wakes_s(self, asked_s: float) -> float:
        """When something needs to be done unless something happens before. ``asked_s``: when it was last seen who can be asked.
        What became due since then must not be taken for asked."""
        with self.lock:
            asks = [one.asks_s for one in self._streams.values() if one.asks_s > asked_s and not one.is_asked]
        return min([asked_s + IDLE_SECONDS, *(at for at in (*asks, self._leaders.looks_s) if at is not None)])

    def _ready(self, now_s: float) -> dict[Address, list[Stream]]:
        """Who can be asked now, and for what. A broker answers one question at a time."""
        by_leader: dict[Address, list[Stream]] = {}
        with self.lock:
            full = sum(one.received_bytes for one in self._streams.values()) > self._bytes_max
            for stream in self._streams.values():
                if stream.is_asked or stream.found_loss or stream.asks_s > now_s:
                    continue
                if stream.received_bytes > 2 * self._limits.partition_bytes_max or (full and stream.received):
                    self._held_up = True
                    continue
                leader = self._leaders.of(stream.place)
                if leader is None:
                    self._tell_who_leads(stream)
                elif not self._exchange.is_asked(leader):
                    by_leader.setdefault(leader, []).append(stream)
        return by_leader

    def _tell_who_leads(self, stream: Stream) -> None:
        """Nobody does, or nobody knows."""
        stream.is_sure = False
        stream.trouble = self._leaders.why_none(stream.place) or stream.trouble
        gone_s = self._leaders.gone_s(stream.place[0])
        if gone_s is not None and self._without_lost_topics:
            stream.log_end, stream.trouble = LogEnd(NO_LOG, gone_s), ""

    def _ask(self, leader: Address, streams: list[Stream], now_s: float) -> None:
        try:
            self._exchange.connect(leader)
        except (OSError, MalformedAnswer) as error:
            with self.lock:
                self._hold(streams, f"{leader}: {error}", now_s)
            return
        with self.lock:
            new = [stream for stream in streams if stream.following == EARLIEST]
            unsure = [stream for stream in streams if stream.asks_end]
            asked = new or unsure or streams
            question: Question = {stream.place: (stream, stream.version) for stream in asked}
            wanted = {stream.place: Wanted(stream.following, stream.epoch) for stream in asked}
            for stream in asked:
                stream.is_asked = True
        request: Request[Answer]
        if new:
            request = beginnings(wanted)  # pyright: ignore[reportAssignmentType]
        elif unsure:
            request = ends(wanted)  # pyright: ignore[reportAssignmentType]
        else:
            request = fetch(wanted, self._limits, committed_only=self._committed_only)  # pyright: ignore[reportAssignmentType]
        self._exchange.ask(leader, question, lambda number: (request.encode(number, self._client_id),), request.decode)

    def _heed(self, outcome: Outcome[Question, Answer], now_s: float) -> None:
        with self.lock:
            current = {
                place: stream for place, (stream, version) in outcome.subject.items() if stream.version == version
            }
            for stream in current.values():
                stream.is_asked = False
            match outcome.answer:
                case None:
                    self._hold(list(current.values()), outcome.lost, now_s)
                case Fetch() as answer:
                    for place, stream in current.items():
                        part = answer.partitions.get(place)
                        code = answer.error or (part.error if part is not None else Code.NETWORK_EXCEPTION)
                        if self._goes_well(stream, code, now_s) and part is not None:
                            self._receive(stream, part, answer.data, now_s)
                case answer:
                    for place, stream in current.items():
                        code, offset = answer.get(place, (Code.NETWORK_EXCEPTION, EARLIEST))
                        if self._goes_well(stream, code, now_s):
                            self._learn_edge(stream, offset, now_s)

    def _learn_edge(self, stream: Stream, offset: int, now_s: float) -> None:
        if stream.following == EARLIEST:
            stream.following = offset
        else:
            stream.is_sure, stream.asks_end = True, False
            stream.log_end = LogEnd(offset, now_s)

    def _receive(self, stream: Stream, part: FetchedPartition, data: bytes | memoryview, now_s: float) -> None:
        if part.diverges:
            stream.found_loss = "the log has another history: what was read before has been cut off"
            return
        start, end = part.place
        if end > start:
            assert isinstance(data, memoryview), "it comes from a pipeline"
            content = np.frombuffer(data.obj, np.uint8)[start : end + SPARE_BYTES]  # pyright: ignore[reportCallIssue, reportArgumentType]
            whole, following, epoch = extent(content, end - start)
            if not whole:
                raise MalformedAnswer(f"{end - start} bytes of {stream.place} without a whole batch")
            received = Received(content[: whole + SPARE_BYTES], stream.following, part.aborted)
            stream.arrived(received, following, epoch)
            self._streams[stream.place] = self._streams.pop(stream.place)  # the others come before it the next time
        if stream.following >= part.end:
            stream.found_end = stream.following
        if stream.is_sure or part.high_watermark > stream.following:
            stream.log_end = LogEnd(part.high_watermark, now_s)
        else:
            stream.asks_end = True
        if end - start < LITTLE_BYTES:
            stream.asks_s = now_s + BREATH_SECONDS

    def _goes_well(self, stream: Stream, code: int, now_s: float) -> bool:
        if not code:
            stream.pauses.begin_again()
            self._trouble = stream.trouble = ""
            return True
        if code == Code.OFFSET_OUT_OF_RANGE:
            stream.found_loss = name_of(code)
        elif code in _PASSING:
            self._hold([stream], f"{name_of(code)} for {stream.place[0]}-{stream.place[1]}", now_s)
            stream.trouble = name_of(code)
        else:
            raise explained(code, self._where, stream.place[0], self._trouble)
        return False

    def _hold(self, streams: list[Stream], why: str, now_s: float) -> None:
        """They are asked for again a little later, when it is known again who leads them."""
        if not all(stream.trouble for stream in streams):
            self._complain(why)
        for stream in streams:
            stream.trouble, stream.is_sure, stream.asks_end = why, False, False
            stream.asks_s = now_s + stream.pauses.next_s()
            self._leaders.doubt(stream.place)

    def _complain(self, why: str) -> None:
        if not self._trouble:
            log.warning("the Kafka source has trouble with the brokers and keeps trying: %s", why)
        self._trouble = why
