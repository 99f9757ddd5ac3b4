"""A writer that does not wait between checkpoints, as slots do not: one key per partition, numbers that rise."""

from __future__ import annotations

import itertools
import queue
import threading
from collections.abc import Sequence
from types import TracebackType

import polars as pl
from tests.integration.connectors.kafka_sink_kit import HandSink
from tests.integration.connectors.test_kafka_cluster import commit_as_a_driver
from tests.servers.kafka import Broker

from tidegate.model.errors import TidegateError
from tidegate.model.ids import CheckpointId
from tidegate.model.snapshot import Committable
from tidegate.model.types import INTEGER, STRING, Field, Schema

SCHEMA: Schema = (Field("key", STRING), Field("value", STRING), Field("partition", INTEGER))


def numbered(begin: int, end: int, partitions: Sequence[int]) -> pl.DataFrame:
    """These numbers in each of the partitions."""
    numbers = pl.DataFrame({"value": pl.int_range(begin, end, eager=True)})
    places = pl.DataFrame({"partition": partitions}, schema={"partition": pl.Int32})
    return numbers.join(places, how="cross").select(
        key=pl.format("k{}", "partition"), value=pl.col("value").cast(pl.String), partition="partition"
    )


class Overlapping:
    """One subtask: writes on while another thread settles what was sealed and commits it, checkpoint by checkpoint."""

    def __init__(self, hand: HandSink, partitions: Sequence[int], *, begin: int = 0, checkpoint: int = 0) -> None:
        self._hand = hand
        self._subtask = partitions[0]
        self._partitions = partitions
        self.count = begin
        """Numbers below are written."""
        self._newest = checkpoint
        self._sealed: queue.SimpleQueue[tuple[int, tuple[Committable, ...]] | None] = queue.SimpleQueue()
        self._committed: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._failure: TidegateError | None = None
        self._thread = threading.Thread(target=self._settle, name="settling")

    def __enter__(self) -> Overlapping:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """All that was sealed is committed."""
        self._sealed.put(None)
        self._thread.join()
        if error is None and self._failure is not None:
            raise self._failure

    def write(self, rows: int) -> None:
        some = numbered(self.count, self.count + rows, self._partitions)
        if self._hand.config.columns.has_headers:
            header = pl.struct(key=pl.lit("n"), value=pl.col("value").cast(pl.Binary))
            odd = pl.col("value").cast(pl.Int64) % 2 == 1
            some = some.with_columns(headers=pl.when(odd).then(pl.concat_list(header)))
        self._hand.writer(self._subtask).write(some)
        self.count += rows

    def checkpoint(self) -> None:
        while not self._committed.empty():
            self._hand.writer(self._subtask).on_committed(CheckpointId(self._committed.get()))
        self._newest += 1
        self._sealed.put((self._newest, self._hand.seal(self._newest, self._subtask)))

    def go_on(self, checkpoints: int, batches: int = 4, rows: int = 2_000) -> None:
        for _ in range(checkpoints):
            for _ in range(batches):
                self.write(rows)
            self.checkpoint()

    def _settle(self) -> None:
        try:
            while (sealed := self._sealed.get()) is not None:
                checkpoint, prepared = sealed
                self._hand.writer(self._subtask).settle(CheckpointId(checkpoint))
                commit_as_a_driver(self._hand, prepared)
                self._committed.put(checkpoint)
        except TidegateError as failure:
            self._failure = failure


def assert_rising(broker: Broker, topic: str, counts: Sequence[int]) -> None:
    """What a reader of committed rows has: in partition n every number below ``counts[n]``, each once, in order."""
    found = broker.read(topic, sum(counts))
    for partition, count in enumerate(counts):
        seen = [int(m.value() or b"-1") for m in found if m.partition() == partition]
        breaks = [(before, after) for before, after in itertools.pairwise(seen) if after != before + 1]
        assert not breaks, f"partition {partition}: {len(breaks)} breaks in {len(seen)} rows: {breaks[:5]}"
        assert seen == list(range(count)), f"partition {partition}: {len(seen)} of {count} rows"
