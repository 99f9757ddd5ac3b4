from __future__ import annotations

from dataclasses import replace

from tidegate.checkpoint.events import BacklogSeen
from tidegate.checkpoint.plan import CheckpointPlan
from tidegate.checkpoint.sources import SplitAssigner, fresh
from tidegate.model.config import QueryConfig
from tidegate.model.ids import Attempt, OperatorId, PipelineId, SlotIndex, StageId, SubtaskId
from tidegate.model.snapshot import Split
from tidegate.spark.backlog import BacklogWatch

SLOTS = 2
SOURCE = OperatorId("source-0")
PLAN = CheckpointPlan(
    pipeline=PipelineId("p"),
    parallelism=SLOTS,
    subtasks=tuple(SubtaskId(StageId(0), SlotIndex(index)) for index in range(SLOTS)),
    sources=(SOURCE,),
    stateful=(),
    sinks=(),
    config=QueryConfig(parallelism=SLOTS, checkpoint_interval_ms=1_000),
)


def waiting(splits: int, *, endless: bool = False) -> tuple[SplitAssigner, ...]:
    pending = tuple(Split(number=number, payload=b"") for number in range(splits + 5))
    return (replace(fresh(SOURCE, SLOTS), pending=pending, given=5, endless=endless),)


def look(watch: BacklogWatch, splits: int, now_ms: int, attempt: int = 1, *, endless: bool = False) -> bool | None:
    seen = watch.look(Attempt(attempt), waiting(splits, endless=endless), PLAN, now_ms)
    assert seen is None or seen == BacklogSeen(now_ms, Attempt(attempt), seen.far_behind)
    return None if seen is None else seen.far_behind


def test_sources_are_far_behind_when_splits_wait_for_longer_than_an_interval_and_it_is_said_once():
    watch = BacklogWatch()
    assert [look(watch, 3, now_ms) for now_ms in (0, 500, 1_000)] == [None, None, None]
    assert look(watch, 3, 1_001) is True
    assert [look(watch, 9, now_ms) for now_ms in (1_100, 5_000)] == [None, None]
    assert look(watch, SLOTS, 5_100) is False
    assert look(watch, SLOTS, 9_999) is None


def test_a_short_burst_is_no_backlog():
    watch = BacklogWatch()
    heard = [look(watch, splits, now_ms) for now_ms, splits in ((0, 9), (900, 1), (1_000, 9), (1_900, 9), (2_000, 0))]
    assert heard == [None] * 5


def test_every_attempt_is_told_anew():
    watch = BacklogWatch()
    look(watch, 9, 0)
    assert look(watch, 9, 1_001) is True
    assert look(watch, 9, 1_100, attempt=2) is None
    assert look(watch, 9, 2_101, attempt=2) is True


def test_what_is_left_of_an_endless_source_nobody_knows():
    watch = BacklogWatch()
    assert [look(watch, 9, now_ms, endless=True) for now_ms in (0, 5_000)] == [None, None]
