"""Messages between driver and slots get lost. What matters is said again until it is answered; all receivers expect repeats."""

from __future__ import annotations

from dataclasses import replace

from tidegate.checkpoint.effects import Effect, SendToSlots
from tidegate.checkpoint.plan import CheckpointPlan
from tidegate.checkpoint.running import Collecting, Running, Turn
from tidegate.model.ids import CheckpointId, SlotIndex
from tidegate.model.messages import (
    CheckpointAborted,
    CheckpointCommitted,
    CheckpointCompleted,
    DrainSources,
    SlotMessage,
    SplitsWanted,
    TriggerCheckpoint,
)


def on_tick(plan: CheckpointPlan, run: Running, now_ms: int) -> Turn:
    """Say again what has had no answer for a while: triggers without acknowledgement, splits nobody has confirmed."""
    repeat_ms = plan.config.message_repeat_ms
    if now_ms < run.repeat_at_ms <= now_ms + repeat_ms:
        return run, (), None
    effects: list[Effect] = []
    for flight in run.flights:
        if isinstance(flight, Collecting) and flight.taken.triggered_ms + repeat_ms <= now_ms:
            acked = {ack.subtask for ack in flight.taken.acks}
            silent = sorted({subtask.index for subtask in plan.subtasks if subtask not in acked})
            trigger = TriggerCheckpoint(
                attempt=run.attempt, checkpoint=flight.taken.ref.checkpoint, kind=flight.taken.kind
            )
            effects.append(SendToSlots(trigger, tuple(silent)))
    for source in run.sources:
        effects.extend(SendToSlots(message, (message.subtask,)) for message in source.unconfirmed())
    if run.orders.draining:
        ended = {slot for slot in plan.slots if all((source, slot) in run.exhausted for source in plan.sources)}
        reading = tuple(slot for slot in plan.slots if slot not in ended)
        effects.extend([SendToSlots(DrainSources(attempt=run.attempt), reading)] if reading else [])
    return replace(run, repeat_at_ms=now_ms + repeat_ms), tuple(effects), None


def on_wanted(run: Running, message: SplitsWanted) -> tuple[Effect, ...]:
    """A reader that asks again without having taken in what it was sent is sent that again, at once."""
    if not message.asks:
        return ()
    return tuple(
        SendToSlots(one, (one.subtask,))
        for source in run.sources
        if source.operator == message.operator
        for one in source.unconfirmed(message.slot)
    )


def verdict(run: Running, checkpoint: CheckpointId, slot: SlotIndex) -> tuple[Effect, ...]:
    """What became of a checkpoint that a slot still speaks of: it has missed the notice."""
    base = run.base
    notices: list[SlotMessage] = []
    if base is None or base.attempt != run.attempt or checkpoint > base.checkpoint:
        notices.append(CheckpointAborted(attempt=run.attempt, checkpoint=checkpoint))
    else:
        # Everything up to the newest completed one is decided by it.
        notices.append(CheckpointCompleted(attempt=run.attempt, checkpoint=base.checkpoint))
        if not run.commits:
            notices.append(CheckpointCommitted(attempt=run.attempt, checkpoint=base.checkpoint))
    return tuple(SendToSlots(notice, (slot,)) for notice in notices)
