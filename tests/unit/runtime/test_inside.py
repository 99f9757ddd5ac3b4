"""A slot says in which operator its loop is, also while it never comes back from there."""

from __future__ import annotations

from random import Random

import polars as pl
from tests.property import pipelines as p

from tidegate.model.config import QueryConfig
from tidegate.model.ids import Attempt, OperatorId, SlotIndex
from tidegate.model.messages import AssignSplits
from tidegate.model.snapshot import Split, SplitPosition
from tidegate.plan.relational import Sink
from tidegate.plan.stages import build_graph
from tidegate.runtime.slot import SlotRuntime
from tidegate.testing.scripted import ScriptedConnectors, ScriptedSink, ScriptedSource, ScriptedSplit

ATTEMPT = Attempt(3)
SOURCE = OperatorId("source-0")


def test_the_operator_whose_call_runs_right_now_is_named_with_the_moment_it_began() -> None:
    seen: list[tuple[str, float] | None] = []

    class Curious(ScriptedSink):
        def writer(self, sink: Sink, attempt: Attempt, subtask: SlotIndex) -> object:  # type: ignore[override]
            class Writer:
                def write(self, rows: pl.DataFrame) -> None:
                    seen.append(runtime.inside())

                def close(self) -> None: ...

            return Writer()

    read = ScriptedSource([ScriptedSplit(p.rows(Random(1), 5, "#1"))])
    runtime = SlotRuntime(
        build_graph(p.sink(p.scan(0, "#1")), parallelism=1, max_parallelism=8),
        SlotIndex(0),
        ATTEMPT,
        QueryConfig(max_parallelism=8, bounded=True),
        ScriptedConnectors({SOURCE: read}, {OperatorId("sink-0"): Curious()}),
        clock=lambda: 77.0,
    )
    splits = (SplitPosition(split=Split(number=0, payload=b""), position=None),)
    runtime.control(
        AssignSplits(attempt=ATTEMPT, operator=SOURCE, subtask=SlotIndex(0), sequence=0, splits=splits, no_more=True),
        0.0,
    )
    runtime.turn(0.0)
    while runtime.has_work and not seen:
        runtime.turn(0.0)
    assert seen == [("0 sink-0", 77.0)]
    assert runtime.inside() is None
