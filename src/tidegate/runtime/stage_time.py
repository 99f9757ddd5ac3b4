"""Event time of a subtask in its snapshot: the watermark of every input channel, its idleness, and what they combined to."""

from __future__ import annotations

import msgspec

from tidegate.eventtime.combiner import WatermarkCombiner
from tidegate.model.elements import WATERMARK_MIN_US
from tidegate.model.ids import ChannelId, OperatorId, SlotIndex
from tidegate.model.snapshot import OperatorSnapshot
from tidegate.operators.protocol import OperatorState
from tidegate.operators.values import decoded


class ChannelTimeState(msgspec.Struct, frozen=True, array_like=True):
    channel: ChannelId
    at_us: int
    idle: bool
    ended: bool


class StageTime(msgspec.Struct, frozen=True, kw_only=True, tag_field="format", tag="stage-time/1"):
    combined_us: int
    parallelism: int
    channels: tuple[ChannelTimeState, ...]


def capture(combiner: WatermarkCombiner, parallelism: int) -> OperatorState:
    channels = tuple(
        ChannelTimeState(channel, time.at_us, time.idle is not None, time.ended)
        for channel, time in sorted(combiner.times().items())
    )
    state = StageTime(combined_us=combiner.combined_us, parallelism=parallelism, channels=channels)
    return OperatorState(value=msgspec.msgpack.encode(state))


def restored_start_us(
    state: OperatorId, snapshots: tuple[OperatorSnapshot, ...], subtask: SlotIndex, parallelism: int, *, exchanged: bool
) -> int:
    """Where event time goes on after a restore: the value every channel starts at. ``state``: the stage's own entry.

    Not the old value of each channel: a split may come back to another subtask, and a promise made for the rows of one split
    does not hold for those of another. The combined watermark does, it was a minimum over all of them, and it never goes back.
    So it is exact behind an all-to-all exchange (``exchanged``) at the same parallelism; otherwise the smallest of all old
    subtasks holds for every row that can still come. Idleness is not taken over either: sources that were idle say so again.
    """
    own = [
        (snapshot.subtask, decoded(snapshot.value, StageTime, "the event time of a stage"))
        for snapshot in snapshots
        if snapshot.operator == state and snapshot.value
    ]
    if exchanged:
        for index, time in own:
            if index == subtask and time.parallelism == parallelism:
                return time.combined_us
    return min((time.combined_us for _, time in own), default=WATERMARK_MIN_US)


def old_parallelism(snapshot: OperatorSnapshot) -> int:
    """How many subtasks the stage had when ``snapshot`` (its own entry) was taken."""
    return decoded(snapshot.value, StageTime, "the event time of a stage").parallelism
