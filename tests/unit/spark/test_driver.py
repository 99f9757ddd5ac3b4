"""The job master when something is wrong that nobody foresaw: the query ends, says why, and answers whoever waits."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.property import pipelines as p
from tests.unit.checkpoint.scenario import PLAN

from tidegate.checkpoint import effects as fx
from tidegate.model.errors import Bug, Unavailable
from tidegate.model.ids import Attempt
from tidegate.plan.stages import build_graph
from tidegate.ports.store import CreateOutcome
from tidegate.spark.driver import JobMaster
from tidegate.storage.local import LocalBlobStore


class BrokenStore(LocalBlobStore):
    """Raises what no store may raise."""

    def create(self, key: str, data: bytes) -> CreateOutcome:
        raise ZeroDivisionError(f"while writing {key}")


def test_an_error_that_nobody_foresaw_ends_the_query_and_is_told(tmp_path: Path) -> None:
    """T61: a loop that swallowed it would go on without checkpoints, and nobody would know."""
    graph = build_graph(p.sink(p.scan(0, "#1")), parallelism=2, max_parallelism=8)
    master = JobMaster(
        None,  # type: ignore[arg-type]  # nothing is deployed
        graph,
        PLAN.config,
        PLAN,
        BrokenStore(tmp_path),
        str(tmp_path),
        name="q",
        enumerators=dict,
        committers={},
    )
    waiting = master.checkpoint()
    master.start(Attempt(0))
    assert master.ended.wait(60)
    outcome = master.status.now().outcome
    assert isinstance(outcome, fx.Failed)
    assert outcome.failure.code == Bug.code
    assert "ZeroDivisionError" in outcome.failure.message
    with pytest.raises(Unavailable, match="ended"):
        waiting.result(timeout=10)
    with pytest.raises(Unavailable, match="ended"):
        master.checkpoint().result(timeout=10)
