"""Ten minutes of stream time at a steady rate: windows, sessions, joins and deduplication keep no more at the end than at the beginning."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

import polars as pl
import pytest

from tidegate.model.config import QueryConfig
from tidegate.model.ids import OperatorId
from tidegate.plan.graph import JobGraph
from tidegate.testing.scripted import ScriptedConnectors, ScriptedSink, ScriptedSource, ScriptedSplit
from tidegate.testing.simulation import keyed, queries
from tidegate.testing.simulation.query import SimulatedQuery
from tidegate.testing.simulation.relations import COLUMNS, Names, scan
from tidegate.testing.simulation.sources import Script, split_rows
from tidegate.testing.simulation.user_code import load
from tidegate.testing.slots import SlotHarness

MINUTES = 10
ROWS_PER_SECOND = 5
STEP_S = 5
STEPS = MINUTES * 60 // STEP_S
WARM_STEPS = STEPS // 4
SCRIPT = Script(
    splits=1, rows_per_split=MINUTES * 60 * ROWS_PER_SECOND, keys=20, rows_per_second=ROWS_PER_SECOND, seed=7
)


def _of_one(ending: str) -> SimulatedQuery:
    return {one.__name__: one for one in queries.ENDINGS}[ending](scan(Names(), 0, SCRIPT), Random(3))


def _joined(seed: int) -> SimulatedQuery:
    names = Names()
    return keyed.joined_streams(names, scan(names, 0, SCRIPT), scan(names, 1, SCRIPT), Random(seed))


QUERIES = {
    "tumbling windows": lambda: _of_one("_windows"),
    "sliding windows": lambda: _of_one("_sliding_windows"),
    "windows of windows": lambda: _of_one("_nested_windows"),
    "sessions": lambda: _of_one("sessions"),
    "deduplication": lambda: _of_one("deduplicated"),
    "inner join": lambda: _joined(1),
    "left join": lambda: _joined(5),
    "semi join": lambda: _joined(0),
}


@dataclass(frozen=True, slots=True)
class Sample:
    live_rows: int
    stored_rows: int
    """Rows in the chunks that the newest checkpoint names."""


def steadily(query: SimulatedQuery) -> tuple[list[Sample], int]:
    """A sample, with a checkpoint, after every few seconds of stream time; and how many rows came out."""
    graph: JobGraph = query.graph(2)
    splits = {one.id: ScriptedSplit(pl.DataFrame(), closed=False) for one in graph.scans()}
    rows = {
        one.id: split_rows(SCRIPT, 0).rename(dict(zip(COLUMNS, (f.name for f in one.schema), strict=True)))
        for one in graph.scans()
    }
    for name, split in splits.items():
        split.rows = rows[name].clear()
    sink = ScriptedSink()
    connectors = ScriptedConnectors(
        {name: ScriptedSource([split]) for name, split in splits.items()}, {OperatorId("sink-0"): sink}
    )
    harness = SlotHarness(graph, connectors, QueryConfig(max_parallelism=16, idle_timeout_ms=100), seed=1, load=load)
    size = STEP_S * ROWS_PER_SECOND
    samples = []
    for step in range(STEPS):
        for name, split in splits.items():
            split.append(rows[name].slice(step * size, size))
        harness.settle()
        snapshot = harness.checkpoint()
        metrics = [one for runtime in harness.slots.values() for one in runtime.progress().metrics]
        samples.append(
            Sample(
                sum(one.state_rows for one in metrics),
                sum(chunk.rows for one in snapshot.operators for chunk in one.chunks),
            )
        )
    return samples, sum(frame.height for frame in sink.visible.values())


@pytest.mark.parametrize("name", QUERIES)
def test_state_is_flat_after_warming_up(name: str) -> None:
    query = QUERIES[name]()
    assert name.split()[0] in query.name or name in ("windows of windows", "deduplication"), query.name
    samples, out = steadily(query)
    assert out and samples[WARM_STEPS].live_rows > 0, "nothing was kept, nothing came out"
    for what in ("live_rows", "stored_rows"):
        before, after = growth(samples, what)
        assert after <= 1.25 * before + 5, f"{what}: {before} while warm, {after} later"


def test_state_that_may_never_be_forgotten_grows() -> None:
    """The measure can see it."""
    samples, _ = steadily(_of_one("forever_deduplicated"))
    for what in ("live_rows", "stored_rows"):
        before, after = growth(samples, what)
        assert after > 1.5 * before, f"{what}: {before} while warm, {after} later"


def growth(samples: list[Sample], what: str) -> tuple[int, int]:
    """The most while warm, and the most afterwards."""
    warm, rest = samples[WARM_STEPS : 2 * WARM_STEPS], samples[2 * WARM_STEPS :]
    before, after = (max(getattr(one, what) for one in part) for part in (warm, rest))
    return before, after
