"""Where a subtask with several inputs stands between two barriers. Values and functions on them, nothing else.

A channel never closes before the attempt ends: after its EndOfData it still carries barriers. So a cut is complete when the
barrier stands in every channel, without exception, and no end of data can make one wait for ever.

Exactly once: ``Flowing`` or ``Aligning``; a channel in which the barrier stands is left unread, so the barriers of several checkpoints
are taken one after the other. At least once: ``Tracking``; nothing is held, and several cuts may be open at once.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TypeAlias

from tidegate.model.config import CheckpointMode
from tidegate.model.elements import Barrier
from tidegate.model.ids import ChannelId, CheckpointId

NO_CHECKPOINT = CheckpointId(0)


@dataclass(frozen=True, slots=True)
class Over:
    """Checkpoints whose barriers mean nothing here any more: all up to ``passed``, and single later ones that were given up."""

    passed: CheckpointId = NO_CHECKPOINT
    cancelled: frozenset[CheckpointId] = frozenset()

    def __contains__(self, checkpoint: CheckpointId) -> bool:
        return checkpoint <= self.passed or checkpoint in self.cancelled

    def with_passed(self, checkpoint: CheckpointId) -> Over:
        """Barriers never overtake each other: once one has passed, those before it cannot pass any more."""
        passed = max(self.passed, checkpoint)
        return Over(passed, frozenset(one for one in self.cancelled if one > passed))

    def with_cancelled(self, checkpoint: CheckpointId) -> Over:
        """That one alone: an older or a newer checkpoint may still be under way."""
        return self if checkpoint in self else replace(self, cancelled=self.cancelled | {checkpoint})


@dataclass(frozen=True, slots=True)
class Flowing:
    """No barrier is pending: every channel may be read."""

    over: Over = field(default_factory=Over)


@dataclass(frozen=True, slots=True)
class Aligning:
    """Channels in ``arrived`` stay unread until the barrier stands in all of them."""

    barrier: Barrier
    arrived: frozenset[ChannelId]
    since_ms: float
    over: Over = field(default_factory=Over)


@dataclass(frozen=True, slots=True)
class OpenCut:
    """A barrier that some channels have brought and others not yet, in at-least-once mode."""

    barrier: Barrier
    arrived: frozenset[ChannelId]
    since_ms: float


@dataclass(frozen=True, slots=True)
class Tracking:
    """Counts barriers and holds nothing. ``cuts``: oldest checkpoint first."""

    cuts: tuple[OpenCut, ...] = ()
    over: Over = field(default_factory=Over)


Alignment: TypeAlias = Flowing | Aligning | Tracking


@dataclass(frozen=True, slots=True)
class Aligned:
    """The cut is complete: snapshot, forward the barrier, then go on as ``after``."""

    barrier: Barrier
    since_ms: float
    after: Alignment


def at_start(mode: CheckpointMode) -> Alignment:
    match mode:
        case CheckpointMode.EXACTLY_ONCE:
            return Flowing()
        case CheckpointMode.AT_LEAST_ONCE:
            return Tracking()


def on_barrier(
    inputs: frozenset[ChannelId], now: Alignment, channel: ChannelId, barrier: Barrier, now_ms: float
) -> Alignment | Aligned:
    """A barrier was read from ``channel``."""
    if barrier.checkpoint in now.over:
        return now  # Of a checkpoint that was given up, still in the pipe.
    match now:
        case Flowing(over=over):
            following = Aligning(barrier, frozenset({channel}), now_ms, over)
        case Aligning(barrier=pending) if pending.checkpoint > barrier.checkpoint:
            return now
        case Aligning(barrier=pending, arrived=arrived) if pending.checkpoint == barrier.checkpoint:
            following = replace(now, arrived=arrived | {channel})
        case Aligning(over=over):
            # This channel never brings the pending one any more: its checkpoint cannot complete.
            following = Aligning(barrier, frozenset({channel}), now_ms, over)
        case Tracking():
            return _track(inputs, now, channel, barrier, now_ms)
    if inputs <= following.arrived:
        return Aligned(barrier, following.since_ms, Flowing(following.over.with_passed(barrier.checkpoint)))
    return following


def _track(
    inputs: frozenset[ChannelId], now: Tracking, channel: ChannelId, barrier: Barrier, now_ms: float
) -> Tracking | Aligned:
    """A complete cut drops the older ones: a channel that has passed the newer barrier never brings theirs."""
    cuts = {cut.barrier.checkpoint: cut for cut in now.cuts}
    cut = cuts.get(barrier.checkpoint, OpenCut(barrier, frozenset(), now_ms))
    cut = replace(cut, arrived=cut.arrived | {channel})
    if inputs <= cut.arrived:
        newer = tuple(one for one in now.cuts if one.barrier.checkpoint > barrier.checkpoint)
        return Aligned(barrier, cut.since_ms, Tracking(newer, now.over.with_passed(barrier.checkpoint)))
    cuts[barrier.checkpoint] = cut
    return replace(now, cuts=tuple(cuts[checkpoint] for checkpoint in sorted(cuts)))


def on_cancel(now: Alignment, checkpoint: CheckpointId) -> Alignment:
    """``checkpoint`` was given up: release what is held for it, and ignore its barriers from now on. Others are not touched."""
    over = now.over.with_cancelled(checkpoint)
    match now:
        case Aligning(barrier=pending) if pending.checkpoint == checkpoint:
            return Flowing(over)
        case Tracking(cuts=cuts):
            return Tracking(tuple(cut for cut in cuts if cut.barrier.checkpoint != checkpoint), over)
        case Flowing() | Aligning():
            return replace(now, over=over)


def held(now: Alignment) -> frozenset[ChannelId]:
    """Channels that must not be read."""
    return now.arrived if isinstance(now, Aligning) else frozenset()
