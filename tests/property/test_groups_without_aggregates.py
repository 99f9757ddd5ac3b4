"""``GROUP BY`` without an aggregate: every group once, however its rows come."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from hypothesis import example, given
from hypothesis import strategies as st
from tests.property import pipelines as p
from tests.property.test_slots import MAX_PARALLELISM, quick, tight

from tidegate.plan.relational import Aggregate
from tidegate.plan.stages import build_graph
from tidegate.testing.slots import SlotHarness


@quick
@given(seed=st.integers(0, 1 << 32), parallelism=st.integers(1, 3))
@example(seed=3229, parallelism=3)  # A slot that is not ready declines the checkpoint.
def test_a_group_leaves_once_through_a_restore(seed: int, parallelism: int) -> None:
    random = Random(seed)
    pipeline = p.windowed(random)
    (counted,) = pipeline.plan.inputs
    assert isinstance(counted, Aggregate)
    plan = p.sink(replace(counted, calls=(), schema=counted.schema[:2]))
    store: dict[str, bytes] = {}
    snapshot = None
    for attempt in (1, 2):
        graph = build_graph(plan, parallelism=parallelism, max_parallelism=MAX_PARALLELISM)
        harness = SlotHarness(
            graph,
            pipeline.connectors,
            tight(random),
            seed=seed,
            attempt=attempt,
            restore=snapshot,
            store=store,
            step_ms=1.0,
        )
        harness.advance(random.randrange(150))
        harness.trigger()
        harness.advance(random.randrange(150))
        if attempt == 2:
            harness.finish()
        snapshot = harness.completed[-1] if harness.completed else None
    assert pipeline.sink.rows() == sorted({row[:2] for row in pipeline.expected}, key=repr)
