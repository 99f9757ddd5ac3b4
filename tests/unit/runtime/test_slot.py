"""One slot's loop, seen from its shell."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from random import Random

import msgspec
import polars as pl
import pytest
from tests.property import pipelines as p

from tidegate.model import types as t
from tidegate.model.config import QueryConfig
from tidegate.model.elements import Barrier, Batch, CheckpointKind, EndOfData, Idle, Watermark
from tidegate.model.errors import Bug, CorruptSnapshot, SlotLost, TidegateError
from tidegate.model.ids import Attempt, ChannelId, CheckpointId, OperatorId, SlotIndex, StageId, SubtaskId
from tidegate.model.messages import (
    AssignSplits,
    CheckpointAborted,
    CheckpointCompleted,
    DrainSources,
    EndAttempt,
    ReportProgress,
    SlotProgress,
    SlotReady,
    SourceExhausted,
    SplitsWanted,
    SubtaskAcked,
    SubtaskDeclined,
    TriggerCheckpoint,
)
from tidegate.model.snapshot import ChunkHandle, KeyGroupRange, OperatorSnapshot, Split, SplitPosition
from tidegate.operators.source import POLL_MAX_MS
from tidegate.plan.graph import Edge, JobGraph, Partitioning, Stage
from tidegate.plan.relational import Sink
from tidegate.plan.stages import build_graph
from tidegate.runtime.effects import GrantCredit, Leave, Persist, Send, SlotEffect, Tell
from tidegate.runtime.persisting import persist_states
from tidegate.runtime.slot import SlotRuntime
from tidegate.runtime.source_subtask import EXHAUSTED_AGAIN_MS
from tidegate.testing.scripted import (
    ScriptedConnectors,
    ScriptedSink,
    ScriptedSource,
    ScriptedSplit,
    ScriptedWriter,
)
from tidegate.testing.slots import SlotHarness

ATTEMPT = Attempt(3)
BOUNDED = QueryConfig(max_parallelism=8, bounded=True)


def windowed_plan() -> Sink:
    counted = p.count_and_sum(p.watermark(p.scan(0, "#1"), "ts#1"), ("w#1", "k#1"), "v#1", number=0, window="w#1")
    return p.sink(counted)


def graph(parallelism: int = 1, plan: Sink | None = None) -> JobGraph:
    return build_graph(plan or windowed_plan(), parallelism=parallelism, max_parallelism=8)


def connectors(*splits: ScriptedSplit, batch_rows: int = 1_000) -> ScriptedConnectors:
    source = ScriptedSource(list(splits), batch_rows=batch_rows)
    return ScriptedConnectors({OperatorId("source-0"): source}, {OperatorId("sink-0"): ScriptedSink()})


class Shell:
    """Calls turn until there is nothing to do, and keeps the effects."""

    def __init__(self, of: JobGraph, world: ScriptedConnectors, config: QueryConfig = BOUNDED, slot: int = 0) -> None:
        self.runtime = SlotRuntime(of, SlotIndex(slot), ATTEMPT, config, world)
        self.now_ms = 0.0

    def work(self) -> list[SlotEffect]:
        effects = list(self.runtime.turn(self.now_ms))
        while self.runtime.has_work:
            effects.extend(self.runtime.turn(self.now_ms))
        return effects

    def trigger(self, number: int, attempt: Attempt = ATTEMPT) -> None:
        message = TriggerCheckpoint(attempt=attempt, checkpoint=CheckpointId(number), kind=CheckpointKind.PERIODIC)
        self.runtime.control(message, self.now_ms)

    def assign(self, sequence: int, *numbers: int, no_more: bool = False) -> None:
        splits = tuple(SplitPosition(split=Split(number=n, payload=b""), position=None) for n in numbers)
        message = AssignSplits(
            attempt=ATTEMPT,
            operator=OperatorId("source-0"),
            subtask=SlotIndex(0),
            sequence=sequence,
            splits=splits,
            no_more=no_more,
            ordered=True,
        )
        self.runtime.control(message, self.now_ms)


def told(effects: list[SlotEffect], kind: type) -> list[object]:
    return [e.message for e in effects if isinstance(e, Tell) and isinstance(e.message, kind)]


def persisted(effects: list[SlotEffect]) -> list[tuple[int, int]]:
    return [(e.checkpoint, e.subtask.stage) for e in effects if isinstance(e, Persist)]


def test_it_says_ready_first_and_then_asks_for_splits() -> None:
    effects = Shell(graph(), connectors()).work()
    assert isinstance(effects[0], Tell)
    assert isinstance(effects[0].message, SlotReady)
    assert len(told(effects, SplitsWanted)) == 1


def test_a_trigger_before_it_is_ready_is_declined_at_once() -> None:
    """T67"""
    shell = Shell(graph(), connectors())
    shell.trigger(1)
    effects = shell.work()
    (declined,) = told(effects, SubtaskDeclined)
    assert isinstance(declined, SubtaskDeclined)
    assert (declined.subtask, declined.checkpoint) == (SubtaskId(StageId(0), SlotIndex(0)), 1)
    assert persisted(effects) == []


def test_a_trigger_makes_every_subtask_persist_once_sources_first() -> None:
    shell = Shell(graph(), connectors())
    shell.work()
    shell.trigger(1)
    assert persisted(shell.work()) == [(1, 0), (1, 1)]


def test_repeated_old_foreign_and_aborted_triggers_are_ignored() -> None:
    """T8"""
    shell = Shell(graph(), connectors())
    shell.work()
    shell.trigger(2)
    shell.trigger(2)
    shell.trigger(9, attempt=Attempt(2))
    assert persisted(shell.work()) == [(2, 0), (2, 1)]
    shell.trigger(2)
    shell.runtime.control(CheckpointAborted(attempt=ATTEMPT, checkpoint=CheckpointId(3)), 0)
    shell.trigger(3)
    assert persisted(shell.work()) == []
    shell.trigger(4)
    assert persisted(shell.work()) == [(4, 0), (4, 1)]


def test_triggers_that_wait_are_taken_in_order_whatever_order_they_came_in() -> None:
    """T22: with two checkpoints under way neither swallows the other."""
    shell = Shell(graph(), connectors())
    shell.work()
    for number in (2, 1, 2, 1, 3):
        shell.trigger(number)
    shell.runtime.control(CheckpointAborted(attempt=ATTEMPT, checkpoint=CheckpointId(3)), 0)
    assert persisted(shell.work()) == [(1, 0), (2, 0), (1, 1), (2, 1)]


def test_a_trigger_that_a_newer_barrier_overtook_is_declined_once() -> None:
    """Its message was late: the checkpoint cannot complete, and nobody should wait for its timeout to find out."""
    shell = Shell(graph(), connectors())
    shell.work()
    shell.trigger(2)
    shell.work()
    shell.trigger(1)
    shell.trigger(1)
    effects = shell.work()
    assert persisted(effects) == []
    (declined,) = told(effects, SubtaskDeclined)
    assert isinstance(declined, SubtaskDeclined)
    assert declined.checkpoint == 1


def test_what_was_told_is_told_again_until_it_is_heard() -> None:
    """Any message may be lost: ready until something is asked of the slot, acks until their checkpoint is over."""
    shell = Shell(graph(), connectors())

    def repeated(kind: type) -> int:
        shell.now_ms += BOUNDED.message_repeat_ms
        return len(told(shell.work(), kind))

    shell.work()
    assert repeated(SlotReady) == 1
    assert repeated(SlotReady) == 1
    assert shell.runtime.next_wakeup_ms is not None
    assert shell.runtime.next_wakeup_ms <= shell.now_ms + BOUNDED.message_repeat_ms
    shell.trigger(1)
    persist = next(e for e in shell.work() if isinstance(e, Persist))
    assert repeated(SlotReady) == 0
    snapshots = persist_states(persist, lambda *_: "name", lambda *_: None).snapshots
    shell.runtime.stored(persist.checkpoint, persist.subtask, snapshots)
    first = told(shell.work(), SubtaskAcked)
    shell.now_ms += BOUNDED.message_repeat_ms
    assert told(shell.work(), SubtaskAcked) == first
    shell.runtime.control(CheckpointAborted(attempt=ATTEMPT, checkpoint=CheckpointId(2)), shell.now_ms)
    assert repeated(SubtaskAcked) == 1
    shell.runtime.control(CheckpointCompleted(attempt=ATTEMPT, checkpoint=CheckpointId(1)), shell.now_ms)
    assert repeated(SubtaskAcked) == 0


def test_a_decline_is_repeated_until_the_checkpoint_is_aborted() -> None:
    shell = Shell(graph(), connectors())
    shell.work()
    shell.trigger(1)
    persist = next(e for e in shell.work() if isinstance(e, Persist))
    shell.runtime.persist_failed(persist.checkpoint, persist.subtask, "disk full")
    counts = []
    for _ in range(3):
        counts.append(len(told(shell.work(), SubtaskDeclined)))
        shell.now_ms += BOUNDED.message_repeat_ms
    shell.runtime.control(CheckpointAborted(attempt=ATTEMPT, checkpoint=CheckpointId(1)), shell.now_ms)
    counts.append(len(told(shell.work(), SubtaskDeclined)))
    assert counts == [1, 1, 1, 0]


def test_an_assignment_behind_a_gap_waits_until_the_missing_one_comes() -> None:
    """A lost assignment: what was received says so, and the driver sends both again."""
    shell = Shell(graph(), connectors(*(ScriptedSplit(p.rows(Random(n), 10, "#1"), closed=False) for n in range(4))))

    def received() -> list[tuple[int, int, bool]]:
        wanted = told(shell.work(), SplitsWanted)
        return [(w.open, w.received, w.asks) for w in wanted if isinstance(w, SplitsWanted)]

    assert received() == [(0, 0, True)]
    shell.assign(1, 1)
    assert received() == []
    shell.now_ms += 1_000
    assert received() == [(0, 0, True)]
    shell.assign(0, 0, 1)
    shell.assign(1, 2)
    assert received() == [(3, 2, False)], "without a question to follow, the arrival is confirmed"
    shell.assign(0, 0, 1)
    assert received() == [(3, 2, False)], "sent again means that the confirmation was lost"


def test_a_drained_source_ends_where_it_stands_and_keeps_its_splits_open() -> None:
    split = ScriptedSplit(p.rows(Random(1), 40, "#1"), closed=False)
    shell = Shell(graph(), connectors(split), QueryConfig(max_parallelism=8))
    shell.work()
    shell.assign(0, 0)
    shell.work()
    split.append(p.rows(Random(2), 40, "#1", start_s=100))
    for _ in range(2):
        shell.runtime.control(DrainSources(attempt=ATTEMPT), shell.now_ms)
    shell.now_ms = 50.0
    effects = shell.work()
    assert len(told(effects, SourceExhausted)) == 1
    metrics = {m.operator: m for m in shell.runtime.progress().metrics}
    assert metrics["0 source-0"].rows_out == 40
    assert metrics["1 aggregate-0"].state_rows == 0, "the last watermark closes every window"
    shell.trigger(1)
    persist = next(e for e in shell.work() if isinstance(e, Persist))
    (source,) = [state.source for name, state in persist.states if name == "source-0"]
    assert source is not None
    (left,) = source.open
    assert left.position is not None
    assert msgspec.msgpack.decode(left.position) == 40


def test_the_acknowledgement_follows_the_storing_and_comes_once() -> None:
    shell = Shell(graph(), connectors())
    shell.work()
    shell.trigger(1)
    persist = next(e for e in shell.work() if isinstance(e, Persist))
    snapshots = persist_states(persist, lambda *_: "name", lambda *_: None).snapshots
    for _ in range(2):
        shell.runtime.stored(persist.checkpoint, persist.subtask, snapshots, async_ms=7.0, uploaded_bytes=5)
    (ack,) = told(shell.work(), SubtaskAcked)
    assert isinstance(ack, SubtaskAcked)
    assert (ack.times.async_ms, ack.times.uploaded_bytes, ack.snapshots) == (7.0, 5, snapshots)


def test_a_failed_upload_declines() -> None:
    shell = Shell(graph(), connectors())
    shell.work()
    shell.trigger(1)
    persist = next(e for e in shell.work() if isinstance(e, Persist))
    shell.runtime.persist_failed(persist.checkpoint, persist.subtask, "disk full", ("half",))
    (declined,) = told(shell.work(), SubtaskDeclined)
    assert isinstance(declined, SubtaskDeclined)
    assert (declined.reason, declined.counts, declined.chunks) == ("disk full", True, ("half",))


def stored_elsewhere(persist: Persist) -> OperatorSnapshot:
    """One chunk of it is a file of its own, another one travels inside the message."""
    file = ChunkHandle(name="stored", groups=KeyGroupRange(0, 8), rows=1, size_bytes=9, checksum=0)
    inlined = msgspec.structs.replace(file, name="inlined", data=b"x")
    return OperatorSnapshot(operator=OperatorId("op"), subtask=persist.subtask.index, chunks=(file, inlined))


def test_a_snapshot_that_is_not_stored_in_time_is_declined_and_an_answer_after_that_is_too_late() -> None:
    """T66: storage that hangs is found out by the slot, not by the timeout of the whole checkpoint."""
    config = msgspec.structs.replace(BOUNDED, upload_timeout_ms=500)
    shell = Shell(graph(), connectors(), config)
    shell.work()
    shell.trigger(1)
    persist = next(e for e in shell.work() if isinstance(e, Persist))
    assert shell.runtime.next_wakeup_ms is not None
    assert shell.runtime.next_wakeup_ms <= 500.0
    shell.now_ms = 500.0
    declined = told(shell.work(), SubtaskDeclined)
    assert len(declined) == 2
    assert all(isinstance(one, SubtaskDeclined) and "uploadTimeout" in one.reason for one in declined)
    shell.runtime.stored(persist.checkpoint, persist.subtask, (stored_elsewhere(persist),))
    effects = shell.work()
    assert told(effects, SubtaskAcked) == []
    (leftover,) = told(effects, SubtaskDeclined)
    assert isinstance(leftover, SubtaskDeclined)
    assert (leftover.counts, leftover.chunks) == (False, ("stored",))


def test_a_snapshot_call_that_does_not_come_back_is_named_with_its_phase() -> None:
    """T66: asked by another thread, while the loop is inside the call."""
    now_ms = 0.0
    seen: list[TidegateError | None] = []

    class Stuck(ScriptedSink):
        def writer(self, sink: Sink, attempt: Attempt, subtask: SlotIndex) -> ScriptedWriter:
            class Writer(ScriptedWriter):
                def prepare(self, checkpoint: CheckpointId) -> tuple[bytes, ...]:
                    seen.extend((runtime.stuck(now_ms + 999.0), runtime.stuck(now_ms + 1_000.0)))
                    return super().prepare(checkpoint)

            return Writer(self, sink.id, attempt, subtask)

    world = ScriptedConnectors({OperatorId("source-0"): ScriptedSource([])}, {OperatorId("sink-0"): Stuck()})
    config = msgspec.structs.replace(BOUNDED, sync_timeout_ms=1_000)
    runtime = SlotRuntime(graph(), SlotIndex(0), ATTEMPT, config, world, clock=lambda: now_ms)
    runtime.turn(0.0)
    runtime.control(TriggerCheckpoint(attempt=ATTEMPT, checkpoint=CheckpointId(4), kind=CheckpointKind.PERIODIC), 0.0)
    while runtime.has_work:
        runtime.turn(0.0)
    in_time, overdue = seen
    assert in_time is None
    assert overdue is not None
    assert overdue.operator == "sink-0"
    assert "synchronous phase of checkpoint 4" in overdue.message
    assert runtime.stuck(1e9) is None, "outside of a snapshot a long call is nobody's business"


def test_the_barrier_goes_to_every_channel_before_anything_else_also_idle_ones() -> None:
    """T16 T24: all rows have one key, so one of the two channels never carries a row."""
    split = ScriptedSplit(p.rows(Random(1), 30, "#1", keys=1), closed=False)
    shell = Shell(graph(2), connectors(split))
    shell.assign(0, 0)
    shell.work()
    shell.trigger(1)
    split.append(p.rows(Random(2), 30, "#1", keys=1, start_s=100))
    shell.now_ms = 50.0
    effects = shell.work()
    sent = [e for e in effects if isinstance(e, Send)]
    assert sent[0].element == Barrier(CheckpointId(1), CheckpointKind.PERIODIC)
    assert isinstance(effects[effects.index(sent[0]) + 1], Persist)


def test_gaps_and_unknown_channels_end_the_attempt() -> None:
    shell = Shell(graph(2), connectors())
    known = ChannelId(0, SlotIndex(1), SlotIndex(0))
    with pytest.raises(SlotLost, match="element 1 where 0"):
        shell.runtime.deliver(known, 1, Idle())
    with pytest.raises(SlotLost, match="does not exist"):
        shell.runtime.deliver(ChannelId(5, SlotIndex(1), SlotIndex(0)), 0, Idle())
    with pytest.raises(SlotLost, match="does not exist"):
        shell.runtime.credit(known, 1, 0)


def test_an_exhausted_source_says_so_again_and_again_and_still_answers_triggers() -> None:
    """T17 T18: the end of data takes nobody out of the checkpoint."""
    shell = Shell(graph(), connectors(ScriptedSplit(p.rows(Random(1), 10, "#1"))))
    shell.work()
    shell.assign(0, 0, no_more=True)
    effects: list[SlotEffect] = []
    for _ in range(20):
        shell.now_ms += 1.0
        effects += shell.work()
    assert len(told(effects, SourceExhausted)) == 1
    shell.now_ms += EXHAUSTED_AGAIN_MS
    assert len(told(list(shell.runtime.turn(shell.now_ms)), SourceExhausted)) == 1
    shell.trigger(1)
    assert persisted(shell.work()) == [(1, 0), (1, 1)]


@pytest.mark.parametrize("when", ["before", "during", "after"])
def test_an_input_that_ends_around_alignment_does_not_stop_it(when: str) -> None:
    """T17"""
    shell = Shell(graph(2), connectors())
    remote = ChannelId(0, SlotIndex(1), SlotIndex(0))
    elements = {
        "before": [EndOfData(), "trigger", Barrier(CheckpointId(1))],
        "during": ["trigger", EndOfData(), Barrier(CheckpointId(1))],
        "after": ["trigger", Barrier(CheckpointId(1)), EndOfData()],
    }
    effects = shell.work()
    sequence = 0
    for element in elements[when]:
        if isinstance(element, str):
            shell.trigger(1)
        else:
            shell.runtime.deliver(remote, sequence, element)  # type: ignore[arg-type]
            sequence += 1
        effects += shell.work()
    assert persisted(effects) == [(1, 0), (1, 1)]


def test_rows_behind_a_barrier_wait_and_come_before_newer_ones() -> None:
    """T14 T15"""
    edge = Edge(0, StageId(0), StageId(1), 0, Partitioning.REBALANCE, (), p.schema("#1"))
    stages = (
        Stage(StageId(0), (p.scan(0, "#1"),)),
        Stage(StageId(1), (replace(p.sink(p.scan(0, "#1")), inputs=()),)),
    )
    world = connectors()
    shell = Shell(JobGraph(stages, (edge,), 2, 8), world)
    remote = ChannelId(0, SlotIndex(1), SlotIndex(0))
    before, held, newer = (p.rows(Random(n), 3, "#1", start_s=100 * n) for n in range(3))

    def written() -> list[object]:
        frames = world.sinks[OperatorId("sink-0")].written
        return [value for frame in frames for value in frame["ts"].to_list()]

    shell.work()
    for sequence, element in enumerate((Batch(before), Barrier(CheckpointId(1)), Batch(held))):
        shell.runtime.deliver(remote, sequence, element)
    shell.work()
    assert written() == before["ts#1"].to_list()
    shell.runtime.deliver(remote, 3, Batch(newer))
    shell.trigger(1)
    effects = shell.work()
    assert persisted(effects) == [(1, 0), (1, 1)]
    (committable,) = next(
        state for e in effects if isinstance(e, Persist) for name, state in e.states if name == "sink-0"
    ).committables
    prepared = world.sinks[OperatorId("sink-0")].prepared[committable.payload.decode()]
    assert prepared["ts"].to_list() == before["ts#1"].to_list()
    assert written() == [*before["ts#1"], *held["ts#1"], *newer["ts#1"]]


def test_a_cancelled_checkpoint_lets_the_held_channel_flow() -> None:
    shell = Shell(graph(2), connectors())
    remote = ChannelId(0, SlotIndex(1), SlotIndex(0))
    shell.work()
    shell.runtime.deliver(remote, 0, Barrier(CheckpointId(1)))
    shell.work()
    shell.runtime.deliver(remote, 1, Idle())
    assert not shell.runtime.has_work
    shell.runtime.control(CheckpointAborted(attempt=ATTEMPT, checkpoint=CheckpointId(1)), 0)
    assert shell.runtime.has_work


def test_end_attempt_is_the_last_thing_it_does() -> None:
    shell = Shell(graph(), connectors())
    shell.work()
    shell.runtime.control(EndAttempt(attempt=ATTEMPT, clean=True, reason="done"), 0)
    assert shell.work()[-1] == Leave(True, "done")
    assert shell.runtime.next_wakeup_ms is None
    assert not shell.runtime.has_work


def test_a_waking_source_tells_every_channel_also_those_that_get_no_rows() -> None:
    """T27: nobody may go on without the watermark of a source that reads again."""
    split = ScriptedSplit(p.rows(Random(1), 30, "#1", keys=1), closed=False)
    config = QueryConfig(max_parallelism=8, idle_timeout_ms=100)
    shell = Shell(graph(2), connectors(split), config)
    shell.assign(0, 0)
    shell.assign(1)
    shell.work()
    shell.now_ms = 200.0
    effects = shell.work()
    remote = [e.element for e in effects if isinstance(e, Send)]
    assert Idle() in remote
    split.append(p.rows(Random(2), 1, "#1", keys=1, start_s=0))
    shell.now_ms = 210.0 + POLL_MAX_MS
    woken = [e.element for e in shell.work() if isinstance(e, Send)]
    assert isinstance(woken[0], Watermark)


def test_local_channels_pass_rows_by_reference_under_the_same_credit() -> None:
    config = msgspec.structs.replace(BOUNDED, channel_batches_max=1, batch_rows_max=10, drain=True)
    shell = Shell(graph(), connectors(ScriptedSplit(p.rows(Random(1), 200, "#1"))), config)
    shell.assign(0, 0, no_more=True)
    effects: list[SlotEffect] = []
    for _ in range(100):
        shell.now_ms += 5.0
        effects += shell.work()
    assert not [e for e in effects if isinstance(e, Send)]
    metrics = {m.operator: m for m in shell.runtime.progress().metrics}
    assert metrics["0 source-0"].rows_out == 200
    assert metrics["1 sink-0"].rows_in > 0


def test_an_error_names_the_operator_and_the_position() -> None:
    class Broken(ScriptedSink):
        def commit(self, committables: object) -> None: ...

        def writer(self, sink: Sink, attempt: Attempt, subtask: SlotIndex) -> object:  # type: ignore[override]
            class Writer:
                def write(self, rows: pl.DataFrame) -> None:
                    raise ZeroDivisionError("rows refused")

                def close(self) -> None: ...

            return Writer()

    read = ScriptedSource([ScriptedSplit(p.rows(Random(1), 5, "#1"))])
    world = ScriptedConnectors({OperatorId("source-0"): read}, {OperatorId("sink-0"): Broken()})
    shell = Shell(graph(1, p.sink(p.scan(0, "#1"))), world)
    shell.assign(0, 0)
    with pytest.raises(TidegateError, match="rows refused") as caught:
        shell.work()
    assert isinstance(caught.value, Bug)
    assert caught.value.operator == "sink-0"
    assert caught.value.position == "split 0 row 5"


def test_a_checkpoint_without_an_operator_is_not_taken_for_an_empty_one() -> None:
    """T59"""
    world = connectors(ScriptedSplit(p.rows(Random(1), 30, "#1")))
    harness = SlotHarness(graph(), world, BOUNDED)
    snapshot = harness.checkpoint()
    missing = tuple(s for s in snapshot.operators if s.operator != "aggregate-0")
    with pytest.raises(CorruptSnapshot, match="aggregate-0"):
        SlotRuntime(graph(), SlotIndex(0), ATTEMPT, BOUNDED, world, restored=missing)


def test_after_a_restore_a_fired_window_does_not_fire_again_and_late_rows_stay_late() -> None:
    """T26"""
    at = lambda s: datetime.fromtimestamp(s, UTC)  # noqa: E731
    kind = {"ts#1": pl.Datetime("us", "UTC"), "w#1": pl.Datetime("us", "UTC"), "k#1": pl.Int64, "v#1": pl.Int64}

    def frame(*seconds: int) -> pl.DataFrame:
        rows = [(at(s), at((s // 10 + 1) * 10), 1, 1) for s in seconds]
        return pl.DataFrame(rows, schema=kind, orient="row")

    split = ScriptedSplit(frame(1, 2, 100), closed=False)
    world = connectors(split)
    config = QueryConfig(max_parallelism=8, idle_timeout_ms=500)
    before = SlotHarness(graph(2), world, config)
    before.settle()
    snapshot = before.checkpoint()
    (sink,) = world.sinks.values()
    fired = [(at(10), 1, 2, 2)]
    assert sink.rows() == fired
    split.append(frame(3, 101))
    after = SlotHarness(graph(3), world, config, restore=snapshot, store=before.store, attempt=2)
    after.settle()
    after.checkpoint()
    assert sink.rows() == fired
    late = sum(m.late_rows for slot in after.slots.values() for m in slot.progress().metrics)
    assert late == 1


def test_with_nine_of_ten_rows_on_one_key_every_source_keeps_its_turns_and_checkpoints_complete() -> None:
    splits = []
    for number in range(8):
        rows = p.rows(Random(number), 4_000, "#1", keys=1)
        spread = pl.when(pl.int_range(pl.len()) % 10 == 0).then(pl.int_range(pl.len())).otherwise(7)
        splits.append(ScriptedSplit(rows.with_columns(spread.alias("k#1"))))
    plan = p.sink(p.count_and_sum(p.scan(0, "#1"), ("k#1", "ts#1"), "v#1", number=0, window=None))
    world = connectors(*splits, batch_rows=50)
    config = msgspec.structs.replace(BOUNDED, channel_batches_max=2, batch_rows_max=50)
    harness = SlotHarness(graph(2, plan), world, config, seed=5)
    for _ in range(10):
        harness.advance(100)
        harness.checkpoint()
    read = {m.operator: m.rows_out for m in harness.slots[SlotIndex(0)].progress().metrics}["0 source-0"]
    other = {m.operator: m.rows_out for m in harness.slots[SlotIndex(1)].progress().metrics}["0 source-0"]
    assert min(read, other) > 0.3 * max(read, other)
    assert len(harness.completed) == 10


def test_timers_do_not_spin_while_a_source_waits_for_credit() -> None:
    split = ScriptedSplit(p.rows(Random(1), 5_000, "#1", keys=50))
    config = msgspec.structs.replace(BOUNDED, channel_batches_max=1, batch_rows_max=10)
    shell = Shell(graph(2), connectors(split), config)
    shell.assign(0, 0, no_more=True)
    shell.now_ms = 10.0
    shell.work()
    assert shell.runtime.next_wakeup_ms is None or shell.runtime.next_wakeup_ms > shell.now_ms


def test_fields_of_the_schema_keep_their_types_through_the_slots() -> None:
    assert [field.type for field in graph().edges[0].schema] == [t.TIMESTAMP, t.LONG]


def test_batches_between_slots_carry_no_origin() -> None:
    shell = Shell(graph(2), connectors(ScriptedSplit(p.rows(Random(1), 50, "#1", keys=20))))
    shell.assign(0, 0)
    batches = [e.element for e in shell.work() if isinstance(e, Send) and isinstance(e.element, Batch)]
    assert batches
    assert {batch.origin for batch in batches} == {-1}


def test_a_report_on_demand_says_idle_only_after_what_was_assigned_before_it_is_read() -> None:
    shell = Shell(graph(), connectors(ScriptedSplit(p.rows(Random(1), 50, "#1"))), QueryConfig(max_parallelism=8))
    shell.work()

    def ask(number: int) -> SlotProgress:
        shell.runtime.control(ReportProgress(attempt=ATTEMPT, number=number, poll=True), shell.now_ms)
        effects = shell.runtime.turn(shell.now_ms)
        (told,) = [e.message for e in effects if isinstance(e, Tell) and isinstance(e.message, SlotProgress)]
        return told

    def assign(sequence: int, *splits: SplitPosition) -> None:
        source = {"operator": OperatorId("source-0"), "subtask": SlotIndex(0)}
        message = AssignSplits(attempt=ATTEMPT, sequence=sequence, splits=splits, **source)
        shell.runtime.control(message, shell.now_ms)

    assert (ask(1).answers, ask(2).idle_sources) == (1, ()), "it has not been told whether there is something to read"
    assign(0)
    shell.work()
    assert shell.runtime.progress().idle_sources == ("source-0",)
    assign(1, SplitPosition(split=Split(number=0, payload=b""), position=None))
    assert (early := ask(3)).idle_sources == () and early.answers == 3
    shell.work()
    assert shell.runtime.progress().idle_sources == ("source-0",)
    assert shell.runtime.progress().answers == 3, "regular reports say how far they have heard"


def test_rows_that_stand_ready_in_several_channels_are_processed_in_one_call() -> None:
    """Not those behind a barrier, and of each channel in order."""
    edge = Edge(0, StageId(0), StageId(1), 0, Partitioning.REBALANCE, (), p.schema("#1"))
    stages = (
        Stage(StageId(0), (p.scan(0, "#1"),)),
        Stage(StageId(1), (replace(p.sink(p.scan(0, "#1")), inputs=()),)),
    )
    world = connectors()
    shell = Shell(JobGraph(stages, (edge,), 8, 8), world)
    shell.work()
    batches = [p.rows(Random(n), 3, "#1", start_s=100 * n) for n in range(8)]
    for source in range(1, 7):
        shell.runtime.deliver(ChannelId(0, SlotIndex(source), SlotIndex(0)), 0, Batch(batches[source]))
    barred = ChannelId(0, SlotIndex(7), SlotIndex(0))
    shell.runtime.deliver(barred, 0, Barrier(CheckpointId(1)))
    shell.runtime.deliver(barred, 1, Batch(batches[7]))
    effects = shell.work()
    (written,) = world.sinks[OperatorId("sink-0")].written
    assert sorted(written["ts"].to_list()) == sorted(ts for one in batches[1:7] for ts in one["ts#1"].to_list())
    granted = {e.channel.source: e.batches for e in effects if isinstance(e, GrantCredit)}
    assert granted == dict.fromkeys(range(1, 7), 1)
