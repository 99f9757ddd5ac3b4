"""Output that waits for its commit while the number of subtasks changes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.checkpoint.scenario import PLAN, SINK, Scenario, committable, with_config
from tests.unit.checkpoint.test_publication import looked, only

from tidegate.checkpoint import effects as ef
from tidegate.checkpoint.plan import CheckpointPlan
from tidegate.model.ids import SlotIndex, StageId, SubtaskId


def of_size(parallelism: int) -> CheckpointPlan:
    subtasks = (SubtaskId(StageId(stage), SlotIndex(slot)) for stage in range(2) for slot in range(parallelism))
    return replace(
        PLAN,
        parallelism=parallelism,
        subtasks=tuple(sorted(subtasks)),
        config=with_config(parallelism=parallelism).config,
    )


@pytest.mark.parametrize(("before", "after"), [(2, 5), (5, 2)])
def test_a_rescaled_attempt_commits_what_all_old_subtasks_owed_and_waits_for_nobody(before: int, after: int) -> None:
    """T46: the commit runs from the manifest, before any slot is there; checkpoints then go on with the new subtasks alone."""
    run = Scenario(of_size(before)).run_up()
    looked(run)
    again = run.successor(plan=of_size(after))
    effects = again.answer(*again.start())
    owed = tuple(committable(1, subtask) for subtask in range(before))
    assert only(effects, ef.CommitSinks)[0].committables == ((SINK, owed),)
    kinds = [type(effect) for effect in effects if isinstance(effect, (ef.CommitSinks, ef.Deploy))]
    assert kinds == [ef.CommitSinks, ef.Deploy]
    again.complete()
    assert again.run.base is not None
    assert again.run.base.parallelism == after
