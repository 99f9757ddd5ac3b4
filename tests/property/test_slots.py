"""Whole jobs of one to three slots, in one process, in every order the network allows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import count
from random import Random

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.property.pipelines import PIPELINES, Pipeline, union_of_two, windowed

from tidegate.model.config import CheckpointMode, QueryConfig
from tidegate.model.ids import ChannelId
from tidegate.plan.graph import JobGraph
from tidegate.plan.stages import build_graph
from tidegate.testing.slots import SlotHarness

MAX_PARALLELISM = 8
quick = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))


def tight(random: Random) -> QueryConfig:
    """Little credit and small batches: back-pressure is the rule, not the exception."""
    return QueryConfig(
        max_parallelism=MAX_PARALLELISM,
        bounded=True,
        drain=True,
        batch_rows_max=random.choice([1, 2, 7, 30, 1_000]),
        capture_rows=random.choice([1, 3, 1_000]),
        channel_batches_max=random.choice([1, 2, 3, 16]),
        channel_bytes_max=random.choice([1, 200, 5_000, 1_000_000]),
        aligned_timeout_ms=random.choice([0, 0, 1, 10, 40]),
        channel_time_max_ms=random.choice([0, 1, 30, 1_000]),
    )


def skewed(random: Random) -> Callable[[ChannelId], bool]:
    """Now and then channels out of one slot, or into one, are far slower than the others: barriers stand apart, queues fill."""
    source, target = random.choice([None, 0, 1]), random.choice([None, 0, 1])
    asked = count()
    return lambda channel: (channel.source != source and channel.target != target) or next(asked) % 7 == 0


def stopwatch(random: Random) -> Callable[[], float]:
    """Work takes any time: batches are processed in pieces of ever changing size."""
    now_ms = 0.0

    def look() -> float:
        nonlocal now_ms
        now_ms += random.choice([0.0, 0.0, 0.1, 3.0, 40.0, 900.0])
        return now_ms

    return look


def graph_of(pipeline: Pipeline, parallelism: int) -> JobGraph:
    return build_graph(pipeline.plan, parallelism=parallelism, max_parallelism=MAX_PARALLELISM)


def run(pipeline: Pipeline, random: Random, harness: SlotHarness, checkpoints: int) -> None:
    """Takes checkpoints at random moments while rows flow, some beside one that is still under way, some aborted half way."""
    for _ in range(checkpoints):
        harness.advance(random.randrange(150))
        harness.trigger(alongside=random.random() < 0.7)
        if random.random() < 0.3:
            harness.advance(random.randrange(20))
            harness.abort(random.choice([None, *harness.checkpoints_under_way]))


@quick
@given(seed=st.integers(0, 1 << 32), parallelism=st.integers(1, 3), kind=st.sampled_from(PIPELINES))
def test_the_output_is_that_of_a_direct_evaluation_and_everything_drains(
    seed: int, parallelism: int, kind: type
) -> None:
    """T14 T16 T19 T22 T24: no order of deliveries, no shortage of credit, no checkpoint on the way changes the result or stops it."""
    random = Random(seed)
    pipeline = kind(random)
    harness = SlotHarness(
        graph_of(pipeline, parallelism),
        pipeline.connectors,
        tight(random),
        seed=seed,
        step_ms=1.0,
        clock=random.choice([None, stopwatch(Random(seed))]),
    )
    run(pipeline, random, harness, checkpoints=3)
    harness.finish()
    assert pipeline.sink.rows() == pipeline.expected


@quick
@given(seed=st.integers(0, 1 << 32), kind=st.sampled_from(PIPELINES))
def test_every_snapshot_is_a_consistent_cut_at_any_parallelism(seed: int, kind: type) -> None:
    """T6 T15 T22 T26 T35 T45 T46: kill everything after a checkpoint, restore with more or fewer slots, again and again; nothing is
    lost and nothing doubled."""
    random = Random(seed)
    pipeline = kind(random)
    store: dict[str, bytes] = {}
    snapshot = None
    for attempt in range(1, 5):
        harness = SlotHarness(
            graph_of(pipeline, random.randint(1, 3)),
            pipeline.connectors,
            tight(random),
            seed=seed + attempt,
            attempt=attempt,
            restore=snapshot,
            store=store,
            channel_ready=skewed(random),
            commit_chance=0.5,
            step_ms=1.0,
            clock=random.choice([None, stopwatch(Random(seed))]),
        )
        run(pipeline, random, harness, checkpoints=3)
        harness.advance(random.randrange(300))
        snapshot = harness.completed[-1] if harness.completed else None
    harness = SlotHarness(
        graph_of(pipeline, random.randint(1, 3)),
        pipeline.connectors,
        tight(random),
        seed=seed,
        attempt=9,
        restore=snapshot,
        store=store,
        step_ms=1.0,
    )
    harness.finish()
    assert pipeline.sink.rows() == pipeline.expected


def counted(rows: list[tuple[object, ...]]) -> Counter[tuple[object, ...]]:
    """Rows behind each group of a pipeline that ends in a count and a sum."""
    total: Counter[tuple[object, ...]] = Counter()
    for *group, number, _ in rows:
        assert isinstance(number, int)
        total[tuple(group)] += number
    return total


def killed_once(kind: type, seed: int, mode: CheckpointMode) -> Pipeline:
    """A run that restores once. Some channels are slow, so barriers stand far apart."""
    random = Random(seed)
    pipeline = kind(random)
    config = msgspec.structs.replace(tight(random), checkpoint_mode=mode)
    store: dict[str, bytes] = {}
    snapshot = None
    ready = skewed(Random(1))
    for attempt in (1, 2):
        harness = SlotHarness(
            graph_of(pipeline, 2),
            pipeline.connectors,
            config,
            seed=seed,
            attempt=attempt,
            restore=snapshot,
            store=store,
            channel_ready=ready,
        )
        if attempt == 1:
            harness.advance(random.randrange(200))
            snapshot = harness.checkpoint()
            harness.advance(random.randrange(100))
        else:
            harness.finish()
    return pipeline


@quick
@given(seed=st.integers(0, 1 << 32), kind=st.sampled_from((windowed, union_of_two)))
def test_at_least_once_loses_nothing(seed: int, kind: type) -> None:
    """T52"""
    pipeline = killed_once(kind, seed, CheckpointMode.AT_LEAST_ONCE)
    made, wanted = counted(pipeline.sink.rows()), counted(pipeline.expected)
    assert all(made[group] >= rows for group, rows in wanted.items())


def test_at_least_once_does_double_rows_and_exactly_once_does_not() -> None:
    """T52: what the harness reports as exactly once is not blindness to duplicates."""
    doubled = dict.fromkeys(CheckpointMode, 0)
    for mode in CheckpointMode:
        for seed in range(12):
            pipeline = killed_once(windowed, seed, mode)
            doubled[mode] += pipeline.sink.rows() != pipeline.expected
    assert doubled[CheckpointMode.EXACTLY_ONCE] == 0
    assert doubled[CheckpointMode.AT_LEAST_ONCE] > 0


@pytest.mark.parametrize("kind", PIPELINES)
def test_the_same_seed_gives_the_same_run(kind: type) -> None:
    def trace() -> list[str]:
        pipeline = kind(Random(7))
        harness = SlotHarness(graph_of(pipeline, 3), pipeline.connectors, tight(Random(7)), seed=7)
        harness.finish()
        return [f"{send.channel} {send.sequence} {type(send.element).__name__}" for send in harness.sent]

    assert trace() == trace()
