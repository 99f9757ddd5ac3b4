"""How much is under way: enough to keep the reader busy, and no more than it takes in a moment."""

from __future__ import annotations

from collections import deque

import polars as pl
import pytest

from tidegate.model.elements import Barrier, Batch, Element
from tidegate.model.ids import ChannelId, CheckpointId, SlotIndex
from tidegate.runtime.output_channel import OutputChannel
from tidegate.runtime.window import ROWS_AT_START, ROWS_MIN, Window

TIME_MAX_MS = 1_000
BATCHES_MAX = 16
BATCH_ROWS = 32_768


def test_a_light_stream_never_shrinks_it() -> None:
    window = Window(TIME_MAX_MS, 1 << 20)
    for _ in range(100):
        window.consumed(3, rows_ahead=3, took_ms=900.0)
    assert window.rows == ROWS_AT_START


def test_a_fast_reader_opens_it_within_a_few_batches() -> None:
    window = Window(TIME_MAX_MS, 1 << 20)
    for _ in range(13):
        window.consumed(10, rows_ahead=window.rows, took_ms=1.0)
    assert window.rows == 1 << 20


def test_a_slow_reader_closes_it_to_what_it_takes_in_time_and_never_to_nothing() -> None:
    window = Window(TIME_MAX_MS, 1 << 20)
    window.consumed(100, rows_ahead=400, took_ms=2_500.0)
    assert window.rows == 200
    window.consumed(100, rows_ahead=100, took_ms=200_000.0)
    assert window.rows == ROWS_MIN


class SlowReader:
    """A channel, a writer that always has rows, and a reader that takes ``rows_per_ms``, all by one clock."""

    def __init__(self, rows_per_ms: float) -> None:
        self.now_ms = 0.0
        self.rows_read = 0
        self.idle_ms = 0.0
        self.under_way_max = 0
        self._rows_per_ms = rows_per_ms
        self._queue: deque[Element] = deque()
        self._busy_until_ms = 0.0
        self._rows = pl.DataFrame({"n": range(BATCH_ROWS)})
        self.channel = OutputChannel(
            ChannelId(0, SlotIndex(0), SlotIndex(1)),
            lambda _, __, element: self._queue.append(element),
            batches_max=BATCHES_MAX,
            bytes_max=16 << 20,
            target_rows=BATCH_ROWS,
            time_max_ms=TIME_MAX_MS,
            now=lambda: self.now_ms,
        )

    def run(self, for_ms: float, *, until_barrier: bool = False) -> float:
        """Until the time is over or the barrier is read. Returns how long it ran."""
        began_ms = self.now_ms
        while self.now_ms - began_ms < for_ms:
            while not self.channel.full:
                self.channel.put(Batch(self._rows.head(min(BATCH_ROWS, self.channel.rows_wanted))))
            self.under_way_max = max(self.under_way_max, sum(isinstance(one, Batch) for one in self._queue))
            if not self._queue:
                self.idle_ms += 1.0
                self.now_ms += 1.0
                continue
            element = self._queue.popleft()
            if isinstance(element, Barrier):
                if until_barrier:
                    return self.now_ms - began_ms
                continue
            assert isinstance(element, Batch)
            self.channel.grant(1)
            self.rows_read += element.rows.height
            self.now_ms += element.rows.height / self._rows_per_ms
        return self.now_ms - began_ms


@pytest.mark.parametrize("rows_per_ms", [0.1, 1.0, 30.0, 1_000.0, 20_000.0])
def test_a_barrier_gets_through_in_a_few_times_the_bound_and_the_reader_is_never_idle(rows_per_ms: float) -> None:
    """Without the bound half a million rows are under way: at 100 rows a second the barrier stands behind them for an hour."""
    reader = SlowReader(rows_per_ms)
    reader.run(40_000)
    reader.channel.put(Barrier(CheckpointId(1)))
    took_ms = reader.run(100_000, until_barrier=True)
    smallest_ms = 2 * ROWS_MIN / rows_per_ms
    assert took_ms <= 3 * TIME_MAX_MS + smallest_ms
    assert reader.idle_ms <= 0.02 * reader.now_ms + 5.0


def test_a_fast_reader_gets_full_batches() -> None:
    reader = SlowReader(50_000.0)
    reader.run(50)
    sizes: list[int] = []
    for _ in range(20):
        before = reader.rows_read
        reader.run(0.1)
        sizes.append(reader.rows_read - before)
    assert max(sizes) >= BATCH_ROWS
