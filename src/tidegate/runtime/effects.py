"""What a slot's loop asks its shell to do. The loop itself touches no socket, no disk, no clock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import polars as pl

from tidegate.model.elements import Element
from tidegate.model.ids import ChannelId, CheckpointId, OperatorId, SlotIndex, SubtaskId
from tidegate.model.messages import DriverMessage
from tidegate.operators.protocol import OperatorState


@dataclass(frozen=True, slots=True)
class Send:
    """Put an element into a channel to another slot. ``sequence`` is dense per channel, from 0."""

    channel: ChannelId
    sequence: int
    element: Element


@dataclass(frozen=True, slots=True)
class GrantCredit:
    """Tell the sender of ``channel`` (another slot) that the receiver has consumed this much."""

    channel: ChannelId
    batches: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Overtaken:
    """Rows of one input channel that a barrier overtook, in order."""

    edge: int
    source: SlotIndex
    frames: tuple[pl.DataFrame, ...]


@dataclass(frozen=True, slots=True)
class Persist:
    """Encode and upload in the background, then call ``SlotRuntime.stored``. Uploads of one slot run in order."""

    subtask: SubtaskId
    checkpoint: CheckpointId
    states: tuple[tuple[OperatorId, OperatorState], ...]
    start_delay_ms: float
    alignment_ms: float
    in_flight: tuple[Overtaken, ...] = ()
    """Belongs to the last of ``states``, that of the subtask itself."""


@dataclass(frozen=True, slots=True)
class Tell:
    """Send a message to the driver."""

    message: DriverMessage


@dataclass(frozen=True, slots=True)
class Leave:
    """The attempt is over for this slot: close everything and return."""

    clean: bool
    reason: str


SlotEffect: TypeAlias = Send | GrantCredit | Persist | Tell | Leave
