"""Slot side of the Kafka source: opens partitions at offsets and hands out their rows."""

from __future__ import annotations

import logging
from concurrent.futures import Future

import msgspec
import numpy as np
import polars as pl

from tidegate.connectors.kafka.client.stream import Stream
from tidegate.connectors.kafka.config import parse_kafka
from tidegate.connectors.kafka.protocol.records import Records
from tidegate.connectors.kafka.source.cluster import Cluster
from tidegate.connectors.kafka.source.consumer import PartitionConsumer
from tidegate.connectors.kafka.source.emptiness import Emptiness
from tidegate.connectors.kafka.source.looks import Looks
from tidegate.connectors.kafka.source.selection import Place
from tidegate.connectors.kafka.source.splits import EARLIEST, KafkaPosition, KafkaSplit, decode_position, decode_split
from tidegate.connectors.legacy import Scan
from tidegate.connectors.rows import RowShape
from tidegate.model.errors import Unavailable
from tidegate.model.snapshot import Split, SplitPosition
from tidegate.ports.source import SourceConnector, SplitReader

log = logging.getLogger("tidegate.connectors.kafka")


class KafkaSource(SourceConnector):
    """All its readers share one client, which lives from the first ``open`` to ``close``."""

    def __init__(self, scan: Scan) -> None:
        self.config = parse_kafka(scan.format, scan.options)
        self._shape = RowShape(scan)
        self._consumer: PartitionConsumer | None = None
        self._cluster: Cluster | None = None
        self._looks: Looks | None = None
        self._topic_ids: dict[str, str] = {}

    def open(self, split: Split, position: bytes | None) -> KafkaReader | UnreadReader:
        described = decode_split(split.payload)
        offset = described.start if position is None else decode_position(position).offset
        if not self.config.selection.selects(*described.place):
            return UnreadReader(described, offset, "is not read any more")
        if position is not None and self._is_another(described):
            if self.config.fail_on_data_loss:
                raise self.config.lost(f"topic {described.topic} has been deleted and made again")
            return UnreadReader(described, offset, "is of a topic that has been deleted")
        if self._consumer is None:
            self._consumer = PartitionConsumer(self.config, self._rows)
        return KafkaReader(self, self._consumer, described, offset)

    def completed(self, positions: tuple[SplitPosition, ...]) -> None:
        """The offsets of a completed checkpoint go to the consumer group, for whoever watches it."""
        if self._consumer is not None:
            known = ((decode_split(one.split.payload).place, one.position) for one in positions)
            selects = self.config.selection.selects
            self._consumer.commit(
                (place, decode_position(at).offset) for place, at in known if at is not None and selects(*place)
            )

    def close(self) -> None:
        if self._consumer is not None:
            self._consumer.close()
        if self._cluster is not None:
            self._cluster.close()
        if self._looks is not None:
            self._looks.close()
        self._consumer = self._cluster = self._looks = None

    def cluster(self) -> Cluster:
        """For rare questions."""
        if self._cluster is None:
            self._cluster = Cluster(self.config)
        return self._cluster

    def end_of(self, place: Place) -> Future[int]:
        """Asks now, without waiting."""
        if self._looks is None:
            self._looks = Looks(self.config)
        return self._looks.end_of(place)

    def recreated(self, split: KafkaSplit) -> bool:
        """Asks now: whether the topic is not the one that the split was made of."""
        found = self.cluster().described([split.topic]).get(split.topic)
        return found is not None and bool(found.id) and bool(split.topic_id) and found.id != split.topic_id

    def _rows(self, records: Records, place: Place) -> pl.DataFrame:
        return self._shape.rows(records.frame(self._shape.columns, *place), "Kafka")

    def _is_another(self, split: KafkaSplit) -> bool:
        """As ``recreated``, asked once per topic. A topic that is not there may come back."""
        if not split.topic_id:
            return False
        if split.topic not in self._topic_ids:
            found = self.cluster().described([split.topic]).get(split.topic)
            self._topic_ids[split.topic] = found.id if found is not None else ""
        identity = self._topic_ids[split.topic]
        return bool(identity) and identity != split.topic_id


class KafkaReader(SplitReader):
    """Reads one partition. Position: the next offset; where nothing is left to read, the end of the log, behind markers of
    transactions and what compaction has removed."""

    def __init__(self, source: KafkaSource, consumer: PartitionConsumer, split: KafkaSplit, offset: int) -> None:
        self._source = source
        self._consumer = consumer
        self._split = split
        self._offset = offset
        self._asked: Future[int] | None = None
        self._feed: Stream | None = None if self.finished else consumer.add(split.place, offset)
        self._emptiness = None if self._feed is None else Emptiness(self._feed)

    def read(self, rows_max: int, now_ms: int) -> pl.DataFrame | None:
        if self._feed is None or self._emptiness is None:
            return None
        chunk = self._consumer.take(self._feed, rows_max)
        if chunk is None:
            self._look_around(self._feed)
            self._emptiness.nothing(self._offset)
            return None
        self._emptiness.rows()
        end = self._split.end
        if end is not None and chunk.offsets[-1] >= end:
            self._offset = end
            chunk = chunk.before(int(np.searchsorted(chunk.offsets, end)))
        else:
            self._offset = int(chunk.offsets[-1]) + 1
        return chunk.rows if len(chunk.offsets) else None

    @property
    def position(self) -> bytes:
        return msgspec.msgpack.encode(KafkaPosition(offset=self._offset))

    @property
    def finished(self) -> bool:
        end = self._split.end
        return end is not None and (self._offset >= end or end == 0)

    @property
    def empty_answers(self) -> int:
        """A broker that says nothing is no reason to go on without the rows of its partitions."""
        return self._emptiness.answers if self._emptiness is not None else 0

    @property
    def awaits_rows(self) -> bool:
        """Records are there that have not been handed out, or nobody says that there are none."""
        return self._emptiness is not None and not self.finished and self._emptiness.awaits_rows(self._offset)

    @property
    def unanswered(self) -> str:
        """For people: of which partition nobody says whether rows are there, and why; empty: somebody does."""
        why = "" if self._emptiness is None or self.finished else self._emptiness.unanswered(self._offset)
        return f"{self._split.topic}-{self._split.partition}: {why}" if why else ""

    def look(self) -> None:
        """Asks where the partition ends now, without waiting."""
        if self._feed is not None:
            self._asked = self._source.end_of(self._split.place)

    @property
    def caught_up(self) -> bool:
        """Everything that was there at the last look has been handed out; before the first, at the opening."""
        if self._feed is None or self.finished:
            return True
        if self._asked is None:
            return 0 <= self._feed.end <= self._offset
        if not self._asked.done():
            return False
        if self._asked.exception() is not None:
            self.look()
            return False
        return self._offset >= self._asked.result()

    def describe(self) -> str:
        at = "the beginning" if self._offset == EARLIEST else f"offset {self._offset}"
        return f"{self._split.topic}-{self._split.partition} {at}"

    def close(self) -> None:
        if self._feed is not None:
            self._consumer.remove(self._feed)
            self._feed = self._emptiness = None

    def _look_around(self, feed: Stream) -> None:
        """Nothing has come: because the log ends here, or because it does not reach here any more."""
        if feed.lost:
            self._go_on_after_loss(feed)
            return
        if feed.end < 0:
            return  # Not heard of yet: the position stays, EARLIEST included.
        self._offset = max(self._offset, feed.end)
        end = self._split.end
        if end is None or self._offset >= end:
            return
        # Short of the end that the run was given: the broker that answered lags behind, or the log has been cut.
        if self._asked is None:
            self.look()
        elif self._asked.done() and self._asked.exception() is None and self._asked.result() < end:
            feed.lost = f"it ended at {end} and now ends at {self._asked.result()}"
            self._go_on_after_loss(feed)

    def _go_on_after_loss(self, feed: Stream) -> None:
        config, place = self._source.config, self._split.place
        first, end = self._source.cluster().earliest([place])[place], self._source.cluster().latest([place])[place]
        text = f"{self.describe()} cannot be read, the log holds offsets {first} to {end} ({feed.lost})"
        if config.fail_on_data_loss:
            raise config.lost(text)
        if self._source.recreated(self._split):
            raise Unavailable(
                f"topic {self._split.topic} has been made again: it is read from its beginning, after a restart"
            )
        # Behind the end: everything that is left has been read.
        self._offset = min(max(self._offset, first), end)
        log.warning("%s; failOnDataLoss=false: goes on at offset %s", text, self._offset)
        if self._split.end is not None:
            self._split = msgspec.structs.replace(self._split, end=min(self._split.end, end))
        self._asked = None
        self._consumer.seek(feed, self._offset)


class UnreadReader(SplitReader):
    """A split of which nothing more is read, for a reason that has been told on the driver."""

    def __init__(self, split: KafkaSplit, offset: int, why: str) -> None:
        self._place: Place = split.place
        self._offset = offset
        self._why = why

    def read(self, rows_max: int, now_ms: int) -> pl.DataFrame | None:
        return None

    @property
    def position(self) -> bytes:
        return msgspec.msgpack.encode(KafkaPosition(offset=self._offset))

    @property
    def finished(self) -> bool:
        return True

    def describe(self) -> str:
        return f"{self._place[0]}-{self._place[1]} {self._why}"
