"""Who is next."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import cast

import pytest
from tests.property import pipelines as p

from tidegate.model.config import QueryConfig
from tidegate.model.ids import Attempt, SlotIndex
from tidegate.operators.build import refuse_user_functions
from tidegate.plan.stages import build_graph
from tidegate.runtime.scheduler import Scheduler
from tidegate.runtime.slot import _no_chunks
from tidegate.runtime.source_subtask import SourceSubtask
from tidegate.runtime.subtask import Runnable, SlotScope
from tidegate.runtime.wiring import Deployment, wire


class Eager:
    """Always has something to do."""

    def __init__(self, name: str) -> None:
        self.name = name

    def runnable(self, now_ms: float) -> bool:
        return True


class EagerSource(SourceSubtask):
    def __init__(self) -> None:  # pyright: ignore[reportMissingSuperCall]
        self.name = "source"

    def runnable(self, now_ms: float) -> bool:
        return True


def test_downstream_goes_first_but_sources_get_one_turn_in_four_and_nobody_starves() -> None:
    subtasks = [EagerSource(), Eager("middle"), Eager("sink")]
    scheduler = Scheduler(cast(list[Runnable], subtasks))
    turns = Counter(getattr(scheduler.pick(0), "name", "nobody") for _ in range(1_200))
    assert turns["sink"] >= 600
    assert turns["source"] >= 300
    assert turns["middle"] >= 100


def test_with_nothing_to_do_nobody_is_picked() -> None:
    scheduler = Scheduler([])
    assert [scheduler.pick(0) for _ in range(8)] == [None] * 8
    assert not scheduler.any_runnable(0)


@pytest.mark.parametrize("seed", range(3))
def test_subtasks_are_wired_from_the_sources_down(seed: int) -> None:
    pipeline = p.union_of_two(Random(seed))
    graph = build_graph(pipeline.plan, parallelism=2, max_parallelism=8)
    scope = SlotScope(SlotIndex(1), Attempt(1), 2, QueryConfig(), None)
    wiring = wire(Deployment(graph, pipeline.connectors, (), _no_chunks, refuse_user_functions, 0.0), scope)
    assert [subtask.id.stage for subtask in wiring.subtasks] == [0, 1, 2, 3]
    assert {channel.target for channel in wiring.inputs} == {SlotIndex(1)}
    assert {channel.source for channel in wiring.outputs} == {SlotIndex(1)}
