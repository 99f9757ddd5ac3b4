"""One key with half of all rows: the busiest slot has less than twice the work it has when keys are spread evenly."""

from __future__ import annotations

import dataclasses
from random import Random

import polars as pl
import pytest

from tidegate.model.config import QueryConfig
from tidegate.model.ids import OperatorId
from tidegate.testing.busy import TimedHarness
from tidegate.testing.scripted import ScriptedConnectors, ScriptedSink, ScriptedSource, ScriptedSplit
from tidegate.testing.simulation import queries
from tidegate.testing.simulation.relations import COLUMNS, Names, scan
from tidegate.testing.simulation.sources import Script, split_rows

SCRIPT = Script(splits=4, rows_per_split=40_000, keys=5_000, rows_per_second=1_000, seed=11)
ENDINGS = {one.__name__.strip("_"): one for one in queries.ENDINGS}


def busiest_s(ending: str, *, hot: bool) -> float:
    """CPU time of the busiest of two slots; the best of three runs, because the machine has other things to do."""
    query = ENDINGS[ending](scan(Names(), 0, SCRIPT), Random(3))
    graph = query.graph(2)
    names = dict(zip(COLUMNS, (field.name for field in graph.scans()[0].schema), strict=True))
    splits = [split_rows(SCRIPT, number) for number in range(SCRIPT.splits)]
    if hot:
        splits = [rows.with_columns(key=pl.when(pl.col("id") % 2 == 0).then(0).otherwise("key")) for rows in splits]
    best_s = float("inf")
    for _ in range(3):
        source = ScriptedSource([ScriptedSplit(rows.rename(names)) for rows in splits], batch_rows=8_192)
        connectors = ScriptedConnectors({OperatorId("source-0"): source}, {OperatorId("sink-0"): ScriptedSink()})
        config = QueryConfig(max_parallelism=128, bounded=True, drain=True)
        harness = TimedHarness(dataclasses.replace(graph, max_parallelism=128), connectors, config, seed=1)
        harness.finish()
        best_s = min(best_s, max(harness.busy_s.values()))
    return best_s


@pytest.mark.parametrize("ending", ["windows", "running", "sessions", "deduplicated", "forever_deduplicated"])
def test_a_hot_key_leaves_more_than_half_of_the_throughput(ending: str) -> None:
    even_s, skewed_s = busiest_s(ending, hot=False), busiest_s(ending, hot=True)
    assert skewed_s < 2 * even_s, f"{even_s:.2f} s with even keys, {skewed_s:.2f} s with one hot key"
