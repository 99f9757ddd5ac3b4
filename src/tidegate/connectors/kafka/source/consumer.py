"""Partitions read by one slot: whole answers of brokers become columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import polars as pl

from tidegate.connectors.kafka.client.brokers import Brokers
from tidegate.connectors.kafka.client.feeds import SILENT_SECONDS, Chunk
from tidegate.connectors.kafka.client.fetcher import Fetcher
from tidegate.connectors.kafka.client.group_offsets import GroupOffsets
from tidegate.connectors.kafka.client.stream import Stream
from tidegate.connectors.kafka.config import KafkaSourceConfig
from tidegate.connectors.kafka.protocol.codec import MalformedAnswer
from tidegate.connectors.kafka.protocol.records import Records
from tidegate.connectors.kafka.protocol.unpacking import Heads, Received, check, joined, readable, unpacked
from tidegate.connectors.kafka.source.cluster import ANSWER_TIMEOUT_S
from tidegate.connectors.kafka.source.selection import Place
from tidegate.connectors.kafka.source.splits import EARLIEST
from tidegate.model.errors import Unavailable

TOGETHER_BYTES = 262_144
"""Answers smaller than that are read together, up to so many bytes: taking one apart has a price of its own."""

ToRows = Callable[[Records, Place], pl.DataFrame]


class PartitionConsumer:
    """Used by the thread of one slot."""

    def __init__(self, config: KafkaSourceConfig, to_rows: ToRows) -> None:
        """``to_rows``: makes the rows of records, which it may not keep."""
        self._group = None if config.group is None else GroupOffsets(config.client, config.group)
        self._fetcher = Fetcher(
            config.client,
            Brokers(config.client, ANSWER_TIMEOUT_S),
            config.limits,
            config.queue_bytes_max,
            committed_only=config.committed_only,
            without_lost_topics=not config.fail_on_data_loss,
        )
        self._patience_s = SILENT_SECONDS + config.limits.wait_ms / 1_000
        self._to_rows = to_rows
        self._closed = False

    def add(self, place: Place, offset: int) -> Stream:
        """Begins to fetch from ``offset``, ``EARLIEST`` allowed."""
        # Other negative numbers are no places in a log.
        assert offset >= 0 or offset == EARLIEST, f"{place} has no offset {offset}"
        stream = Stream(place, patience_s=self._patience_s)
        stream.begin(offset)
        self._fetcher.add(stream)
        return stream

    def seek(self, feed: Stream, offset: int) -> None:
        """Throws away what was fetched and begins again from ``offset``."""
        with self._fetcher.lock:
            feed.begin(offset)
        self._fetcher.wake()

    def remove(self, feed: Stream) -> None:
        self._fetcher.remove(feed)

    def take(self, feed: Stream, rows_max: int) -> Chunk | None:
        """What there is of this partition."""
        if not feed.chunks:
            if self._fetcher.failure is not None:
                raise self._fetcher.failure
            self._unpack(feed)
        return feed.hand_out(rows_max) if feed.chunks else None

    def commit(self, offsets: Iterable[tuple[Place, int]]) -> None:
        """For information only, without waiting. Nothing is ever read from there."""
        if self._group is not None:
            self._group.commit({place: offset for place, offset in offsets if offset >= 0})

    def close(self) -> None:
        """Waits a moment for offsets that are being committed, and for the thread. Brokers that are gone are not waited for."""
        if not self._closed:
            self._closed = True
            if self._group is not None:
                self._group.close()
            self._fetcher.close()

    def __del__(self) -> None:
        self.close()

    def _unpack(self, feed: Stream) -> None:
        some = self._fetcher.take(feed, TOGETHER_BYTES)
        if not some:
            return
        where = f"{feed.place[0]}-{feed.place[1]}"
        try:
            parts = unpacked_rows(joined(some), where)
            rows = [self._to_rows(part, feed.place) for part in parts]
        except (MalformedAnswer, IndexError) as error:  # a length that leads behind the end
            raise Unavailable(f"messages of {where} cannot be read: {error}") from error
        if parts:
            feed.chunks.append(Chunk(pl.concat(rows), np.concatenate([part.offsets for part in parts])))


def unpacked_rows(received: Received, where: str) -> list[Records]:
    """Those that were asked for: the first batch may begin before."""
    heads = Heads(received.data)
    check(heads, received.data, where)
    chosen = readable(heads, received.aborted)
    if not len(chosen):
        return []
    parts = [
        part.after(int(np.searchsorted(part.offsets, received.offset)))
        for part in unpacked(received.data, heads, chosen)
    ]
    return [part for part in parts if len(part)]
