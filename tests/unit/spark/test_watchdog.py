from __future__ import annotations

import logging

from tidegate.checkpoint import effects as fx
from tidegate.checkpoint import events as ev
from tidegate.checkpoint.phases import New
from tidegate.checkpoint.plan import CheckpointPlan
from tidegate.model.config import QueryConfig
from tidegate.model.ids import Attempt, OperatorId, PipelineId, SlotIndex, StageId, SubtaskId
from tidegate.spark.health import Condition
from tidegate.spark.watchdog import REMINDER_MS, Watchdog

A1 = Attempt(1)


def watchdog() -> Watchdog:
    plan = CheckpointPlan(
        pipeline=PipelineId("p"),
        parallelism=1,
        subtasks=(SubtaskId(StageId(0), SlotIndex(0)),),
        sources=(OperatorId("source-0"),),
        stateful=(),
        sinks=(),
        config=QueryConfig(parallelism=1, unhealthy_after_ms=5_000),
    )
    dog = Watchdog(plan, "clicks", 0)
    dog.on_step(New(), (fx.Deploy(A1, None),), 0)
    dog.on_event(ev.SlotsReady(100, A1))
    return dog


def test_a_change_of_health_is_said_once_and_repeated_every_minute_while_it_is_bad(caplog):
    """T60: also for whoever only reads the log."""
    dog = watchdog()
    with caplog.at_level(logging.INFO, "tidegate.health"):
        for second in range(5):
            dog.on_clock(second * 1_000, New(), 1)
        assert caplog.records == []
        for second in range(6, 6 + REMINDER_MS // 1_000 + 1):
            dog.on_clock(second * 1_000, New(), 1)
    assert [record.levelname for record in caplog.records] == ["WARNING", "WARNING"]
    assert "clicks is unhealthy: no checkpoint has completed for 6 s" in caplog.records[0].getMessage()
    assert "66 s" in caplog.records[1].getMessage()


def test_health_can_be_asked_at_any_moment_and_does_not_depend_on_the_loop():
    dog = watchdog()
    assert dog.health(5_000).condition is Condition.HEALTHY
    assert dog.health(5_001).condition is Condition.UNHEALTHY, "the loop has not turned since"
    assert dog.health(9_000).seconds_since_last_checkpoint == 9.0
