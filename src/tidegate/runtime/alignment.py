"""Where a subtask with several inputs stands between two barriers. Values and functions on them, nothing else.

A channel never closes before the attempt ends: after its EndOfData it still carries barriers. So a cut is complete when the
barrier stands in every channel, without exception, and no end of data can make one wait for ever.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias

from tidegate.model.elements import Barrier
from tidegate.model.ids import ChannelId, CheckpointId

NO_CHECKPOINT = CheckpointId(0)


@dataclass(frozen=True, slots=True)
class Flowing:
    """No barrier is pending: every channel may be read. ``passed``: the newest checkpoint that is over here."""

    passed: CheckpointId = NO_CHECKPOINT


@dataclass(frozen=True, slots=True)
class Aligning:
    """Channels in ``arrived`` stay unread until the barrier stands in all of them."""

    barrier: Barrier
    arrived: frozenset[ChannelId]
    since_ms: float
    passed: CheckpointId = NO_CHECKPOINT


@dataclass(frozen=True, slots=True)
class Aligned:
    """The cut is complete: snapshot, forward the barrier, then flow again."""

    barrier: Barrier
    since_ms: float


Alignment: TypeAlias = Flowing | Aligning


def on_barrier(
    inputs: frozenset[ChannelId], now: Alignment, channel: ChannelId, barrier: Barrier, now_ms: float
) -> Flowing | Aligning | Aligned:
    """A barrier was read from ``channel``. A newer one subsumes the one being aligned: its checkpoint cannot complete any more."""
    if barrier.checkpoint <= now.passed:
        return now  # Of a checkpoint that was given up, still in the pipe.
    match now:
        case Aligning(barrier=pending) if pending.checkpoint > barrier.checkpoint:
            return now
        case Aligning(barrier=pending, arrived=arrived) if pending.checkpoint == barrier.checkpoint:
            following = replace(now, arrived=arrived | {channel})
        case Flowing(passed=passed) | Aligning(passed=passed):
            following = Aligning(barrier, frozenset({channel}), now_ms, passed)
    return Aligned(following.barrier, following.since_ms) if inputs <= following.arrived else following


def on_cancel(now: Alignment, checkpoint: CheckpointId) -> Alignment:
    """``checkpoint`` was given up: release what is held for it or an older one, and ignore barriers of it from now on."""
    passed = max(now.passed, checkpoint)
    match now:
        case Aligning(barrier=pending) if pending.checkpoint > checkpoint:
            return replace(now, passed=passed)
        case Flowing() | Aligning():
            return Flowing(passed)


def flow_again(cut: Aligned) -> Flowing:
    return Flowing(cut.barrier.checkpoint)


def held(now: Alignment) -> frozenset[ChannelId]:
    """Channels that must not be read."""
    return now.arrived if isinstance(now, Aligning) else frozenset()
