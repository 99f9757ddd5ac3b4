"""What ``check()`` says about a location and ``startFrom``: what ``start()`` would say, without writing a byte."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.api.test_location import NEW, begin, plan_for, savepoint_at, start_from
from tests.unit.checkpoint.locations import Killed, MortalStore, contents
from tests.unit.checkpoint.scenario import COUNT

from tidegate.api.location import StartFrom, check_location, open_pipeline
from tidegate.checkpoint.manifest import Manifest
from tidegate.checkpoint.plan import CheckpointPlan
from tidegate.checkpoint.savepoint import SAVEPOINT_KEY
from tidegate.model.errors import InvalidQuery, TidegateError
from tidegate.model.ids import PipelineId
from tidegate.storage.local import LocalBlobStore

Prepare = Callable[[Path], StartFrom | None]


def without_the_count(pipeline: PipelineId) -> CheckpointPlan:
    """A query that has no place for the state in the savepoint."""
    plan = plan_for(pipeline)
    return replace(plan, stateful=tuple(one for one in plan.stateful if one != COUNT))


def nothing_there(root: Path) -> StartFrom | None:
    return start_from(root / "nowhere")


def damaged(root: Path) -> StartFrom | None:
    saved = savepoint_at(root)
    (saved / SAVEPOINT_KEY).write_bytes(b"rotten")
    return start_from(saved)


def a_location_that_began_without(root: Path) -> StartFrom | None:
    begin(LocalBlobStore(root / "new"), None)
    return start_from(savepoint_at(root))


def another_savepoint(root: Path) -> StartFrom | None:
    begin(LocalBlobStore(root / "new"), start_from(savepoint_at(root)))
    return start_from(savepoint_at(root / "other", drained=True))


def an_interrupted_import(root: Path) -> StartFrom | None:
    with pytest.raises(Killed):
        begin(MortalStore(LocalBlobStore(root / "new"), 2, after=True), start_from(savepoint_at(root)))
    return None


def part_of_another_import(root: Path) -> StartFrom | None:
    an_interrupted_import(root)
    return start_from(savepoint_at(root / "other", drained=True))


def a_checkpoint_to_be_claimed(root: Path) -> StartFrom | None:
    savepoint_at(root)
    return start_from(root / "old" / "checkpoints" / "000042-000007", claim=True)


@pytest.mark.parametrize(
    "prepare",
    [
        nothing_there,
        damaged,
        a_location_that_began_without,
        another_savepoint,
        an_interrupted_import,
        part_of_another_import,
        a_checkpoint_to_be_claimed,
    ],
)
def test_whatever_a_start_refuses_is_refused_in_the_same_words(tmp_path: Path, prepare: Prepare) -> None:
    start = prepare(tmp_path)
    store = LocalBlobStore(tmp_path / "new")
    before = contents(store)
    with pytest.raises(TidegateError) as checked:
        check_location(store, "here", NEW, plan_for, start)
    assert contents(store) == before
    with pytest.raises(TidegateError) as refused:
        open_pipeline(store, "here", NEW, plan_for, start)
    assert (type(checked.value), str(checked.value)) == (type(refused.value), str(refused.value))


@pytest.mark.parametrize("there", [False, True])
def test_a_query_that_does_not_fit_a_savepoint_is_refused_before_there_is_a_location(
    tmp_path: Path, there: bool
) -> None:
    start = start_from(savepoint_at(tmp_path))
    store = LocalBlobStore(tmp_path / "new") if there else None
    assert check_location(store, "here", NEW, plan_for, start) is None
    with pytest.raises(InvalidQuery, match=COUNT):
        check_location(store, "here", NEW, without_the_count, start)
    seen: list[tuple[Manifest, str]] = []
    assert check_location(store, "here", NEW, plan_for, start, lambda *one: seen.append(one)) is None
    assert [document for _, document in seen] == [start.path], "its sources are asked about its positions"
    assert store is None or store.list("") == ()


def test_a_location_with_checkpoints_of_its_own_is_what_a_start_goes_on_from(tmp_path: Path) -> None:
    start = start_from(savepoint_at(tmp_path))
    store = LocalBlobStore(tmp_path / "new")
    document = begin(store, start)
    for again in (start, None):
        assert check_location(store, "here", NEW, plan_for, again) == document
