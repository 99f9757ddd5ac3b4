"""Health is a pure function: each row of the table is something that goes wrong, and the words a person should read then."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

import pytest

from tidegate.checkpoint import effects as fx
from tidegate.checkpoint import events as ev
from tidegate.checkpoint.layout import ManifestRef
from tidegate.checkpoint.manifest import Manifest
from tidegate.checkpoint.phases import BackingOff, Ending, RestartAt, Session
from tidegate.checkpoint.plan import CheckpointPlan
from tidegate.checkpoint.statistics import CheckpointReport, FailureReason, Outcome
from tidegate.model.config import QueryConfig
from tidegate.model.elements import CheckpointKind
from tidegate.model.holding import Holder, HoldReason
from tidegate.model.ids import Attempt, CheckpointId, OperatorId, PipelineId, SlotIndex, StageId, SubtaskId
from tidegate.model.messages import OperatorMetrics, SlotAlive, SlotProgress, SubtaskAcked, TriggerCheckpoint
from tidegate.model.snapshot import PhaseTimes
from tidegate.spark import vitals as v
from tidegate.spark.health import Condition, Health, health, patience_ms, show_ms
from tidegate.spark.holding import Hold

A1 = Attempt(1)
SLOTS = 2


def subtask(stage: int, index: int) -> SubtaskId:
    return SubtaskId(StageId(stage), SlotIndex(index))


SUBTASKS = tuple(subtask(stage, index) for stage in (0, 1) for index in range(SLOTS))


def plan(**config: object) -> CheckpointPlan:
    return CheckpointPlan(
        pipeline=PipelineId("p"),
        parallelism=SLOTS,
        subtasks=SUBTASKS,
        sources=(OperatorId("source-0"),),
        stateful=(OperatorId("source-0"),),
        sinks=(OperatorId("sink-0"),),
        upstream=((StageId(0), ()), (StageId(1), (StageId(0),))),
        config=QueryConfig(parallelism=SLOTS, **config),  # pyright: ignore[reportArgumentType]
    )


Step: TypeAlias = Callable[[v.Vitals], v.Vitals]


def at(now_ms: int, what: fx.Effect | ev.Event | SlotProgress | SlotAlive) -> Step:
    match what:
        case SlotProgress():
            return lambda vitals: v.after_progress(vitals, what, now_ms)
        case SlotAlive():
            return lambda vitals: v.after_heartbeat(vitals, what, now_ms)
        case _ if type(what).__module__ == fx.__name__:
            return lambda vitals: v.after_effect(vitals, what, now_ms)  # pyright: ignore[reportArgumentType]
        case _:
            return lambda vitals: v.after_event(vitals, what)  # pyright: ignore[reportArgumentType]


def seen(*steps: Step, start: v.Vitals | None = None) -> v.Vitals:
    vitals = v.Vitals(0) if start is None else start
    for step in steps:
        vitals = step(vitals)
    return vitals


def running(*steps: Step) -> v.Vitals:
    """Deployed at 0, running at 1 s, checkpoint 1 complete at 2 s."""
    deployed = at(0, fx.Deploy(A1, None)), at(1_000, ev.SlotsReady(1_000, A1))
    return seen(*deployed, at(2_000, fx.ReportCheckpoint(report(1, 2_000))), *steps)


def report(number: int, now_ms: int, reason: FailureReason | None = None) -> CheckpointReport:
    outcome = Outcome.COMPLETED if reason is None else Outcome.FAILED
    return CheckpointReport(
        CheckpointId(number), A1, CheckpointKind.PERIODIC, outcome, now_ms - 10, now_ms, reason=reason
    )


def trigger(number: int) -> fx.Effect:
    return fx.SendToSlots(TriggerCheckpoint(attempt=A1, checkpoint=CheckpointId(number), kind=CheckpointKind.PERIODIC))


def ack(number: int, *subtasks: SubtaskId) -> list[Step]:
    return [
        at(
            0,
            ev.SlotSaid(
                0,
                SubtaskAcked(
                    attempt=A1,
                    slot=one.index,
                    subtask=one,
                    checkpoint=CheckpointId(number),
                    snapshots=(),
                    times=PhaseTimes(),
                ),
            ),
        )
        for one in subtasks
    ]


def progress(now_ms: int, slot: int, backlog: int = 0, **busy_ms: float) -> Step:
    names = {"sink": "1 sink-0", "source": "0 source-0"}
    metrics = tuple(
        OperatorMetrics(operator=names[name], busy_ms=busy, backlog=backlog if name == "sink" else 0)
        for name, busy in busy_ms.items()
    )
    return at(now_ms, SlotProgress(attempt=A1, slot=SlotIndex(slot), metrics=metrics))


def alive(now_ms: int, slot: int, doing: str = "", doing_ms: int = 0) -> Step:
    return at(now_ms, SlotAlive(attempt=A1, slot=SlotIndex(slot), doing=doing, doing_ms=doing_ms))


def awake(now_ms: int) -> list[Step]:
    """Both slots report and live."""
    return [step for slot in range(SLOTS) for step in (progress(now_ms, slot), alive(now_ms, slot))]


def manifest(number: int) -> Manifest:
    return Manifest(pipeline=PipelineId("p"), checkpoint=CheckpointId(number), attempt=A1, max_parallelism=8)


def at_step(state: object) -> Step:
    return lambda vitals: v.after_step(vitals, state)  # pyright: ignore[reportArgumentType]


def silent(since_ms: int, reason: HoldReason = HoldReason.UNANSWERED) -> Hold:
    return Hold(Holder(source=OperatorId("source-0"), reason=reason, example="bids-3"), since_ms)


SESSION = Session("process")
DOWN = ev.Failure("UNAVAILABLE", "the disk is full\nmore about it")
TRACEBACK = ev.Failure(
    "USER_CODE_FAILED", "Traceback (most recent call last):\n  File x\n    f()\nValueError: bad row\nin f"
)

WORLDS: list[tuple[str, v.Vitals, int, dict[str, object], Condition, list[str]]] = [
    ("a running query with recent checkpoints", running(), 20_000, {}, Condition.HEALTHY, []),
    ("just started", seen(), 100, {}, Condition.HEALTHY, ["starting"]),
    (
        "waiting for task slots at the first start",
        replace(seen(at(1_000, fx.Deploy(A1, None))), registered=1),
        15_000,
        {},
        Condition.HEALTHY,
        ["waits for task slots", "1 of 2 slots", "14 s"],
    ),
    (
        "waiting for task slots for too long",
        replace(seen(at(1_000, fx.Deploy(A1, None))), registered=1),
        45_000,
        {},
        Condition.UNHEALTHY,
        ["no checkpoint has completed for 45 s", "interval 1 s", "waits for task slots", "1 of 2 slots"],
    ),
    (
        "restoring a large state",
        replace(seen(at(1_000, fx.Deploy(A1, None))), registered=2),
        21_000,
        {},
        Condition.HEALTHY,
        ["restore their state, 20 s after the deploy"],
    ),
    (
        "T60: one subtask never acknowledges, and its operator never returns",
        running(
            at(3_000, trigger(2)),
            *ack(2, subtask(0, 1)),
            progress(3_000, 0, sink=1.0),
            progress(43_000, 1, sink=1.0),
            alive(43_900, 0, "1 sink-0", 40_900),
            alive(43_900, 1),
        ),
        44_000,
        {},
        Condition.UNHEALTHY,
        [
            "no checkpoint has completed for 42 s (interval 1 s)",
            "checkpoint 2, triggered 41 s ago, waits for 3 of 4 subtasks",
            "subtask 1/0 has been inside one call of `sink-0` for 41 s",
            "subtasks 0/0, 1/1 wait behind it",
        ],
    ),
    (
        "a sink far too slow",
        running(
            at(3_000, trigger(2)),
            *ack(2, subtask(0, 0), subtask(0, 1)),
            progress(30_000, 0, sink=20_000.0, source=400.0),
            progress(30_000, 1, sink=2_000.0, source=400.0),
            progress(40_000, 0, backlog=16, sink=29_800.0, source=500.0),
            progress(40_000, 1, sink=2_100.0, source=500.0),
            alive(40_000, 0),
            alive(40_000, 1),
        ),
        40_500,
        {},
        Condition.UNHEALTHY,
        ["subtask 1/0 is busy in `sink-0` (98 % of the time, 16 batches waiting)", "subtask 1/1 waits behind it"],
    ),
    (
        "every slot inside a long call of the same sink",
        running(
            at(3_000, trigger(2)),
            *ack(2, subtask(0, 0), subtask(0, 1)),
            alive(40_000, 0, "1 sink-0", 36_000),
            alive(40_000, 1, "1 sink-0", 20_000),
        ),
        40_000,
        {},
        Condition.UNHEALTHY,
        ["waits for 2 of 4 subtasks: subtask 1/0 has been inside one call of `sink-0` for 36 s, likewise subtask 1/1"],
    ),
    (
        "a slot that lives but does not report, of whose operator nothing is known",
        running(at(3_000, trigger(2)), progress(3_000, 1), alive(39_900, 1), *ack(2, subtask(0, 0), subtask(1, 0))),
        40_000,
        {},
        Condition.UNHEALTHY,
        ["slot 1 lives, but has reported no progress for 37 s"],
    ),
    (
        "a silent slot",
        running(at(3_000, trigger(2)), *awake(30_000), progress(36_000, 0), alive(36_000, 0)),
        36_000,
        {"unhealthy_after_ms": 5_000},
        Condition.UNHEALTHY,
        ["slot 1 has not been heard of for 6 s", "subtasks 0/0, 1/0 wait behind it"],
    ),
    (
        "a checkpoint location that takes no chunks",
        running(at(3_000, trigger(2)), *awake(40_000), *ack(2, subtask(0, 0), subtask(1, 0), subtask(1, 1))),
        40_000,
        {},
        Condition.UNHEALTHY,
        ["subtask 0/1 takes or stores its snapshot", "is the checkpoint location slow?"],
    ),
    (
        "a manifest that nobody confirms",
        running(
            at(3_000, trigger(2)),
            *ack(2, *SUBTASKS),
            at(3_100, fx.StoreManifest(manifest(2))),
            at(4_000, ev.ManifestUnknown(4_000, ManifestRef(CheckpointId(2), A1))),
            at(4_200, fx.StoreManifest(manifest(2))),
        ),
        40_000,
        {},
        Condition.UNHEALTHY,
        ["storing the manifest of checkpoint 2 has taken 37 s so far, 2 times", "the store did not answer"],
    ),
    (
        "T72: partitions that nobody can read: rows of the others flow on, checkpoints complete",
        replace(running(at(99_000, fx.ReportCheckpoint(report(2, 99_000)))), holds=(silent(50_000),)),
        100_000,
        {},
        Condition.UNHEALTHY,
        [
            "event time has been held back for 50 s by source-0: 1 split (bids-3) cannot be read: the source does not answer"
        ],
    ),
    (
        "the same, not for long enough",
        replace(running(at(99_000, fx.ReportCheckpoint(report(2, 99_000)))), holds=(silent(80_000),)),
        100_000,
        {},
        Condition.HEALTHY,
        [],
    ),
    (
        "a large backlog holds event time back for as long as it takes",
        replace(running(at(99_000, fx.ReportCheckpoint(report(2, 99_000)))), holds=(silent(0, HoldReason.UNREAD),)),
        100_000,
        {},
        Condition.HEALTHY,
        [],
    ),
    (
        "a commit that hangs, though the interval is long",
        running(at(3_000, fx.CommitSinks(A1, CheckpointId(1), ()))),
        64_000,
        {"checkpoint_interval_ms": 60_000},
        Condition.UNHEALTHY,
        ["committing the output of checkpoint 1 has taken 61 s so far"],
    ),
    (
        "a commit that takes its time within the interval",
        running(at(3_000, fx.CommitSinks(A1, CheckpointId(1), ()))),
        50_000,
        {"checkpoint_interval_ms": 60_000},
        Condition.HEALTHY,
        [],
    ),
    (
        "a commit that fails again and again",
        running(
            at(3_000, fx.CommitSinks(A1, CheckpointId(1), ())),
            at(4_000, ev.SinksFailed(4_000, A1, CheckpointId(1), DOWN)),
        ),
        40_000,
        {},
        Condition.UNHEALTHY,
        ["committing the output of checkpoint 1", "the last try: the disk is full"],
    ),
    (
        "cleanup that does not end",
        running(at(3_000, fx.Delete(A1, ("a", "b"), 30_000))),
        40_000,
        {},
        Condition.UNHEALTHY,
        ["deleting 2 old files from the checkpoint location has taken 37 s"],
    ),
    (
        "checkpoints that time out one after the other",
        running(
            at(3_000, trigger(2)),
            at(20_000, fx.ReportCheckpoint(report(2, 20_000, FailureReason.TIMED_OUT))),
            at(21_000, trigger(3)),
            at(38_000, fx.ReportCheckpoint(report(3, 38_000, FailureReason.TIMED_OUT))),
        ),
        39_000,
        {},
        Condition.UNHEALTHY,
        ["no checkpoint is under way; the last 2 checkpoints failed: not every subtask acknowledged in time"],
    ),
    (
        "the pause before the next restart",
        running(
            at(3_000, ev.AttemptFailed(3_000, A1, TRACEBACK)),
            at(3_000, fx.EndAttempt(A1, clean=False, reason="failed")),
            at_step(Ending(SESSION, A1, RestartAt(6_200))),
            at(3_000, ev.SlotsFree(3_000, A1)),
            at_step(BackingOff(SESSION, A1, 6_200)),
        ),
        3_000,
        {},
        Condition.RECOVERING,
        ["restarts again in 3.2 s, after a failure: ValueError: bad row"],
    ),
    (
        "the slots of a failed attempt do not leave",
        running(
            at(3_000, ev.AttemptFailed(3_000, A1, DOWN)),
            at(3_000, fx.EndAttempt(A1, clean=False, reason="failed")),
            at_step(Ending(SESSION, A1, RestartAt(3_100))),
        ),
        8_000,
        {},
        Condition.RECOVERING,
        ["the slots of attempt 1 are leaving", "5 s", "after a failure: the disk is full"],
    ),
    (
        "an attempt that the coordinator gave up",
        running(
            at(3_000, fx.EndAttempt(A1, clean=False, reason="4 checkpoints in a row failed")),
            at_step(Ending(SESSION, A1, RestartAt(3_100))),
        ),
        4_000,
        {},
        Condition.RECOVERING,
        ["after a failure: 4 checkpoints in a row failed"],
    ),
    (
        "a store that is away at the restart",
        running(
            at(3_000, ev.AttemptFailed(3_000, A1, DOWN)),
            at(3_000, fx.EndAttempt(A1, clean=False, reason="")),
            at_step(Ending(SESSION, A1, RestartAt(3_100))),
            at(3_050, ev.SlotsFree(3_050, A1)),
            at(3_100, fx.WriteClaim(Attempt(2), "process")),
            at_step(object()),
            at(3_200, ev.ClaimUnknown(3_200, Attempt(2))),
        ),
        60_000,
        {},
        Condition.UNHEALTHY,
        ["writing the claim of attempt 2 has taken 57 s so far", "the store did not answer", "the disk is full"],
    ),
    (
        "running again, first checkpoint still to come",
        running(
            at(3_000, ev.AttemptFailed(3_000, A1, DOWN)),
            at(3_000, fx.EndAttempt(A1, clean=False, reason="")),
            at_step(Ending(SESSION, A1, RestartAt(3_100))),
            at(3_200, fx.Deploy(Attempt(2), None)),
            at_step(object()),
            at(4_000, ev.SlotsReady(4_000, Attempt(2))),
        ),
        4_100,
        {},
        Condition.RECOVERING,
        ["after a failure: the disk is full"],
    ),
    ("being stopped", running(at(3_000, ev.StopRequested(3_000))), 90_000, {}, Condition.HEALTHY, ["stopping"]),
    ("stopped", running(at(3_000, fx.Finish(fx.Stopped()))), 900_000, {}, Condition.HEALTHY, ["stopped"]),
    ("finished", running(at(3_000, fx.Finish(fx.Finished()))), 900_000, {}, Condition.HEALTHY, ["all input was read"]),
    (
        "failed for good",
        running(at(3_000, fx.Finish(fx.Failed(DOWN)))),
        3_100,
        {},
        Condition.UNHEALTHY,
        ["failed: the disk is full"],
    ),
    (
        "fenced",
        running(at(3_000, fx.Finish(fx.Fenced(Attempt(7))))),
        3_100,
        {},
        Condition.UNHEALTHY,
        ["attempt 7", "owns the pipeline"],
    ),
]


@pytest.mark.parametrize(
    ("vitals", "now_ms", "config", "condition", "says"),
    [world[1:] for world in WORLDS],
    ids=[world[0].replace(" ", "-") for world in WORLDS],
)
def test_health_says_what_is_wrong(vitals, now_ms, config, condition, says):
    found = health(vitals, plan(**config), now_ms)
    assert found.condition is condition, found.reason
    for words in says:
        assert words in found.reason
    if not says:
        assert found.reason == ""


def test_a_query_that_runs_but_takes_no_checkpoints_turns_unhealthy_within_the_bound():
    """T60: nothing fails, nothing is reported, one acknowledgement is missing; the clock alone tells."""
    stuck = running(at(3_000, trigger(2)), *ack(2, *SUBTASKS[1:]))

    def found(after_ms: int, **config: object) -> Health:
        return health(stuck, plan(**config), 2_000 + after_ms)

    assert found(30_000).condition is Condition.HEALTHY
    assert found(30_001).condition is Condition.UNHEALTHY
    assert found(5_001, unhealthy_after_ms=5_000).condition is Condition.UNHEALTHY
    assert found(30_001, checkpoint_interval_ms=60_000).condition is Condition.HEALTHY
    assert [found(ms).seconds_since_last_checkpoint for ms in (0, 5_000, 90_000)] == [0.0, 5.0, 90.0]


def test_patience_follows_the_interval_that_counts_right_now():
    config = QueryConfig(checkpoint_interval_ms=5_000, backlog_checkpoint_interval_ms=60_000)
    assert patience_ms(config, far_behind=False) == 50_000
    assert patience_ms(config, far_behind=True) == 600_000
    assert patience_ms(QueryConfig(checkpoint_min_pause_ms=20_000), far_behind=False) == 200_000


def test_a_completed_checkpoint_makes_everything_well_again():
    vitals = running(
        at(3_000, ev.AttemptFailed(3_000, A1, DOWN)),
        at(3_000, fx.EndAttempt(A1, clean=False, reason="")),
        at_step(Ending(SESSION, A1, RestartAt(3_100))),
        at(3_200, fx.Deploy(Attempt(2), None)),
        at_step(object()),
        at(4_000, ev.SlotsReady(4_000, Attempt(2))),
    )
    assert vitals.failures_in_a_row == 1
    well = seen(at(4_500, fx.ReportCheckpoint(report(2, 4_500))), start=vitals)
    assert health(well, plan(), 5_000) == Health(Condition.HEALTHY, "", 0.5)


def test_a_failure_of_a_dead_attempt_says_nothing_about_its_successor():
    vitals = seen(
        at(0, fx.Deploy(Attempt(2), None)),
        at(1_000, ev.SlotsReady(1_000, Attempt(2))),
        at(2, ev.AttemptFailed(2, A1, DOWN)),
    )
    assert vitals.running


def test_the_share_of_busy_time_is_that_of_the_last_seconds_not_of_the_whole_run():
    vitals = v.Vitals(0)
    for second in range(1, 61):
        busy_ms = 0.0 if second <= 40 else (second - 40) * 900.0
        vitals = progress(second * 1_000, 0, sink=busy_ms)(vitals)
    signs = vitals.slots[SlotIndex(0)]
    assert signs.shares()["1 sink-0"] == pytest.approx(0.9)
    assert len(signs.marks) <= 3


@pytest.mark.parametrize(
    ("duration_ms", "words"), [(420, "420 ms"), (3_200, "3.2 s"), (5_000, "5 s"), (42_400, "42 s"), (600_000, "10 min")]
)
def test_durations_are_shown_for_people(duration_ms, words):
    assert show_ms(duration_ms) == words
