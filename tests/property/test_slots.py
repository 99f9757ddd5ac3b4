"""Whole jobs of one to three slots, in one process, in every order the network allows."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.property.pipelines import PIPELINES, Pipeline

from tidegate.model.config import QueryConfig
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
        channel_batches_max=random.choice([1, 2, 3, 16]),
        channel_bytes_max=random.choice([1, 200, 5_000, 1_000_000]),
    )


def graph_of(pipeline: Pipeline, parallelism: int) -> JobGraph:
    return build_graph(pipeline.plan, parallelism=parallelism, max_parallelism=MAX_PARALLELISM)


def run(pipeline: Pipeline, random: Random, harness: SlotHarness, checkpoints: int) -> None:
    """Takes checkpoints at random moments while rows flow, some of which are aborted half way."""
    for _ in range(checkpoints):
        harness.advance(random.randrange(150))
        harness.trigger()
        if random.random() < 0.3:
            harness.advance(random.randrange(20))
            harness.abort()


@quick
@given(seed=st.integers(0, 1 << 32), parallelism=st.integers(1, 3), kind=st.sampled_from(PIPELINES))
def test_the_output_is_that_of_a_direct_evaluation_and_everything_drains(
    seed: int, parallelism: int, kind: type
) -> None:
    """T14 T16 T19 T24: no order of deliveries, no shortage of credit, no checkpoint on the way changes the result or stops it."""
    random = Random(seed)
    pipeline = kind(random)
    harness = SlotHarness(graph_of(pipeline, parallelism), pipeline.connectors, tight(random), seed=seed)
    run(pipeline, random, harness, checkpoints=3)
    harness.finish()
    assert pipeline.sink.rows() == pipeline.expected


@quick
@given(seed=st.integers(0, 1 << 32), kind=st.sampled_from(PIPELINES))
def test_every_snapshot_is_a_consistent_cut_at_any_parallelism(seed: int, kind: type) -> None:
    """T6 T15 T26 T35 T45 T46: kill everything after a checkpoint, restore with more or fewer slots, again and again; nothing is
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
            commit_chance=0.5,
        )
        run(pipeline, random, harness, checkpoints=2)
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
    )
    harness.finish()
    assert pipeline.sink.rows() == pipeline.expected


@pytest.mark.parametrize("kind", PIPELINES)
def test_the_same_seed_gives_the_same_run(kind: type) -> None:
    def trace() -> list[str]:
        pipeline = kind(Random(7))
        harness = SlotHarness(graph_of(pipeline, 3), pipeline.connectors, tight(Random(7)), seed=7)
        harness.finish()
        return [f"{send.channel} {send.sequence} {type(send.element).__name__}" for send in harness.sent]

    assert trace() == trace()
