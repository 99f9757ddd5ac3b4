"""Barriers that do not wait: out of a sender without credit, past rows that nobody reads, and back after a restore."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import msgspec
import polars as pl
import pytest
from tests.property import pipelines as p

from tidegate.model.config import CheckpointMode, QueryConfig
from tidegate.model.elements import Barrier, Batch, CancelCheckpoint, CheckpointKind, Element
from tidegate.model.ids import Attempt, ChannelId, CheckpointId, OperatorId, SlotIndex, StageId
from tidegate.model.messages import AssignSplits, CheckpointAborted, TriggerCheckpoint
from tidegate.model.snapshot import OperatorSnapshot, Split, SplitPosition
from tidegate.plan.graph import Edge, JobGraph, Partitioning, Stage
from tidegate.plan.relational import Union
from tidegate.runtime.effects import Persist, Send, SlotEffect
from tidegate.runtime.output_channel import OutputChannel
from tidegate.runtime.persisting import persist_states
from tidegate.runtime.slot import SlotRuntime
from tidegate.state.codec import decode_chunk
from tidegate.testing.scripted import ScriptedConnectors, ScriptedSink, ScriptedSource, ScriptedSplit

ATTEMPT = Attempt(3)
TIMEOUT_MS = 100
ROWS = 10
CONFIG = QueryConfig(
    max_parallelism=8, aligned_timeout_ms=TIMEOUT_MS, batch_rows_max=ROWS, channel_batches_max=1, channel_time_max_ms=0
)
FROM_ONE = ChannelId(0, SlotIndex(1), SlotIndex(0))
"""Brings rows of the other slot's source to the middle stage of this one."""
TO_ONE = ChannelId(1, SlotIndex(0), SlotIndex(1))
"""Takes rows of this slot's middle stage to the other slot's sink, which gives no credit back."""
TO_SINK = ChannelId(1, SlotIndex(1), SlotIndex(0))
"""Brings rows of the other slot's middle stage to the sink of this one."""


def graph(parallelism: int = 2, partitioning: Partitioning = Partitioning.REBALANCE) -> JobGraph:
    """Source, a stage that only passes rows on, sink."""
    keys = ("k#1",) if partitioning is Partitioning.KEYED else ()
    edges = (
        Edge(0, StageId(0), StageId(1), 0, partitioning, keys, p.schema("#1")),
        Edge(1, StageId(1), StageId(2), 0, Partitioning.BROADCAST, (), p.schema("#1")),
    )
    stages = (
        Stage(StageId(0), (p.scan(0, "#1"),)),
        Stage(StageId(1), (Union(schema=p.schema("#1")),)),
        Stage(StageId(2), (replace(p.sink(p.scan(0, "#1")), inputs=()),)),
    )
    return JobGraph(stages, edges, parallelism, 8)


def frame(number: int, rows: int = ROWS) -> pl.DataFrame:
    return p.rows(Random(number), rows, "#1", start_s=1_000 * number)


class Slot:
    """Slot 0 of two, with everything between it and slot 1 in the hands of the test."""

    def __init__(
        self,
        config: QueryConfig = CONFIG,
        *,
        of: JobGraph | None = None,
        rows: int = 0,
        restored: tuple[OperatorSnapshot, ...] = (),
    ) -> None:
        self.world = ScriptedConnectors(
            {OperatorId("source-0"): ScriptedSource([ScriptedSplit(frame(9, rows), closed=False)])},
            {OperatorId("sink-0"): ScriptedSink()},
        )
        self.runtime = SlotRuntime(
            of or graph(),
            SlotIndex(0),
            ATTEMPT,
            config,
            self.world,
            restored=restored,
            chunks=lambda handle: decode_chunk(handle.data or b"", handle.name),
        )
        self.now_ms = 0.0
        self._sequences: dict[ChannelId, int] = {}
        self.work()

    def deliver(self, *elements: Element, channel: ChannelId = FROM_ONE) -> None:
        for element in elements:
            sequence = self._sequences.get(channel, 0)
            self._sequences[channel] = sequence + 1
            self.runtime.deliver(channel, sequence, element)

    def work(self) -> list[SlotEffect]:
        effects = list(self.runtime.turn(self.now_ms))
        for _ in range(1_000):
            if not self.runtime.has_work:
                return effects
            effects.extend(self.runtime.turn(self.now_ms))
        raise AssertionError("it never comes to rest")

    def wait(self, for_ms: float) -> list[SlotEffect]:
        self.now_ms += for_ms
        return self.work()

    def trigger(self, number: int, kind: CheckpointKind = CheckpointKind.PERIODIC) -> None:
        message = TriggerCheckpoint(attempt=ATTEMPT, checkpoint=CheckpointId(number), kind=kind)
        self.runtime.control(message, self.now_ms)

    def see(self, number: int, *elements: Element) -> list[SlotEffect]:
        """Triggers the checkpoint, brings the elements, and lets the slot look at all of it."""
        self.trigger(number)
        self.deliver(*elements)
        return self.work()

    def fill(self, batches: int = 4) -> list[SlotEffect]:
        """Gives the middle stage more rows than the sink of slot 1 has credit for."""
        self.deliver(*(Batch(frame(n)) for n in range(batches)))
        return self.work()

    @property
    def backlog(self) -> int:
        return next(m.backlog for m in self.runtime.progress().metrics if m.operator.startswith("1 "))


def persists(effects: list[SlotEffect]) -> dict[int, Persist]:
    """By stage."""
    return {e.subtask.stage: e for e in effects if isinstance(e, Persist)}


def sent(effects: list[SlotEffect], channel: ChannelId = TO_ONE) -> list[Element]:
    return [e.element for e in effects if isinstance(e, Send) and e.channel == channel]


def in_flight(persist: Persist) -> list[pl.DataFrame]:
    return [pl.concat(rows.frames) for rows in persist.in_flight]


def barrier(number: int, *, unaligned: bool = False, kind: CheckpointKind = CheckpointKind.PERIODIC) -> Barrier:
    return Barrier(CheckpointId(number), kind, unaligned)


def test_a_checkpoint_gets_past_a_reader_that_consumes_nothing() -> None:
    """The barrier leaves with the rows that waited before it, and what the stage has not read is part of its snapshot."""
    slot = Slot()
    slot.fill()
    waiting = slot.backlog
    assert waiting > 0
    slot.see(1, barrier(1))
    assert 1 not in persists(slot.wait(TIMEOUT_MS - 1))
    wakeup_ms = slot.runtime.next_wakeup_ms
    assert wakeup_ms is not None
    assert wakeup_ms <= slot.now_ms + 1
    effects = slot.wait(1)
    assert slot.backlog == waiting, "nothing was consumed for it"
    overtaken = persists(effects)[1]
    assert pl.concat(in_flight(overtaken)).height == waiting * ROWS
    assert sent(effects)[-1] == barrier(1, unaligned=True)
    assert all(isinstance(element, Batch) for element in sent(effects)[:-1])


def test_the_rows_of_all_channels_up_to_their_barriers_are_noted_and_processed_all_the_same() -> None:
    slot = Slot()
    slot.fill()
    held = slot.backlog
    slot.see(1)
    effects = slot.wait(TIMEOUT_MS)
    assert 1 not in persists(effects), "the barrier has not come in every channel"
    assert barrier(1, unaligned=True) in sent(effects), "but it has left"
    slot.deliver(Batch(frame(7)))
    assert 1 not in persists(slot.work())
    slot.deliver(barrier(1), Batch(frame(8)))
    (noted,) = in_flight(persists(slot.work())[1])
    assert noted.height == (held + 1) * ROWS
    assert noted.tail(ROWS).equals(frame(7)), "up to the barrier, and nothing behind it"
    slot.runtime.credit(TO_ONE, 1, 0)
    assert slot.backlog == held + 2, "they still wait to be read"


def test_a_barrier_that_overtook_elsewhere_is_taken_at_once() -> None:
    slot = Slot()
    slot.fill()
    slot.deliver(barrier(1, unaligned=True))
    effects = slot.work()
    assert barrier(1, unaligned=True) in sent(effects)
    assert 1 not in persists(effects), "this slot's own source has not been triggered"
    slot.trigger(1)
    effects = slot.work()
    assert persists(effects).keys() == {0, 1}
    assert persists(effects)[1].in_flight


@pytest.mark.parametrize("kind", [CheckpointKind.SAVEPOINT, CheckpointKind.FINAL])
def test_savepoints_and_the_end_never_overtake(kind: CheckpointKind) -> None:
    slot = Slot()
    slot.fill()
    slot.deliver(barrier(1, kind=kind))
    slot.trigger(1, kind)
    slot.work()
    effects = slot.wait(100 * TIMEOUT_MS)
    assert 1 not in persists(effects)
    assert barrier(1, kind=kind) not in sent(effects)


def test_a_savepoint_is_not_overtaken_by_the_checkpoint_behind_it() -> None:
    slot = Slot()
    slot.fill()
    slot.deliver(barrier(1, kind=CheckpointKind.SAVEPOINT), barrier(2, unaligned=True))
    slot.trigger(1, CheckpointKind.SAVEPOINT)
    slot.trigger(2)
    assert 1 not in persists(slot.wait(TIMEOUT_MS))
    effects: list[SlotEffect] = []
    while barrier(1, kind=CheckpointKind.SAVEPOINT) not in sent(effects):
        slot.runtime.credit(TO_ONE, 1, 0)
        effects += slot.work()
    taken = [(e.checkpoint, e.in_flight) for e in effects if isinstance(e, Persist) and e.subtask.stage == 1]
    assert taken[0] == (1, ())
    assert [checkpoint for checkpoint, _ in taken] == [1, 2]


def test_without_a_timeout_or_without_holding_nothing_overtakes() -> None:
    for config in (
        msgspec.structs.replace(CONFIG, aligned_timeout_ms=0),
        msgspec.structs.replace(CONFIG, checkpoint_mode=CheckpointMode.AT_LEAST_ONCE),
    ):
        slot = Slot(config)
        slot.fill()
        slot.see(1, barrier(1))
        effects = slot.wait(100 * TIMEOUT_MS)
        assert 1 not in persists(effects)
        assert barrier(1) not in sent(effects)


@pytest.mark.parametrize("in_band", [True, False])
def test_giving_up_a_checkpoint_discards_what_was_noted_for_it(in_band: bool) -> None:
    slot = Slot()
    slot.fill()
    slot.see(1)
    slot.wait(TIMEOUT_MS)
    if in_band:
        slot.deliver(CancelCheckpoint(CheckpointId(1)))
    else:
        slot.runtime.control(CheckpointAborted(attempt=ATTEMPT, checkpoint=CheckpointId(1)), slot.now_ms)
    slot.deliver(barrier(1), barrier(2, unaligned=True))
    slot.trigger(2)
    effects = slot.wait(TIMEOUT_MS)
    assert [e.checkpoint for e in effects if isinstance(e, Persist) and e.subtask.stage == 1] == [2]


def test_a_barrier_of_a_newer_checkpoint_ends_the_wait_for_an_older_one() -> None:
    """The source of the other slot never took checkpoint 1: it can be given up, and 2 goes through."""
    slot = Slot()
    slot.fill()
    slot.see(1)
    slot.wait(TIMEOUT_MS)
    slot.see(2, barrier(2))
    effects = slot.wait(TIMEOUT_MS)
    assert [e.checkpoint for e in effects if isinstance(e, Persist) and e.subtask.stage == 1] == [2]


def test_a_source_does_not_wait_for_room_either() -> None:
    """Everything it has read leaves, then the barrier: the position in its snapshot is that of the rows before the barrier."""
    slot = Slot(msgspec.structs.replace(CONFIG, batch_rows_max=1_000), rows=40)
    split = SplitPosition(split=Split(number=0, payload=b""), position=None)
    message = AssignSplits(
        attempt=ATTEMPT, operator=OperatorId("source-0"), subtask=SlotIndex(0), sequence=0, splits=(split,)
    )
    slot.runtime.control(message, 0)
    slot.work()
    effects = slot.see(1)
    effects += slot.wait(TIMEOUT_MS)
    (source,) = [state.source for name, state in persists(effects)[0].states if name == "source-0"]
    assert source is not None
    assert msgspec.msgpack.decode(source.open[0].position or b"") == 40


def channel(sent: list[Element]) -> OutputChannel:
    transmit = lambda _, __, element: sent.append(element)  # noqa: E731
    return OutputChannel(TO_ONE, transmit, batches_max=1, bytes_max=1 << 20, target_rows=ROWS)


def test_what_leaves_beyond_the_credit_is_paid_back_before_more_is_made() -> None:
    out: list[Element] = []
    one = channel(out)
    for number in range(2):
        one.put(Batch(frame(number)))
    one.put(barrier(1))
    assert (len(out), one.full, one.waits_for(CheckpointId(1))) == (1, True, True)
    one.release(CheckpointId(1))
    assert out[2] == barrier(1, unaligned=True)
    assert (len(out), one.full, one.waiting) == (3, True, 0)
    one.grant(1)
    assert one.full, "the other batch is still beyond the credit"
    one.grant(1)
    assert not one.full


def test_only_what_waits_before_the_barrier_leaves_with_it() -> None:
    out: list[Element] = []
    one = channel(out)
    for element in (Batch(frame(0)), Batch(frame(1)), barrier(1), Batch(frame(2)), barrier(2)):
        one.put(element)
    one.release(CheckpointId(1))
    assert len(out) == 3
    assert one.waits_for(CheckpointId(2))
    one.release(CheckpointId(1))
    assert len(out) == 3


@pytest.mark.parametrize("parallelism", [1, 2, 3])
@pytest.mark.parametrize("partitioning", [Partitioning.REBALANCE, Partitioning.KEYED, Partitioning.BROADCAST])
def test_restored_rows_come_first_and_every_one_to_exactly_one_place(
    parallelism: int, partitioning: Partitioning
) -> None:
    """Two subtasks had rows in flight; as many, fewer or more read them. Broadcast rows come once to every subtask."""
    entries: list[OperatorSnapshot] = []
    overtaken: list[pl.DataFrame] = []
    for subtask in range(2):
        slot = Slot(of=graph(2, partitioning))
        slot.fill()
        slot.deliver(barrier(1), channel=TO_SINK)
        effects = slot.see(1, barrier(1)) + slot.wait(TIMEOUT_MS)
        for persist in persists(effects).values():
            entries += [
                msgspec.structs.replace(entry, subtask=SlotIndex(subtask))
                for entry in persist_states(persist, lambda *_: "name", lambda *_: None).snapshots
            ]
            overtaken += in_flight(persist)
    if partitioning is Partitioning.BROADCAST:
        overtaken = overtaken[: len(overtaken) // 2]
    of = graph(parallelism, partitioning)
    got: list[list[pl.DataFrame]] = []
    for subtask in range(parallelism):
        world = ScriptedConnectors({OperatorId("source-0"): ScriptedSource([])}, {OperatorId("sink-0"): ScriptedSink()})
        runtime = SlotRuntime(
            of,
            SlotIndex(subtask),
            ATTEMPT,
            msgspec.structs.replace(CONFIG, channel_batches_max=1_000),
            world,
            restored=tuple(entries),
            chunks=lambda handle: decode_chunk(handle.data or b"", handle.name),
        )
        while runtime.has_work:
            runtime.turn(0.0)
        got.append(world.sinks[OperatorId("sink-0")].written)
    every = [frame for frames in got for frame in frames]
    wanted = p.as_rows(pl.concat(overtaken))
    if partitioning is Partitioning.BROADCAST:
        assert all(p.as_rows(pl.concat(frames)) == wanted for frames in got)
    else:
        assert p.as_rows(pl.concat(every)) == wanted


def test_restored_rows_that_were_not_processed_yet_are_part_of_the_next_snapshot() -> None:
    slot = Slot()
    slot.fill(batches=8)
    slot.deliver(barrier(1), channel=TO_SINK)
    first = persists(slot.see(1, barrier(1)) + slot.wait(TIMEOUT_MS))
    entries = tuple(
        entry
        for persist in first.values()
        for entry in persist_states(persist, lambda *_: "name", lambda *_: None).snapshots
    )
    other = tuple(msgspec.structs.replace(e, subtask=SlotIndex(1), in_flight=()) for e in entries)
    back = Slot(restored=(*entries, *other))
    taken = sum(element.rows.height for element in sent(back.work()) if isinstance(element, Batch))
    back.deliver(barrier(2, unaligned=True))
    back.trigger(2)
    again = pl.concat(in_flight(persists(back.wait(TIMEOUT_MS))[1]))
    assert again.height > 0
    assert taken + again.height <= pl.concat(in_flight(first[1])).height
    assert again.equals(pl.concat(in_flight(first[1])).tail(again.height))
