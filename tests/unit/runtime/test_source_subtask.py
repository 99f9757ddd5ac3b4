"""Barriers of a source whose output is held up."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl
from tests.property import pipelines as p

from tidegate.model.config import QueryConfig
from tidegate.model.elements import Barrier, Batch, CheckpointKind, Element, Output
from tidegate.model.ids import Attempt, ChannelId, CheckpointId, OperatorId, SlotIndex, StageId, SubtaskId
from tidegate.model.messages import AssignSplits
from tidegate.model.snapshot import KeyGroupRange, Split, SplitPosition
from tidegate.operators.protocol import Operator, OperatorContext
from tidegate.operators.source import SourceOperator
from tidegate.plan.relational import Union
from tidegate.runtime.chain import Chain, Link
from tidegate.runtime.effects import Persist
from tidegate.runtime.output_channel import OutputChannel
from tidegate.runtime.outputs import Outputs
from tidegate.runtime.routing import SingleRouter
from tidegate.runtime.source_subtask import SourceSubtask
from tidegate.runtime.subtask import SlotScope
from tidegate.testing.scripted import ScriptedSource, ScriptedSplit


class OneByOne(Operator):
    """Yields every row as a batch of its own."""

    def on_batch(self, batch: Batch) -> Iterator[Output]:
        for index in range(batch.rows.height):
            yield batch.with_rows(batch.rows.slice(index, 1))


def test_no_barrier_is_taken_in_the_middle_of_a_batch() -> None:
    """T24 T34: the position says all five rows are out, so they must all be before the barrier."""
    name = OperatorId("source-0")
    config = QueryConfig(batch_rows_max=5)
    scope = SlotScope(SlotIndex(0), Attempt(1), 1, config, None)
    context = OperatorContext(
        operator=name, subtask=SlotIndex(0), parallelism=1, max_parallelism=1, groups=KeyGroupRange(0, 1)
    )
    rows = pl.DataFrame({"n": [1, 2, 3, 4, 5]})
    source = SourceOperator(p.scan(0, "#1"), context, ScriptedSource([ScriptedSplit(rows)]), config)
    sent: list[Element] = []
    channel = OutputChannel(
        ChannelId(0, SlotIndex(0), SlotIndex(0)),
        lambda _, __, element: sent.append(element),
        batches_max=1,
        bytes_max=1 << 20,
        target_rows=1,
    )
    outputs = Outputs(((SingleRouter(), (channel,)),))
    links = (
        Link(source, p.scan(0, "#1"), "source-0", name),
        Link(OneByOne(), Union(schema=()), "one by one", None),
    )
    subtask = SourceSubtask(
        SubtaskId(StageId(0), SlotIndex(0)), scope, source, Chain(links, None, source.describe), outputs
    )
    split = SplitPosition(split=Split(number=0, payload=b""), position=None)
    source.assign(AssignSplits(attempt=Attempt(1), operator=name, subtask=SlotIndex(0), sequence=0, splits=(split,)), 0)
    subtask.run(0)
    subtask.trigger(CheckpointId(1), CheckpointKind.PERIODIC, 0)
    for _ in range(10):
        subtask.take_if_triggered(0)
        if subtask.runnable(0):
            subtask.run(0)
        elif any(isinstance(element, Batch) for element in sent) and channel.full:
            channel.grant(1)
    before = sent[: sent.index(Barrier(CheckpointId(1)))]
    assert [n for element in before if isinstance(element, Batch) for n in element.rows["n"]] == [1, 2, 3, 4, 5]
    assert len([effect for effect in scope.effects if isinstance(effect, Persist)]) == 1
