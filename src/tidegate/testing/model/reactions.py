"""What one coordinator makes of an event: it steps, and what it asks for is sorted. Local things happen at once, together with the
event; the rest is on its way, and anything may come between."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tidegate.checkpoint import effects as ef
from tidegate.checkpoint import events as ev
from tidegate.checkpoint.effects import Effect
from tidegate.checkpoint.events import Event
from tidegate.checkpoint.lifecycle import step
from tidegate.checkpoint.phases import State
from tidegate.checkpoint.plan import Rules
from tidegate.model.ids import Attempt, SlotIndex
from tidegate.model.messages import (
    CheckpointCommitted,
    CheckpointCompleted,
    DrainSources,
    SourceExhausted,
    TriggerCheckpoint,
)
from tidegate.testing.model import data_plane as plane
from tidegate.testing.model.abstraction import timeless
from tidegate.testing.model.ground import NOW_MS
from tidegate.testing.model.interning import Box, Interner
from tidegate.testing.model.world import INPUT, Bounds, Driver, Slot, plan_for


class Reaction(NamedTuple):
    """What an event makes of a coordinator and its slots, and what it asks for."""

    state: Box[State]
    asked: frozenset[Box[Effect]]
    slot: Slot | None
    ended: ef.Outcome | None
    noticed: bool
    """Its slots were told something they can do without."""


class Reactions:
    """Remembered: the same coordinator meets the same event in very many worlds."""

    def __init__(
        self, bounds: Bounds, rules: Rules, box: Interner, observe: Callable[[State, Event, State], None]
    ) -> None:
        """``observe`` is called for every step that is seen for the first time."""
        self._bounds = bounds
        self._box = box
        self._observe = observe
        self._plans = {
            (parallelism, pipeline): plan_for(bounds, rules, parallelism, pipeline)
            for parallelism in bounds.parallelism
            for pipeline in range(bounds.pipelines)
        }
        self._known: dict[tuple[Box[State], Slot | None, Box[Event | tuple[Event, ...]], bool], Reaction] = {}

    def of(self, number: int, driver: Driver, boxed: Box[Event | tuple[Event, ...]], *, deaf: bool) -> Reaction:
        """``deaf``: notices of the coordinator to its slots are lost."""
        key = (driver.state, driver.slot, boxed, deaf)
        known = self._known.get(key)
        if known is None:
            events = boxed.value if isinstance(boxed.value, tuple) else (boxed.value,)
            known = self._known[key] = self._react(number, driver, events, deaf=deaf)
        return known

    def _react(self, number: int, driver: Driver, given: tuple[Event, ...], *, deaf: bool) -> Reaction:
        """Step, and sort what the coordinator asks for: local things happen now, the rest is on its way."""
        pipeline, parallelism = self._bounds.pipeline_of(number), self._bounds.parallelism_of(number)
        plan = self._plans[parallelism, pipeline]
        state, slot = driver.state.value, driver.slot
        asked: set[Box[Effect]] = set()
        ended: ef.Outcome | None = None
        noticed = False
        # What is due at once needs no other process: retries of unknown outcomes and the end of a back-off.
        events: list[Event] = [*given, ev.ClockTicked(NOW_MS)]
        while events:
            event = events.pop(0)
            before = state
            after, effects = step(plan, before, event)
            state = timeless(after)
            self._observe(before, event, state)
            for effect in effects:
                match effect:
                    case ef.Deploy(attempt=attempt, manifest=manifest):
                        slot = plane.restored_slot(pipeline, attempt, manifest, parallelism)
                        events.insert(0, ev.SlotsReady(NOW_MS, attempt))
                    case ef.EndAttempt(attempt):
                        slot = None
                        events.insert(0, ev.SlotsFree(NOW_MS, attempt))
                    case ef.SendToSlots(CheckpointCompleted() as message) if slot is not None:
                        noticed = True
                        slot = slot if deaf else plane.completed(slot, message.checkpoint)
                    case ef.SendToSlots(CheckpointCommitted() as message) if slot is not None:
                        noticed = True
                        slot = slot if deaf else plane.confirmed(slot, message.checkpoint)
                    case ef.SendToSlots(TriggerCheckpoint() as message):
                        if message.checkpoint <= self._bounds.checkpoints:
                            asked.add(self._box(effect))
                    case ef.SendToSlots(DrainSources(attempt=attempt)):
                        events.extend(_exhausted(attempt, parallelism))
                    case ef.WriteClaim(attempt):
                        if attempt <= self._bounds.attempts:
                            asked.add(self._box(effect))
                    case ef.Finish(outcome):
                        ended = outcome
                    case ef.MarkCommitted(ref):
                        # Its absence proves nothing: no marker is ever stored here.
                        events.insert(0, ev.CommittedMarked(NOW_MS, ref))
                    case ef.SendToSlots() | ef.AnswerRequest() | ef.ReportCheckpoint() | ef.ForgetSplits():
                        continue
                    case _:
                        asked.add(self._box(effect))
        return Reaction(self._box(state), frozenset(asked), slot, ended, noticed)


def _exhausted(attempt: Attempt, parallelism: int) -> list[Event]:
    """All readers say that they have emitted everything."""
    slots = (SlotIndex(index) for index in range(parallelism))
    return [ev.SlotSaid(NOW_MS, SourceExhausted(attempt=attempt, slot=slot, operator=INPUT)) for slot in slots]
