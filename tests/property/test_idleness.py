"""Rows that wait are not late: idle is a log whose source has answered, again and again, that there is nothing behind what has been read."""

from __future__ import annotations

from random import Random

import msgspec
import polars as pl
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.property import pipelines as p
from tests.property.test_slots import MAX_PARALLELISM, tight

from tidegate.model.config import QueryConfig
from tidegate.model.ids import OperatorId
from tidegate.plan.stages import build_graph
from tidegate.testing.scripted import ScriptedConnectors, ScriptedSink, ScriptedSource, ScriptedSplit
from tidegate.testing.slots import SlotHarness, Snapshot

SPLITS, ROWS = 6, 40
IDLE_MS = 20
FAR_S = 1_000
quick = settings(max_examples=20, deadline=None)


class Job:
    """Windows over one source, without an end to the run."""

    def __init__(self, random: Random, splits: list[ScriptedSplit], *, log: bool) -> None:
        self.random = random
        self.source = ScriptedSource(splits, batch_rows=random.randint(1, 20), hiccup=random.choice([0, 2, 3]), log=log)
        self.sink = ScriptedSink()
        self.config: QueryConfig = msgspec.structs.replace(
            tight(random), bounded=False, drain=False, idle_timeout_ms=IDLE_MS
        )
        self.store: dict[str, bytes] = {}
        self.attempt = 0

    def start(self, parallelism: int, restore: Snapshot | None = None) -> SlotHarness:
        counted = p.count_and_sum(p.watermark(p.scan(0, "#1"), "ts#1"), ("w#1", "k#1"), "v#1", number=0, window="w#1")
        self.attempt += 1
        return SlotHarness(
            build_graph(p.sink(counted), parallelism=parallelism, max_parallelism=MAX_PARALLELISM),
            ScriptedConnectors({OperatorId("source-0"): self.source}, {OperatorId("sink-0"): self.sink}),
            self.config,
            seed=self.random.randrange(1 << 32),
            attempt=self.attempt,
            restore=restore,
            store=self.store,
            # Answers, credit and rows take as long as they like: longer than the time after which a log may count as idle.
            step_ms=self.random.choice([0.0, 1.0, 30.0]),
        )

    @property
    def windows_out(self) -> int:
        return len(self.sink.rows())


def late_rows(harness: SlotHarness) -> int:
    return sum(one.late_rows for runtime in harness.slots.values() for one in runtime.progress().metrics)


def rows_read(harness: SlotHarness) -> int:
    metrics = [one for runtime in harness.slots.values() for one in runtime.progress().metrics]
    return sum(one.rows_out for one in metrics if one.operator.endswith("source-0"))


@quick
@given(seed=st.integers(0, 1 << 32), parallelism=st.integers(1, 3))
def test_whole_splits_are_never_idle_however_long_a_step_takes(seed: int, parallelism: int) -> None:
    """Rows in any order, some splits longer than others; and all that is over comes out."""
    random = Random(seed)
    job = Job(random, [ScriptedSplit(p.untidy(random, ROWS, "#1")) for _ in range(SPLITS)], log=False)
    harness = job.start(parallelism)
    harness.settle()
    assert rows_read(harness) == SPLITS * ROWS and late_rows(harness) == 0
    harness.checkpoint()
    largest_us = p.all_rows(job.source)["ts#1"].to_physical().max()
    assert isinstance(largest_us, int)
    over_us = largest_us // 1_000 * 1_000 - p.DELAY_S * p.SECOND_US
    windows = p.all_rows(job.source).select("w#1", "k#1").unique()
    assert job.windows_out == (windows["w#1"].to_physical() <= over_us).sum()


@quick
@example(seed=5524, parallelism=3)  # Answers come less often than the time after which a log may count as idle.
@given(seed=st.integers(0, 1 << 32), parallelism=st.integers(1, 3))
def test_logs_that_others_have_left_behind_are_not_late_while_they_have_rows(seed: int, parallelism: int) -> None:
    """However slowly they are read."""
    random = Random(seed)
    splits = [
        ScriptedSplit(p.rows(random, ROWS, "#1", start_s=FAR_S * number), closed=False) for number in range(SPLITS)
    ]
    harness = Job(random, splits, log=True).start(parallelism)
    harness.settle()
    assert rows_read(harness) == SPLITS * ROWS and late_rows(harness) == 0


@quick
@given(seed=st.integers(0, 1 << 32), parallelism=st.integers(1, 3))
def test_a_log_that_cannot_be_reached_holds_and_one_that_is_empty_does_not(seed: int, parallelism: int) -> None:
    """T72: silence is no answer."""
    random = Random(seed)
    silent = ScriptedSplit(p.rows(random, ROWS, "#1"), closed=False, reachable=False)
    empty = ScriptedSplit(p.rows(random, 0, "#1"), closed=False)
    splits = [silent, empty, ScriptedSplit(p.rows(random, ROWS, "#1", start_s=FAR_S), closed=False)]
    random.shuffle(splits)
    job = Job(random, splits, log=True)
    harness = job.start(parallelism)
    harness.settle()
    harness.checkpoint()
    assert job.windows_out == 0
    silent.reachable = True
    harness.settle()
    harness.checkpoint()
    assert late_rows(harness) == 0
    assert job.windows_out >= silent.rows.select("w#1", "k#1").n_unique()


@quick
@given(seed=st.integers(0, 1 << 32), before=st.integers(1, 3), after=st.integers(1, 3))
def test_what_comes_while_a_query_is_down_is_not_late_though_its_log_was_idle(
    seed: int, before: int, after: int
) -> None:
    """T71: that a log was idle when the checkpoint was taken says nothing about now."""
    random = Random(seed)
    idle = ScriptedSplit(p.rows(random, random.choice([0, 1]), "#1"), closed=False)
    busy = ScriptedSplit(p.rows(random, ROWS, "#1"), closed=False)
    splits = [idle, busy]
    random.shuffle(splits)
    job = Job(random, splits, log=True)
    first = job.start(before)
    first.settle()
    snapshot = first.checkpoint()
    assert job.windows_out > 0, "nobody waits for a log that is idle"
    idle.append(p.rows(random, ROWS, "#1", start_s=2 * ROWS))
    busy.append(p.rows(random, ROWS, "#1", start_s=FAR_S))
    second = job.start(after, snapshot)
    second.settle()
    assert late_rows(second) == 0
    second.checkpoint()
    assert job.windows_out >= p.all_rows(job.source).filter(pl.col("ts#1").dt.epoch("s") < FAR_S)["w#1"].n_unique()
