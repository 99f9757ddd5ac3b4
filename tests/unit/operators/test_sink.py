"""Committables of a sink subtask."""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from tidegate.model import types as t
from tidegate.model.elements import Batch
from tidegate.model.ids import Attempt, CheckpointId, OperatorId, SlotIndex
from tidegate.model.output_mode import OutputMode
from tidegate.model.snapshot import Committable, KeyGroupRange
from tidegate.operators.protocol import OperatorContext, Restored
from tidegate.operators.sink import SinkOperator
from tidegate.plan.relational import Sink
from tidegate.ports.sink import SinkWriter
from tidegate.testing.scripted import ScriptedSink, ScriptedWriter
from tidegate.testing.stand_ins import scripted_sink

NODE = Sink(
    id=OperatorId("sink-0"),
    spec=scripted_sink((t.Field("number", t.LONG),)),
    columns=(("n#1", "number"),),
)


def make(connector: ScriptedSink, *restored: Committable, node: Sink = NODE) -> SinkOperator:
    context = OperatorContext(
        operator=NODE.id,
        subtask=SlotIndex(2),
        parallelism=3,
        max_parallelism=8,
        groups=KeyGroupRange(5, 8),
        restored=Restored(committables=restored),
        attempt=Attempt(4),
    )
    return SinkOperator(node, context, connector.writer(node, context.attempt, context.subtask))


def write(sink: SinkOperator, *numbers: int) -> None:
    assert list(sink.on_batch(Batch(pl.DataFrame({"n#1": list(numbers)})))) == []


def checkpoints(sink: SinkOperator, number: int) -> list[int]:
    return [c.checkpoint for c in sink.snapshot(CheckpointId(number)).committables]


def test_rows_are_written_under_their_public_names() -> None:
    connector = ScriptedSink()
    write(make(connector), 1, 2)
    assert connector.written[0].to_dict(as_series=False) == {"number": [1, 2]}


def test_a_committable_is_kept_until_its_commit_is_confirmed() -> None:
    """T2 T6: an aborted checkpoint, a lost notice: the next snapshot still carries what was prepared."""
    sink = make(ScriptedSink())
    write(sink, 1)
    assert checkpoints(sink, 1) == [1]
    write(sink, 2)
    assert checkpoints(sink, 2) == [1, 2]
    sink.on_committed(CheckpointId(1))
    assert checkpoints(sink, 3) == [2]
    sink.on_committed(CheckpointId(3))
    sink.on_committed(CheckpointId(1))
    assert checkpoints(sink, 4) == []


def test_restored_committables_are_carried_on() -> None:
    old = Committable(checkpoint=CheckpointId(7), subtask=SlotIndex(5), number=0, payload=b"x")
    sink = make(ScriptedSink(), old)
    assert sink.snapshot(CheckpointId(8)).committables == (old,)
    sink.on_committed(CheckpointId(8))
    assert sink.snapshot(CheckpointId(9)).committables == ()


def test_an_empty_epoch_prepares_nothing() -> None:
    """T57"""
    assert checkpoints(make(ScriptedSink()), 1) == []


def test_a_result_takes_the_place_of_one_that_nobody_has_seen_except_in_a_log() -> None:
    """A transaction that is dropped without being ended would stay open: readers of the log would wait for it."""
    complete = scripted_sink(NODE.schema, OutputMode.COMPLETE)
    for spec, carried in ((complete, [2]), (replace(complete, is_log=True), [1, 2])):
        sink = make(ScriptedSink(), node=replace(NODE, spec=spec))
        write(sink, 1)
        assert checkpoints(sink, 1) == [1]
        write(sink, 1, 2)
        assert checkpoints(sink, 2) == carried


class Informed(ScriptedSink):
    def __init__(self) -> None:
        super().__init__()
        self.heard: list[int] = []

    def writer(self, sink: Sink, attempt: Attempt, subtask: SlotIndex) -> ScriptedWriter:
        made = super().writer(sink, attempt, subtask)
        heard = self.heard

        class Writer(SinkWriter):
            write, prepare, close = made.write, made.prepare, made.close

            def on_committed(self, checkpoint: CheckpointId) -> None:
                heard.append(checkpoint)

        return Writer()  # type: ignore[return-value]


def test_a_writer_that_wants_to_know_hears_of_commits() -> None:
    connector = Informed()
    sink = make(connector)
    write(sink, 1)
    checkpoints(sink, 1)
    sink.on_committed(CheckpointId(1))
    assert connector.heard == [1]


class Settling(ScriptedSink):
    def __init__(self) -> None:
        super().__init__()
        self.settled: list[int] = []

    def writer(self, sink: Sink, attempt: Attempt, subtask: SlotIndex) -> ScriptedWriter:
        made = super().writer(sink, attempt, subtask)
        settled = self.settled

        class Writer(SinkWriter):
            write, prepare, close = made.write, made.prepare, made.close

            def settle(self, checkpoint: CheckpointId) -> None:
                settled.append(checkpoint)

        return Writer()  # type: ignore[return-value]


def test_what_a_writer_leaves_for_later_is_waited_for_with_its_snapshot() -> None:
    connector = Settling()
    sink = make(connector)
    write(sink, 1)
    first, second = sink.snapshot(CheckpointId(1)), sink.snapshot(CheckpointId(2))
    assert connector.settled == []
    assert first.settle is not None and second.settle is not None
    first.settle()
    second.settle()
    assert connector.settled == [1, 2]
