"""Everything that can happen next in a world: effects land or are lost, drivers crash, attempts fail, people start again.

Reads and writes of one effect are atomic; between any two effects everybody else may move. Steps that no other
process can observe (a deploy, notices to slots, retries, back-off) happen together with the move that caused them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tidegate.checkpoint import effects as ef
from tidegate.checkpoint import events as ev
from tidegate.checkpoint import layout
from tidegate.checkpoint.effects import Effect
from tidegate.checkpoint.events import Event, Failure
from tidegate.checkpoint.lifecycle import step
from tidegate.checkpoint.manifest import Manifest
from tidegate.checkpoint.phases import Active, CommittingRestored, New, Over
from tidegate.checkpoint.plan import CheckpointPlan
from tidegate.checkpoint.running import Idle
from tidegate.model.ids import Attempt
from tidegate.model.messages import CheckpointCommitted, CheckpointCompleted, TriggerCheckpoint
from tidegate.testing.model import world as w
from tidegate.testing.model.abstraction import timeless
from tidegate.testing.model.ground import NOW_MS, WRITES, Ground, describe, key_of, unknown
from tidegate.testing.model.interning import Box, Interner
from tidegate.testing.model.world import Bounds, Document, Driver, World

LATER_MS = w.TIMEOUT_MS
_LASTING = (ef.WriteClaim, ef.WriteRestored, ef.StoreManifest, ef.CommitSinks, ef.SweepSinks, ef.Delete)
"""Effects that change the world outside the driver: these may land after it is gone."""
_FAILURE = Failure("SLOT_LOST", "a slot died")


class Move(NamedTuple):
    label: str
    world: World
    committed: ef.CommitSinks | None = None
    """The commit that landed with this move."""
    ended: ef.Outcome | None = None


class Reaction(NamedTuple):
    """A driver after an event. ``adrift``: effects nobody waits for, because it ended."""

    driver: Box[Driver] | None
    adrift: frozenset[Box[Effect]]
    ended: ef.Outcome | None


class Moves:
    """The successor function of one bounded world. Landings and reactions are remembered: the same driver meets the
    same event, and the same effect the same store, in very many worlds."""

    def __init__(self, bounds: Bounds, plan: CheckpointPlan) -> None:
        self.bounds = bounds
        self.plan = plan
        self.box = Interner()
        self.ground = Ground(plan, self.box)
        self._reactions: dict[tuple[Driver, Box[Event]], Reaction] = {}
        self._labels: dict[Box[Effect], str] = {}

    def first(self) -> World:
        return w.first_world(self.bounds, self.box)

    def after(self, world: World) -> Iterator[Move]:
        """Every move that is possible, in a fixed order."""
        yield from self._starts(world)
        for number, boxed in enumerate(world.drivers):
            if boxed is not None:
                yield from self._of_driver(world, number, boxed.value)
        for effect in sorted(world.late.value, key=_by_number):
            landing = self.ground.land(world, effect)
            after = world._replace(late=self.box(world.late.value - {effect}), store=landing.store, sink=landing.sink)
            commit = effect.value if isinstance(effect.value, ef.CommitSinks) else None
            yield Move(f"late: {self._label(effect)}", self._tidy(after), commit)
        yield from self._damages(world)

    # --- people, crashes, damage ----------------------------------------------------------------------------------

    def _starts(self, world: World) -> Iterator[Move]:
        if world.budget.starts == 0:
            return
        number = len(world.drivers)
        documents = self.ground.documents(world.store)
        newest = max(
            (key.attempt for key in map(layout.parse, documents) if isinstance(key, layout.ClaimKey)), default=0
        )
        driver = Driver(self.box(New()), frozenset(), None)
        world = world._replace(
            drivers=(*world.drivers, self.box(driver)), budget=world.budget._replace(starts=world.budget.starts - 1)
        )
        event = ev.Started(NOW_MS, f"p{number}", Attempt(newest))
        yield self._feed(world, number, driver, event, f"a person starts p{number}")

    def _of_driver(self, world: World, number: int, driver: Driver) -> Iterator[Move]:
        budget = world.budget
        for effect in sorted(driver.asked, key=_by_number):
            rest = driver._replace(asked=driver.asked - {effect})
            if isinstance(effect.value, ef.SendToSlots):
                yield from self._barrier(world, number, rest, effect.value)
                continue
            landing = self.ground.land(world, effect)
            landed = World(world.drivers, world.late, landing.store, landing.sink, budget)
            label = f"p{number}: {self._label(effect)}"
            commit = effect.value if isinstance(effect.value, ef.CommitSinks) else None
            yield self._feed(landed, number, rest, landing.answer, label, commit)
            if isinstance(effect.value, WRITES) and budget.lost_answers > 0:
                less = budget._replace(lost_answers=budget.lost_answers - 1)
                silence = unknown(effect.value)
                yield self._feed(landed._replace(budget=less), number, rest, silence, f"{label}, answer lost")
                late = self.box(world.late.value | {effect})
                adrift = world._replace(budget=less, late=late)
                yield self._feed(adrift, number, rest, silence, f"{label} is delayed, its outcome unknown")
        if budget.crashes > 0:
            dead = self._adrift(world, driver)._replace(budget=budget._replace(crashes=budget.crashes - 1))
            yield Move(f"p{number} crashes", self._tidy(_with_driver(dead, number, None)))
        state = driver.state.value
        if budget.failures > 0:
            less = world._replace(budget=budget._replace(failures=budget.failures - 1))
            if isinstance(state, Active):
                failed = ev.AttemptFailed(NOW_MS, state.run.attempt, _FAILURE)
                yield self._feed(
                    self._adrift(less, driver),
                    number,
                    driver._replace(asked=frozenset(), slot=None),
                    failed,
                    f"p{number}: attempt {state.run.attempt} fails",
                )
            elif isinstance(state, CommittingRestored) and state.choice.manifest is not None:
                checkpoint = state.choice.manifest.checkpoint
                refused = ev.SinksFailed(NOW_MS, state.attempt, checkpoint, _FAILURE)
                yield self._feed(
                    self._adrift(less, driver),
                    number,
                    driver._replace(asked=frozenset()),
                    refused,
                    f"p{number}: the commit of the restored checkpoint gives no answer",
                )
        if isinstance(state, Active) and isinstance(state.run.flight, Idle):
            wanted = ev.CheckpointRequested(NOW_MS, "")
            move = self._feed(world, number, driver, wanted, f"p{number}: a checkpoint is due")
            if move.world != world:
                yield move

    def _adrift(self, world: World, driver: Driver) -> World:
        """Nobody waits for the driver's effects any more; those that change the world may still land."""
        return world._replace(late=self.box(world.late.value | _lasting(driver)))

    def _damages(self, world: World) -> Iterator[Move]:
        if world.budget.damages == 0:
            return
        less = world._replace(budget=world.budget._replace(damages=world.budget.damages - 1))
        for entry in sorted(world.store.value, key=_by_number):
            key, document = entry.value
            rest = world.store.value - {entry}
            match layout.parse(key), document:
                case layout.ManifestKey(), Manifest():
                    rotten: tuple[str, Document] = (key, w.Damaged())
                    yield Move(f"{key} rots", less._replace(store=self.box(rest | {self.box(rotten)})))
                case layout.ChunkKey(), _:
                    yield Move(f"{key} vanishes", less._replace(store=self.box(rest)))
                case _:
                    continue

    def _label(self, effect: Box[Effect]) -> str:
        known = self._labels.get(effect)
        if known is None:
            known = self._labels[effect] = describe(effect.value)
        return known

    # --- one driver -----------------------------------------------------------------------------------------------

    def _barrier(self, world: World, number: int, driver: Driver, effect: ef.SendToSlots) -> Iterator[Move]:
        """The trigger reaches the slots; they acknowledge, or the acknowledgement does not come in time."""
        message = effect.message
        assert isinstance(message, TriggerCheckpoint)
        assert driver.slot is not None
        for quiet in (False, True) if self.bounds.quiet else (False,):
            slot, prepared, chunk = w.barrier(driver.slot, message.checkpoint, quiet=quiet)
            uploaded: tuple[str, Document] = (layout.chunk_key(chunk), None)
            after = world._replace(
                store=self.box(world.store.value | {self.box(uploaded)}),
                sink=self.box(world.sink.value | {(one, w.PREPARED) for one in prepared}),
            )
            acked = ev.SlotSaid(NOW_MS, w.acknowledge(slot, message.checkpoint, chunk))
            label = f"p{number}: checkpoint {message.checkpoint} is taken" + (", without output" if quiet else "")
            yield self._feed(after, number, driver._replace(slot=slot), acked, label)
            if world.budget.timeouts > 0:
                less = after._replace(budget=world.budget._replace(timeouts=world.budget.timeouts - 1))
                late = ev.ClockTicked(LATER_MS)
                yield self._feed(less, number, driver._replace(slot=slot), late, f"{label}, but times out")

    def _feed(
        self,
        world: World,
        number: int,
        driver: Driver,
        event: Event | Box[Event],
        label: str,
        commit: ef.CommitSinks | None = None,
    ) -> Move:
        """Give the event to the driver's coordinator."""
        boxed = event if isinstance(event, Box) else self.box(event)
        reaction = self._reactions.get((driver, boxed))
        if reaction is None:
            reaction = self._reactions[driver, boxed] = self._react(driver, boxed.value)
        if reaction.adrift:
            world = world._replace(late=self.box(world.late.value | reaction.adrift))
        after = _with_driver(world, number, reaction.driver)
        return Move(label, self._tidy(after), commit, reaction.ended)

    def _react(self, driver: Driver, event: Event) -> Reaction:
        """Step, and sort what the coordinator asks for: local things happen now, the rest is on its way."""
        state, asked, slot = driver.state.value, set(driver.asked), driver.slot
        ended: ef.Outcome | None = None
        # What is due at once needs no other process: retries of unknown outcomes and the end of a back-off.
        events: list[Event] = [event, ev.ClockTicked(NOW_MS)]
        while events:
            after, effects = step(self.plan, state, events.pop(0))
            state = timeless(after)
            for effect in effects:
                match effect:
                    case ef.Deploy(attempt, manifest):
                        slot = w.restored_slot(attempt, manifest)
                        events.insert(0, ev.SlotsReady(NOW_MS, attempt))
                    case ef.EndAttempt(attempt):
                        slot = None
                        events.insert(0, ev.SlotsFree(NOW_MS, attempt))
                    case ef.SendToSlots(CheckpointCompleted() as message) if slot is not None:
                        slot = w.completed(slot, message.checkpoint)
                    case ef.SendToSlots(CheckpointCommitted() as message) if slot is not None:
                        slot = w.confirmed(slot, message.checkpoint)
                    case ef.SendToSlots(TriggerCheckpoint() as message):
                        if message.checkpoint <= self.bounds.checkpoints:
                            asked.add(self.box(effect))
                    case ef.WriteClaim(attempt):
                        if attempt <= self.bounds.attempts:
                            asked.add(self.box(effect))
                    case ef.Finish(outcome):
                        ended = outcome
                    case (
                        ef.SendToSlots()
                        | ef.MarkCommitted()
                        | ef.AnswerRequest()
                        | ef.ReportCheckpoint()
                        | ef.ForgetSplits()
                    ):
                        continue
                    case _:
                        asked.add(self.box(effect))
        after_all = Driver(self.box(state), frozenset(asked), slot)
        if isinstance(state, Over):
            return Reaction(None, _lasting(after_all), ended)
        return Reaction(self.box(after_all), frozenset(), ended)

    def _tidy(self, world: World) -> World:
        """Drop late writes that cannot change anything any more: their key exists."""
        if not world.late.value:
            return world
        documents = self.ground.documents(world.store)
        alive = frozenset(
            effect
            for effect in world.late.value
            if not isinstance(effect.value, WRITES) or key_of(effect.value) not in documents
        )
        return world if len(alive) == len(world.late.value) else world._replace(late=self.box(alive))


def _lasting(driver: Driver) -> frozenset[Box[Effect]]:
    return frozenset(effect for effect in driver.asked if isinstance(effect.value, _LASTING))


def _with_driver(world: World, number: int, driver: Box[Driver] | None) -> World:
    drivers = (*world.drivers[:number], driver, *world.drivers[number + 1 :])
    return World(drivers, world.late, world.store, world.sink, world.budget)


def _by_number(box: Box[object]) -> int:
    return box.number
