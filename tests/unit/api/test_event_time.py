"""Event time that cannot be told is refused before anything runs."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import pytest
from tests.property import pipelines as p

from tidegate.api.event_time import refuse_far_assigners
from tidegate.model.config import QueryConfig
from tidegate.model.errors import InvalidQuery
from tidegate.model.ids import OperatorId
from tidegate.plan.keyed import Deduplicate
from tidegate.plan.relational import Plan
from tidegate.plan.stages import build_graph

SOURCE = OperatorId("source-0")


def check(plan: Plan, ordered: Collection[OperatorId], *, bounded: bool = False) -> None:
    graph = build_graph(p.sink(plan), parallelism=2, max_parallelism=8)
    refuse_far_assigners(graph, ordered, QueryConfig(max_parallelism=8, bounded=bounded))


def behind_an_exchange() -> Plan:
    scan = p.scan(0, "#1")
    first = Deduplicate(id=OperatorId("d"), keys=("k#1",), event_time=None, schema=scan.schema, inputs=(scan,))
    return replace(p.watermark(first, "ts#1"), id=OperatorId("late"))


def test_behind_an_exchange_nobody_knows_the_partitions_of_a_log() -> None:
    with pytest.raises(
        InvalidQuery, match=r"withWatermark\('ts', …\) stands behind an exchange.* source-0 "
    ) as refused:
        check(behind_an_exchange(), {SOURCE})
    assert "before" in refused.value.hint


def test_files_and_bounded_runs_are_read_before_time_moves() -> None:
    check(behind_an_exchange(), frozenset())
    check(behind_an_exchange(), {SOURCE}, bounded=True)
    check(behind_an_exchange(), {OperatorId("source-1")})


def test_before_the_exchange_it_may_stand() -> None:
    check(p.watermark(p.scan(0, "#1"), "ts#1"), {SOURCE})
