"""A user function that answers differently after every restart: what was published stays as it was, and every row counts once."""

from __future__ import annotations

from random import Random

import polars as pl
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.property import pipelines as p

from tidegate.model import types as t
from tidegate.model.config import QueryConfig
from tidegate.model.ids import OperatorId
from tidegate.plan.expressions import Column
from tidegate.plan.relational import PythonEval, PythonUdf, Sink, UdfKind
from tidegate.plan.stages import build_graph
from tidegate.testing.scripted import ScriptedConnectors, ScriptedSink
from tidegate.testing.slots import SlotHarness, Snapshot


def plan() -> Sink:
    """Running totals per number of the start that saw the row: the key itself depends on when the row is processed."""
    source = p.scan(0, "#1")
    udf = PythonUdf("u#5", "start", b"start", UdfKind.PYTHON, (Column("v#1", t.LONG),), t.LONG)
    stamped = PythonEval(udfs=(udf,), schema=(*source.schema, t.Field("u#5", t.LONG)), inputs=(source,))
    return p.sink(p.count_and_sum(stamped, ("u#5",), "v#1", number=0, window=None))


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 1 << 32), deaths=st.integers(1, 4))
def test_a_replay_changes_nothing_that_was_published_and_counts_every_row_once(seed: int, deaths: int) -> None:
    """T62: rows that no checkpoint holds may come out under another key; those that one holds never do, nor do they come again."""
    random = Random(seed)
    source = p.source(random, "#1", splits=3, rows_max=80)
    sink = ScriptedSink()
    connectors = ScriptedConnectors({OperatorId("source-0"): source}, {OperatorId("sink-0"): sink})
    store: dict[str, bytes] = {}
    snapshot: Snapshot | None = None
    published: dict[str, pl.DataFrame] = {}
    for attempt in range(1, deaths + 2):
        harness = SlotHarness(
            build_graph(plan(), parallelism=random.randint(1, 3), max_parallelism=8),
            connectors,
            QueryConfig(max_parallelism=8, bounded=True, batch_rows_max=random.choice([1, 7, 1_000])),
            seed=seed + attempt,
            attempt=attempt,
            restore=snapshot,
            store=store,
            load=lambda _, number=attempt: lambda _value: number,
            commit_chance=0.7 if attempt <= deaths else 1.0,
        )
        if attempt <= deaths:
            for _ in range(2):
                harness.advance(random.randrange(120))
                harness.trigger()
            harness.advance(random.randrange(150))
            snapshot = harness.completed[-1] if harness.completed else None
        else:
            harness.finish()
        assert all(sink.visible[name].equals(rows) for name, rows in published.items())
        published = dict(sink.visible)

    rows = p.all_rows(source)
    totals = _totals(sink)
    assert sum(count for count, _ in totals.values()) == rows.height
    assert sum(value for _, value in totals.values()) == rows["v#1"].sum()


def _totals(sink: ScriptedSink) -> dict[int, tuple[int, int]]:
    """The largest count published for each key: totals only grow, whichever subtask published them."""
    newest: dict[int, tuple[int, int]] = {}
    for frame in sink.visible.values():
        for key, count, total in frame.rows():
            newest[key] = max(newest.get(key, (0, 0)), (count, total))
    return newest
