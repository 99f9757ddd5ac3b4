"""Which queries wait for event time to go on, and which only ask which rows are late."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from tests.property.pipelines import scan as read
from tests.property.pipelines import sink, two_streams, watermark, windowed
from tests.unit.operators.stateful.stateful_harness import process
from tests.unit.operators.test_aggregate import windows
from tests.unit.operators.test_late_rows import sessions_of
from tests.unit.operators.test_stream_join import within_a_second

from tidegate.model.ids import OperatorId
from tidegate.model.output_mode import OutputMode
from tidegate.plan.closing import only_judges
from tidegate.plan.graph import JobGraph, Stage
from tidegate.plan.keyed import Deduplicate, StatefulKind, TimeMode
from tidegate.plan.relational import Plan
from tidegate.plan.stages import build_graph

JOIN = within_a_second()
FREE = replace(JOIN.left, expires=None), replace(JOIN.right, expires=None)
DEDUPLICATE = Deduplicate(id=OperatorId("deduplicate"), keys=(), event_time=None, schema=())

WAITS: dict[str, tuple[Plan, bool]] = {
    "windows, append": (windows(), True),
    "windows, update": (windows(OutputMode.UPDATE), True),
    "windows, complete": (windows(OutputMode.COMPLETE), False),
    "sessions, append": (sessions_of(OutputMode.APPEND), True),
    "sessions, complete": (sessions_of(OutputMode.COMPLETE), False),
    "deduplication": (DEDUPLICATE, True),
    "join that forgets": (JOIN, True),
    "join that keeps all": (replace(JOIN, left=FREE[0], right=FREE[1]), False),
    "join, range over the other side's watermark only": (
        replace(JOIN, left=replace(JOIN.left, event_time=None), right=FREE[1]),
        False,
    ),
    "join on event time of the other side": (
        replace(JOIN, left=replace(JOIN.left, event_time=None, keys=("t",)), right=FREE[1]),
        True,
    ),
    "applyInPandasWithState without time": (replace(process(TimeMode.NONE), kind=StatefulKind.APPLY_PANDAS), False),
    "applyInPandasWithState in event time": (replace(process(TimeMode.EVENT), kind=StatefulKind.APPLY_PANDAS), True),
    "transformWithState without time": (process(TimeMode.NONE), True),
}


def of(*nodes: Plan) -> JobGraph:
    return JobGraph(stages=(Stage(id=0, nodes=nodes),), edges=(), parallelism=1, max_parallelism=8)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", sorted(WAITS))
def test_an_operator_waits_where_spark_runs_a_batch_without_rows_for_it(name: str) -> None:
    node, waits = WAITS[name]
    assert only_judges(of(node)) is not waits


def test_one_operator_that_waits_is_enough() -> None:
    assert not only_judges(of(WAITS["windows, complete"][0], DEDUPLICATE))


def test_a_query_without_state_shows_the_time_as_it_is() -> None:
    graph = build_graph(sink(watermark(read(0, "#1"), "ts#1")), parallelism=1, max_parallelism=8)
    assert not only_judges(graph)


@pytest.mark.parametrize("pipeline", [windowed, two_streams])
def test_ordinary_windows_wait(pipeline) -> None:  # type: ignore[no-untyped-def]
    assert not only_judges(build_graph(pipeline(Random(1)).plan, parallelism=2, max_parallelism=8))
