"""Names of batches belong to a location: a target that skips what it has noted must never skip rows of another one."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from tests.unit.api.test_location import plan_for, savepoint_at, start_from
from tests.unit.checkpoint.scenario import PLAN

from tidegate.api.location import open_pipeline
from tidegate.api.preparing import new_document
from tidegate.connectors.current_batch import batch, inside
from tidegate.model.ids import BatchId, OperatorId, PipelineId
from tidegate.ports.context import CommitterContext
from tidegate.storage.local import LocalBlobStore


def begun(location: Path, savepoint: Path | None) -> PipelineId:
    """As ``start()`` opens a location: with what the pipeline would be if it were a new one."""
    wanted = new_document(cast(Any, SimpleNamespace(fingerprint="same query")), PLAN.config)
    store = LocalBlobStore(location)
    return open_pipeline(
        store, str(location), wanted, plan_for, start_from(savepoint) if savepoint is not None else None
    ).pipeline


def name_in(pipeline: PipelineId) -> str:
    context = cast(CommitterContext, SimpleNamespace(operator=OperatorId("sink-0"), pipeline=pipeline))
    with inside(context, BatchId(0)):
        return batch().name


def test_every_start_from_gives_a_name_of_its_own_and_restarts_keep_it(tmp_path: Path) -> None:
    """T76: two locations that begin with one savepoint give the same ids to different rows."""
    saved = savepoint_at(tmp_path)
    places = [tmp_path / "a", tmp_path / "b", tmp_path / "c"]
    first = [name_in(begun(place, saved)) for place in places]
    assert len(set(first)) == len(first)
    assert [name_in(begun(place, saved)) for place in places] == first, "startFrom is spent"
    assert [name_in(begun(place, None)) for place in places] == first


def test_a_location_that_is_emptied_and_started_again_gets_another_name(tmp_path: Path) -> None:
    """The ids of its batches begin at 0 again."""
    saved = savepoint_at(tmp_path)
    names = {name_in(begun(tmp_path / "here", saved))}
    (tmp_path / "here").rename(tmp_path / "gone")
    names.add(name_in(begun(tmp_path / "here", saved)))
    assert len(names) == 2
