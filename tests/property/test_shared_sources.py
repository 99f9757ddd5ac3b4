"""Several queries over one source: read once, one cut for all of them, each result exactly once."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import msgspec
import polars as pl
from hypothesis import given
from hypothesis import strategies as st
from tests.property import pipelines as p
from tests.property.test_slots import MAX_PARALLELISM, quick, skewed, stopwatch, tight

from tidegate.catalyst.together import together
from tidegate.model import types as t
from tidegate.model.ids import OperatorId
from tidegate.plan.expressions import Call, Column, Literal
from tidegate.plan.graph import JobGraph
from tidegate.plan.relational import Filter, Plan, Scan, Sink, Union
from tidegate.plan.stages import build_graph
from tidegate.testing.scripted import ScriptedConnectors, ScriptedSink, ScriptedSource
from tidegate.testing.slots import SlotHarness

LARGE, COUNTED, TWICE = (OperatorId(f"sink-scripted_{name}") for name in ("large", "counted", "twice"))


def scan(suffix: str) -> Scan:
    """The same source under other names."""
    return replace(p.scan(0, suffix), columns=("ts", "w", "k", "v"))


def large(plan: Plan, value: str) -> Filter:
    condition = Call("greaterthan", (Column(value, t.LONG), Literal(50, t.LONG)), t.BOOLEAN)
    return Filter(condition=condition, schema=plan.schema, inputs=(plan,))


def queries() -> tuple[Sink, ...]:
    """Large rows; counts per window; all rows and once more the large ones. Only the second asks for event time."""
    counted = p.count_and_sum(p.watermark(scan("#2"), "ts#2"), ("w#2", "k#2"), "v#2", number=0, window="w#2")
    twice = Union(schema=p.schema("#5"), inputs=(scan("#3"), large(scan("#4"), "v#4")))
    made = (p.sink(large(scan("#1"), "v#1")), p.sink(counted), p.sink(twice))
    return tuple(replace(one, query=name) for one, name in zip(made, ("large", "counted", "twice"), strict=True))


def graph_of(parallelism: int) -> JobGraph:
    (component,) = together(queries())
    return build_graph(*component.plans, parallelism=parallelism, max_parallelism=MAX_PARALLELISM)


def world(random: Random) -> tuple[ScriptedSource, ScriptedConnectors]:
    source = p.source(random, "#2", splits=random.randint(1, 5), rows_max=50)
    sinks = {name: ScriptedSink() for name in (LARGE, COUNTED, TWICE)}
    return source, ScriptedConnectors({graph_of(1).scans()[0].id: source}, sinks)


def expected(source: ScriptedSource) -> dict[OperatorId, p.Rows]:
    rows = p.all_rows(source)
    some = rows.filter(pl.col("v#2") > 50)
    return {
        LARGE: p.as_rows(some),
        COUNTED: p.as_rows(p.grouped(rows, ["w#2", "k#2"], "v#2")),
        TWICE: p.as_rows(pl.concat([rows, some])),
    }


def is_one_cut(connectors: ScriptedConnectors) -> bool:
    """Whether what is published of one query and of another belongs to the same rows of the source."""
    published = connectors.sinks[TWICE].rows()
    some = [row for row in published if isinstance(row[3], int) and row[3] > 50]
    return sorted(connectors.sinks[LARGE].rows() * 2, key=repr) == sorted(some, key=repr)


def test_the_source_is_read_once() -> None:
    graph = graph_of(2)
    assert len(graph.scans()) == 1 and len(graph.sinks()) == 3


@quick
@given(seed=st.integers(0, 1 << 32))
def test_all_results_are_exactly_once_through_kills_and_rescales(seed: int) -> None:
    """T6 T22 T45: with every checkpoint all queries publish the same rows of the source; kill everything, restore with more or fewer
    slots, again and again: nothing is lost and nothing doubled in any of them."""
    random = Random(seed)
    source, connectors = world(random)
    # A barrier that overtakes leaves rows under way in the snapshot: they are published with a later checkpoint.
    aligned = random.random() < 0.5
    store: dict[str, bytes] = {}
    snapshot = None
    for attempt in range(1, 5):
        last = attempt == 4
        harness = SlotHarness(
            graph_of(random.randint(1, 3)),
            connectors,
            msgspec.structs.replace(tight(random), aligned_timeout_ms=0) if aligned else tight(random),
            seed=seed + attempt,
            attempt=attempt,
            restore=snapshot,
            store=store,
            channel_ready=None if last else skewed(random),
            step_ms=1.0,
            clock=random.choice([None, stopwatch(Random(seed))]),
        )
        for _ in range(3):
            harness.advance(random.randrange(150))
            harness.trigger(alongside=random.random() < 0.7)
            assert not aligned or is_one_cut(connectors)
        if last:
            harness.finish()
        else:
            harness.advance(random.randrange(300))
        assert not aligned or is_one_cut(connectors)
        snapshot = harness.completed[-1] if harness.completed else None
    assert {name: sink.rows() for name, sink in connectors.sinks.items()} == expected(source)
