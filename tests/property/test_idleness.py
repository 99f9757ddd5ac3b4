"""Rows that wait are not late: idleness is for readers that have nothing, however slow everything else is."""

from __future__ import annotations

from random import Random

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from tests.property import pipelines as p
from tests.property.test_slots import MAX_PARALLELISM, quick, tight

from tidegate.model.ids import OperatorId
from tidegate.plan.stages import build_graph
from tidegate.testing.scripted import ScriptedConnectors, ScriptedSink, ScriptedSource, ScriptedSplit
from tidegate.testing.slots import SlotHarness

SPLITS, ROWS = 6, 40


@quick
@given(seed=st.integers(0, 1 << 32), parallelism=st.integers(1, 3))
def test_no_row_is_late_though_a_step_takes_longer_than_the_idle_timeout(seed: int, parallelism: int) -> None:
    """Splits one after the other in time, without an end to the run; answers, credit and rows take as long as they like."""
    random = Random(seed)
    splits = [ScriptedSplit(p.rows(random, ROWS, "#1", start_s=ROWS * number)) for number in range(SPLITS)]
    source = ScriptedSource(splits, batch_rows=random.randint(1, 20))
    connectors = ScriptedConnectors({OperatorId("source-0"): source}, {OperatorId("sink-0"): ScriptedSink()})
    counted = p.count_and_sum(p.watermark(p.scan(0, "#1"), "ts#1"), ("w#1", "k#1"), "v#1", number=0, window="w#1")
    graph = build_graph(p.sink(counted), parallelism=parallelism, max_parallelism=MAX_PARALLELISM)
    config = msgspec.structs.replace(tight(random), bounded=False, drain=False, idle_timeout_ms=20)
    harness = SlotHarness(graph, connectors, config, seed=seed, step_ms=30.0)
    harness.settle()
    metrics = [one for runtime in harness.slots.values() for one in runtime.progress().metrics]
    assert sum(one.rows_out for one in metrics if one.operator.endswith("source-0")) == SPLITS * ROWS
    assert sum(one.late_rows for one in metrics) == 0
