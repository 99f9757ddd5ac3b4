"""Random acyclic graphs, random exchanges, hardly any credit: everything drains, with checkpoints on the way."""

from __future__ import annotations

from collections import Counter
from random import Random

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.property import pipelines as p

from tidegate.model.config import QueryConfig
from tidegate.model.ids import OperatorId, StageId
from tidegate.plan.graph import Edge, JobGraph, Partitioning, Stage
from tidegate.plan.relational import Sink, Union
from tidegate.testing.scripted import ScriptedConnectors, ScriptedSink, ScriptedSource
from tidegate.testing.slots import SlotHarness

SCHEMA = p.schema("#1")


def random_graph(random: Random, parallelism: int) -> tuple[JobGraph, dict[OperatorId, int]]:
    """The graph, and how many copies of each row of each source reach its sink."""
    sources = random.randint(1, 3)
    inner = random.randint(0, 4)
    stages = [Stage(StageId(i), (p.scan(i, "#1"),)) for i in range(sources)]
    copies = [Counter({OperatorId(f"source-{i}"): 1}) for i in range(sources)]
    edges: list[Edge] = []
    read: set[int] = set()

    def connect(target: int, inputs: list[int]) -> Counter[OperatorId]:
        total: Counter[OperatorId] = Counter()
        for port, source in enumerate(inputs):
            how = random.choice(list(Partitioning))
            edges.append(
                Edge(
                    len(edges),
                    StageId(source),
                    StageId(target),
                    port,
                    how,
                    ("k#1",) * (how is Partitioning.KEYED),
                    SCHEMA,
                )
            )
            read.add(source)
            times = parallelism if how is Partitioning.BROADCAST else 1
            total.update({name: count * times for name, count in copies[source].items()})
        return total

    for number in range(sources, sources + inner):
        inputs = random.sample(range(number), random.randint(1, min(3, number)))
        copies.append(connect(number, inputs))
        stages.append(Stage(StageId(number), (Union(schema=SCHEMA),)))
    last = len(stages)
    loose = [number for number in range(last) if number not in read]
    total = connect(last, loose)
    end = p.sink(Union(schema=SCHEMA))
    stages.append(
        Stage(
            StageId(last),
            (
                Union(schema=SCHEMA),
                Sink(id=end.id, spec=end.spec, columns=end.columns),
            ),
        )
    )
    return JobGraph(tuple(stages), tuple(edges), parallelism, 8), dict(total)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 1 << 32), parallelism=st.integers(1, 3))
def test_any_graph_with_any_credit_drains(seed: int, parallelism: int) -> None:
    """T15 T16 T17: back-pressure and alignment together cannot deadlock on an acyclic graph."""
    random = Random(seed)
    graph, copies = random_graph(random, parallelism)
    read: dict[OperatorId, ScriptedSource] = {
        scan.id: p.source(random, "#1", splits=random.randrange(4), rows_max=40) for scan in graph.scans()
    }
    sink = ScriptedSink()
    config = QueryConfig(
        max_parallelism=8,
        bounded=True,
        batch_rows_max=random.choice([1, 3, 10]),
        channel_batches_max=random.choice([1, 1, 2]),
        channel_bytes_max=random.choice([1, 500]),
    )
    harness = SlotHarness(graph, ScriptedConnectors(read, {OperatorId("sink-0"): sink}), config, seed=seed)
    for _ in range(4):
        harness.advance(random.randrange(200))
        harness.trigger()
    harness.finish()
    expected: Counter[tuple[object, ...]] = Counter()
    for name, times in copies.items():
        for split in read[name].splits:
            for row in split.rows.rows():
                expected[row] += times
    assert Counter(sink.rows()) == expected
