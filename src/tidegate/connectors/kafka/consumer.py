"""One client per slot and source for all the partitions it reads. It fetches ahead in threads of its own; Python only collects.

No consumer group is joined: partitions are given, and a rebalance elsewhere changes nothing.
"""

from __future__ import annotations

import ctypes
import time
import uuid
from collections.abc import Callable, Iterable

import numpy as np
import polars as pl
from confluent_kafka import OFFSET_BEGINNING, KafkaError

from tidegate.connectors.kafka.client import ClientConfig, Complaints, log, typed
from tidegate.connectors.kafka.cluster import LOG_END_SECONDS
from tidegate.connectors.kafka.config import FETCH_DEFAULTS, KafkaSourceConfig
from tidegate.connectors.kafka.feeds import SILENT_SECONDS, Chunk, Feed
from tidegate.connectors.kafka.fetched import Fetched, runs
from tidegate.connectors.kafka.librdkafka import (
    CONSUMER,
    ERROR_TEXT_BYTES,
    ON_COMMIT,
    ON_ERROR,
    WITHOUT_LEAVING,
    LibraryError,
    ask_about,
    library,
    raise_for,
    text_of,
)
from tidegate.connectors.kafka.log_ends import ASK_SECONDS, LogEnds, Questions
from tidegate.connectors.kafka.selection import Place
from tidegate.connectors.kafka.splits import EARLIEST
from tidegate.model.errors import InvalidQuery, Unavailable

MESSAGES_MAX = 65_536
"""Most that one call collects."""
COMMIT_WAIT_S = 1.0
LOOK_MS = 20
LEADERS_WAIT_MS = 500
"""Longer than that it takes the client to find them by itself."""

_DEFAULTS = {
    # What is fetched ahead waits at most this long once there is room again. The library's own second would be a second of
    # standing still for every 100,000 messages.
    "fetch.queue.backoff.ms": "5",
    "queued.min.messages": "100000",
    **FETCH_DEFAULTS,
}
_FIXED = {
    "enable.auto.commit": "false",
    "enable.auto.offset.store": "false",
    "auto.offset.reset": "error",
    "enable.partition.eof": "true",
    "allow.auto.create.topics": "false",
    "max.poll.interval.ms": "86400000",
    # Of a group nothing is wanted but that it takes offsets; this is how long it may take, also when the client is closed.
    "session.timeout.ms": "1500",
    "heartbeat.interval.ms": "1000",
}
_GONE = frozenset({KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._LOG_TRUNCATION})
_PASSING = frozenset(
    {
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._UNKNOWN_PARTITION,
        KafkaError.UNKNOWN_TOPIC_ID,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._TIMED_OUT,
        KafkaError._RESOLVE,
        KafkaError._MAX_POLL_EXCEEDED,
    }
)
"""The client goes on by itself when the cause is gone; the enumerator sees topics that vanish."""

ToRows = Callable[[Fetched], pl.DataFrame]


class SharedConsumer:
    """Used by the thread of one slot."""

    def __init__(self, config: KafkaSourceConfig, to_rows: ToRows, cluster: Callable[[], Questions]) -> None:
        """``to_rows``: makes the rows of fetched messages, which it may not keep."""
        self._queue: int | None = None
        """None: closed."""
        self._config = config
        self._to_rows = to_rows
        self._complaints = Complaints(config.what)
        self._log_ends = LogEnds(cluster, without_lost_topics=not config.fail_on_data_loss)
        self._feeds: dict[Place, Feed] = {}
        self._waiting = 0
        """Chunks in all feeds."""
        self._found: set[str] = set()
        """Topics whose leaders were asked for."""
        self._committing = 0
        """Questions to the group's coordinator without an answer."""
        self._addresses = np.zeros(MESSAGES_MAX, np.uint64)
        # Kept as long as the client: it calls them.
        self._callbacks = ON_ERROR(self._on_error), ON_COMMIT(self._on_commit)
        group = {"group.id": config.group or f"tidegate-{uuid.uuid4().hex}"}
        try:
            self._client = _new_consumer(_DEFAULTS | config.client | _FIXED | group, *self._callbacks)
        except LibraryError as error:
            raise InvalidQuery(
                f"the {config.what} has an unusable kafka.* option: {error.text}",
                hint="the options are those of Kafka's Java client or of librdkafka, prefixed with kafka.",
            ) from error
        self._queue = library().rd_kafka_queue_get_consumer(self._client)

    def add(self, place: Place, offset: int) -> Feed:
        """Begins to fetch from ``offset``, ``EARLIEST`` allowed."""
        # Other negative numbers mean other places to librdkafka, the end among them.
        assert offset >= 0 or offset == EARLIEST, f"{place} has no offset {offset}"
        feed = Feed(place, patience_s=ASK_SECONDS + LOG_END_SECONDS + SILENT_SECONDS)
        self._assign(feed, offset)
        return feed

    def seek(self, feed: Feed, offset: int) -> None:
        """Throws away what was fetched and begins again from ``offset``."""
        self.remove(feed)
        feed.end, feed.lost = -1, ""
        self._assign(feed, offset)

    def remove(self, feed: Feed) -> None:
        if self._queue is not None and self._feeds.pop(feed.place, None) is not None:
            self._waiting -= len(feed.chunks)
            feed.chunks.clear()
            with _Places([(feed.place, 0)]) as places:
                self._do(library().rd_kafka_incremental_unassign(self._client, places))

    def take(self, feed: Feed, rows_max: int) -> Chunk | None:
        """What there is of this partition. Collects for all of them when nothing is waiting for any."""
        if not self._waiting:
            self._collect(min(rows_max, MESSAGES_MAX))
        if not feed.chunks:
            self._log_ends.nothing_of(feed)
            return None
        before = len(feed.chunks)
        chunk = feed.hand_out(rows_max)
        self._waiting -= before - len(feed.chunks)
        return chunk

    def commit(self, offsets: Iterable[tuple[Place, int]]) -> None:
        """For information only, without waiting. Nothing is ever read from there."""
        known = [(place, offset) for place, offset in offsets if offset >= 0]
        if not known or self._config.group is None:
            return
        with _Places(known) as places:
            code = library().rd_kafka_commit(self._client, places, 1)
        self._committing += not code
        self._tell_uncommitted(code)

    def close(self) -> None:
        """Waits a moment for offsets that are being committed, and for the client's threads. Brokers that are gone are not waited for."""
        if self._queue is None:
            return
        until = time.monotonic() + COMMIT_WAIT_S
        while self._committing and time.monotonic() < until:
            self._drop(LOOK_MS)
        library().rd_kafka_queue_destroy(self._queue)
        self._queue = None
        library().rd_kafka_destroy_flags(self._client, WITHOUT_LEAVING)

    def __del__(self) -> None:
        self.close()

    def _assign(self, feed: Feed, offset: int) -> None:
        self._feeds[feed.place] = feed
        if offset == EARLIEST:
            self._find_leaders(feed.place[0])
        with _Places([(feed.place, OFFSET_BEGINNING if offset == EARLIEST else offset)]) as places:
            self._do(library().rd_kafka_incremental_assign(self._client, places))

    def _find_leaders(self, topic: str) -> None:
        """Before the client is asked for the beginning of a log whose leader it does not know: it would wait half a second for the answer."""
        if topic in self._found:
            return
        self._found.add(topic)
        if handle := library().rd_kafka_topic_new(self._client, topic.encode(), None):
            ask_about(self._client, handle, LEADERS_WAIT_MS)
            library().rd_kafka_topic_destroy(handle)

    def _do(self, error: int | None) -> None:
        try:
            raise_for(error)
        except LibraryError as failure:
            raise Unavailable(f"the {self._config.what} cannot be given partitions: {failure.text}") from failure

    def _collect(self, count: int) -> None:
        got = library().rd_kafka_consume_batch_queue(self._queue, 0, self._addresses.ctypes.data, count)
        if got <= 0:
            return
        fetched = Fetched(self._addresses[:got])
        try:
            if fetched.errors.any():
                self._heed(fetched)
                sound = np.flatnonzero(fetched.errors == 0)
                if len(sound):
                    self._keep(fetched.only(sound))
            else:
                self._keep(fetched)
        finally:
            fetched.release()

    def _drop(self, wait_ms: int) -> None:
        """Lets the client call back. What it has fetched meanwhile is nobody's any more."""
        got = library().rd_kafka_consume_batch_queue(self._queue, wait_ms, self._addresses.ctypes.data, MESSAGES_MAX)
        if got > 0:
            Fetched(self._addresses[:got]).release()

    def _keep(self, fetched: Fetched) -> None:
        """Cut into runs of one partition, in order. The client fetches by partition, so runs are long."""
        rows = self._to_rows(fetched)
        names, numbers = fetched.topics()
        for start, stop in runs(fetched.partitions, numbers):
            feed = self._feeds.get((names[numbers[start]], int(fetched.partitions[start])))
            if feed is not None:
                feed.chunks.append(Chunk(rows.slice(start, stop - start), fetched.offsets[start:stop]))
                self._waiting += 1

    def _heed(self, fetched: Fetched) -> None:
        """Errors among messages are news about partitions."""
        names, numbers = fetched.topics()
        for at in np.flatnonzero(fetched.errors).tolist():
            feed = self._feeds.get((names[numbers[at]], int(fetched.partitions[at])))
            code = int(fetched.errors[at])
            if code == KafkaError._PARTITION_EOF:
                self._complaints.recovered()
                if feed is not None:
                    feed.end = int(fetched.offsets[at])
            elif code in _GONE:
                if feed is not None:
                    feed.lost = fetched.text(at)
            else:
                error = KafkaError(code, fetched.text(at))
                if code not in _PASSING:
                    raise typed(error, self._complaints, self._config.servers, self._config.what)
                self._complaints(error)

    def _on_error(self, client: int, code: int, text: bytes, opaque: object) -> None:
        self._complaints(KafkaError(code, (text or b"").decode(errors="replace")))

    def _on_commit(self, client: int, code: int, offsets: object, opaque: object) -> None:
        self._committing -= 1
        self._tell_uncommitted(code)

    def _tell_uncommitted(self, code: int) -> None:
        if code and code != KafkaError._NO_OFFSET:
            log.warning("offsets cannot be committed to group %s: %s", self._config.group, text_of(code))


class _Places:
    """Partitions with offsets as librdkafka takes them, while the ``with`` lasts."""

    def __init__(self, places: list[tuple[Place, int]]) -> None:
        self._list: int = library().rd_kafka_topic_partition_list_new(len(places))
        for (topic, partition), offset in places:
            library().rd_kafka_topic_partition_list_add(self._list, topic.encode(), partition)
            library().rd_kafka_topic_partition_list_set_offset(self._list, topic.encode(), partition, offset)

    def __enter__(self) -> int:
        return self._list

    def __exit__(self, *exception: object) -> None:
        library().rd_kafka_topic_partition_list_destroy(self._list)


def _new_consumer(options: ClientConfig, on_error: object, on_commit: object) -> int:
    """LibraryError for an option that librdkafka does not know, or a value it does not take."""
    lib = library()
    buffer = ctypes.create_string_buffer(ERROR_TEXT_BYTES)
    configuration = lib.rd_kafka_conf_new()
    for name, value in options.items():
        if code := lib.rd_kafka_conf_set(configuration, name.encode(), str(value).encode(), buffer, ERROR_TEXT_BYTES):
            lib.rd_kafka_conf_destroy(configuration)
            raise LibraryError(code, buffer.value.decode(errors="replace"))
    lib.rd_kafka_conf_set_error_cb(configuration, on_error)
    lib.rd_kafka_conf_set_offset_commit_cb(configuration, on_commit)
    client = lib.rd_kafka_new(CONSUMER, configuration, buffer, ERROR_TEXT_BYTES)
    if not client:
        lib.rd_kafka_conf_destroy(configuration)
        raise LibraryError(-1, buffer.value.decode(errors="replace"))
    lib.rd_kafka_poll_set_consumer(client)
    return client
