"""Everything that can happen next in a world: effects land or are lost, drivers crash, attempts fail, people start again.

Reads and writes of one effect are atomic; between any two effects everybody else may move. Steps that no other
process can observe (a deploy, notices to slots, retries, back-off) happen together with the move that caused them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

from tidegate.checkpoint import effects as ef
from tidegate.checkpoint import events as ev
from tidegate.checkpoint import layout
from tidegate.checkpoint.effects import Effect
from tidegate.checkpoint.events import Event, Failure
from tidegate.checkpoint.phases import Active, CommittingRestored, New, Over, State
from tidegate.checkpoint.plan import Rules
from tidegate.checkpoint.running import Collecting
from tidegate.model.ids import Attempt
from tidegate.model.messages import (
    SubtaskAcked,
    TriggerCheckpoint,
)
from tidegate.testing.model import world as w
from tidegate.testing.model.data_plane import barrier
from tidegate.testing.model.ground import NOW_MS, WRITES, Ground, describe, hand_backs, key_of, location, unknown
from tidegate.testing.model.interning import Box, Interner
from tidegate.testing.model.mishaps import mishaps
from tidegate.testing.model.reactions import Reaction, Reactions
from tidegate.testing.model.world import Bounds, Document, Driver, Late, Sink, World

LATER_MS = w.TIMEOUT_MS
_LASTING = (
    ef.WriteClaim,
    ef.WriteRestored,
    ef.StoreManifest,
    ef.CommitSinks,
    ef.SweepSinks,
    ef.Delete,
    ef.ExportSavepoint,
)
"""Effects that change the world outside the driver: these may land after it is gone."""
_FAILURE = Failure("SLOT_LOST", "a slot died")
_BUSY = Failure("UNAVAILABLE", "the target does not answer for some")


class Move(NamedTuple):
    label: str
    world: World
    pipeline: int = 0
    landed: Effect | None = None
    """The effect that landed with this move."""
    ended: ef.Outcome | None = None
    handed_back: bool = False
    """It was asked for more: the sink handed back the rest."""


class Moves:
    """The successor function of one bounded world. Landings and reactions are remembered: the same driver meets the
    same event, and the same effect the same store, in very many worlds."""

    def __init__(self, bounds: Bounds, rules: Rules) -> None:
        self.bounds = bounds
        self.plan = w.plan_for(bounds, rules)
        self.box = Interner()
        self.ground = Ground(self.plan, bounds, self.box)
        self._reactions = Reactions(bounds, rules, self.box, self.observe)
        self._labels: dict[Box[Effect], str] = {}

    def first(self) -> World:
        return w.first_world(self.bounds, self.box)

    def after(self, world: World) -> Iterator[Move]:
        """Every move that is possible, in a fixed order."""
        yield from self._starts(world)
        for number, boxed in enumerate(world.drivers):
            if boxed is not None:
                yield from self._of_driver(world, number, boxed.value)
        for late in sorted(world.late.value, key=lambda one: (one.effect.number, one.pipeline)):
            landing = self.ground.land(world, late.effect, late.pipeline)
            after = world._replace(late=self.box(world.late.value - {late}), store=landing.store, sink=landing.sink)
            yield Move(f"late: {self._label(late.effect)}", self._tidy(after), late.pipeline, late.effect.value)
        for label, after in mishaps(self.bounds, self.box, world):
            yield Move(label, after)

    # --- people, crashes, damage ----------------------------------------------------------------------------------

    def _starts(self, world: World) -> Iterator[Move]:
        if world.budget.starts == 0:
            return
        number = len(world.drivers)
        pipeline = self.bounds.pipeline_of(number)
        documents = self.ground.documents(world.store, pipeline)
        newest = max(
            (key.attempt for key in map(layout.parse, documents) if isinstance(key, layout.ClaimKey)), default=0
        )
        driver = Driver(self.box(New()), frozenset(), None)
        world = world._replace(
            drivers=(*world.drivers, self.box(driver)), budget=world.budget._replace(starts=world.budget.starts - 1)
        )
        event = ev.Started(NOW_MS, f"p{number}", Attempt(newest), self.bounds.fall_back)
        of = f" of pipeline {pipeline}" if self.bounds.pipelines > 1 else ""
        yield from self._feed(world, number, driver, event, f"a person starts p{number}{of}")

    def _of_driver(self, world: World, number: int, driver: Driver) -> Iterator[Move]:
        for effect in sorted(driver.asked, key=_by_number):
            rest = driver._replace(asked=driver.asked - {effect})
            if isinstance(effect.value, ef.SendToSlots):
                yield from self._barrier(world, number, rest, effect.value)
            else:
                yield from self._landing(world, number, rest, effect)
        yield from self._acknowledgements(world, number, driver)
        if world.budget.crashes > 0:
            less = world.budget._replace(crashes=world.budget.crashes - 1)
            dead = self._adrift(world, number, driver)._replace(budget=less)
            yield Move(f"p{number} crashes", self._tidy(_with_driver(dead, number, None)))
        if world.budget.failures > 0:
            yield from self._failures(world, number, driver)
        yield from self._requests(world, number, driver)

    def _landing(self, world: World, number: int, rest: Driver, effect: Box[Effect]) -> Iterator[Move]:
        pipeline, budget = self.bounds.pipeline_of(number), world.budget
        landing = self.ground.land(world, effect, pipeline)
        landed = world._replace(store=landing.store, sink=landing.sink)
        label = f"p{number}: {self._label(effect)}"
        yield from self._feed(landed, number, rest, landing.answer, label, effect.value)
        if isinstance(effect.value, ef.CommitSinks) and budget.hand_backs > 0:
            less = budget._replace(hand_backs=budget.hand_backs - 1)
            yield from self._handed_back(world._replace(budget=less), number, rest, effect.value, label)
        if isinstance(effect.value, WRITES) and budget.lost_answers > 0:
            less = budget._replace(lost_answers=budget.lost_answers - 1)
            silence = unknown(effect.value)
            yield from self._feed(landed._replace(budget=less), number, rest, silence, f"{label}, answer lost")
            late = self.box(world.late.value | {Late(pipeline, effect)})
            adrift = world._replace(budget=less, late=late)
            yield from self._feed(adrift, number, rest, silence, f"{label} is delayed, its outcome unknown")

    def _handed_back(
        self, world: World, number: int, rest: Driver, asked: ef.CommitSinks, label: str
    ) -> Iterator[Move]:
        """The sink makes some of it visible, and hands back the rest."""
        for done, left in hand_backs(asked.committables):
            part = replace(asked, committables=done)
            landing = self.ground.land(world, self.box(part), self.bounds.pipeline_of(number))
            landed = world._replace(store=landing.store, sink=landing.sink)
            if isinstance(landing.answer.value, ev.SinksCommitted):
                answer = ev.SinksFailed(NOW_MS, asked.attempt, asked.checkpoint, _BUSY, left)
                what = f"{label}, but hands back {sum(len(some) for _, some in left)}"
                for move in self._feed(landed, number, rest, answer, what, part):
                    yield move._replace(handed_back=True)

    def _failures(self, world: World, number: int, driver: Driver) -> Iterator[Move]:
        """The attempt fails, its driver lives."""
        state = driver.state.value
        less = world._replace(budget=world.budget._replace(failures=world.budget.failures - 1))
        if isinstance(state, Active):
            failed = ev.AttemptFailed(NOW_MS, state.run.attempt, _FAILURE)
            rest = driver._replace(asked=frozenset(), slot=None)
            label = f"p{number}: attempt {state.run.attempt} fails"
            yield from self._feed(self._adrift(less, number, driver), number, rest, failed, label)
        elif isinstance(state, CommittingRestored) and state.choice.manifest is not None:
            refused = ev.SinksFailed(NOW_MS, state.attempt, state.choice.manifest.checkpoint, _FAILURE)
            rest = driver._replace(asked=frozenset())
            label = f"p{number}: the commit of the restored checkpoint gives no answer"
            yield from self._feed(self._adrift(less, number, driver), number, rest, refused, label)

    def _requests(self, world: World, number: int, driver: Driver) -> Iterator[Move]:
        """A checkpoint or a savepoint is wanted, or the end."""
        state = driver.state.value
        if world.budget.stops > 0:
            less = world._replace(budget=world.budget._replace(stops=world.budget.stops - 1))
            yield from self._feed(less, number, driver, ev.StopRequested(NOW_MS), f"a person stops p{number}")
        if not isinstance(state, Active):
            return
        if len(state.run.flights) < self.bounds.concurrent:
            wanted = ev.CheckpointRequested(NOW_MS, "")
            for move in self._feed(world, number, driver, wanted, f"p{number}: a checkpoint is due"):
                if move.world != world:
                    yield move
        if world.budget.savepoints > 0:
            less = world._replace(budget=world.budget._replace(savepoints=world.budget.savepoints - 1))
            for afterwards in self.bounds.afterwards:
                name = f"{world.budget.savepoints}-{afterwards.name}"
                asked = ev.SavepointRequested(NOW_MS, name, name, afterwards)
                label = f"p{number}: a person wants a savepoint, then {afterwards.value}"
                yield from self._feed(less, number, driver, asked, label)

    def _adrift(self, world: World, number: int, driver: Driver) -> World:
        """Nobody waits for the driver's effects any more; those that change the world may still land."""
        pipeline = self.bounds.pipeline_of(number)
        return world._replace(late=self.box(world.late.value | {Late(pipeline, one) for one in _lasting(driver)}))

    def _label(self, effect: Box[Effect]) -> str:
        known = self._labels.get(effect)
        if known is None:
            known = self._labels[effect] = describe(effect.value)
        return known

    # --- barriers and acknowledgements ----------------------------------------------------------------------------

    def _barrier(self, world: World, number: int, driver: Driver, effect: ef.SendToSlots) -> Iterator[Move]:
        """The trigger reaches the slots; they acknowledge, or the acknowledgement does not come in time."""
        message, slot = effect.message, driver.slot
        assert isinstance(message, TriggerCheckpoint)
        if slot is None or slot.attempt != message.attempt or message.checkpoint <= slot.passed:
            # Overtaken by a later one, or nobody is there any more.
            yield Move(f"p{number}: a trigger comes too late", _with_driver(world, number, self.box(driver)))
            return
        if world.budget.lost_messages > 0:
            less = world.budget._replace(lost_messages=world.budget.lost_messages - 1)
            lost = _with_driver(world, number, self.box(driver))._replace(budget=less)
            yield Move(f"p{number}: the trigger of checkpoint {message.checkpoint} is lost", lost)
        for quiet in (False, True) if self.bounds.quiet else (False,):
            cut = barrier(slot, message.checkpoint, quiet=quiet)
            where = location(slot.pipeline)
            uploaded = {self._entry(where + layout.chunk_key(chunk)) for chunk in cut.chunks}
            after = world._replace(
                store=self.box(world.store.value | uploaded),
                sink=self.box(_prepared(world.sink.value, cut.prepared)),
            )
            said = tuple(ev.SlotSaid(NOW_MS, ack) for ack in cut.acks)
            label = f"p{number}: checkpoint {message.checkpoint} is taken" + (", without output" if quiet else "")
            there = driver._replace(slot=cut.slot)
            if self.bounds.loose:
                there = there._replace(said=there.said | {self.box(one) for one in said})
                yield Move(label, _with_driver(after, number, self.box(there)))
                continue
            yield from self._feed(after, number, there, said, label)
            if world.budget.timeouts > 0:
                less = after._replace(budget=world.budget._replace(timeouts=world.budget.timeouts - 1))
                late = ev.ClockTicked(LATER_MS)
                yield from self._feed(less, number, there, late, f"{label}, but times out")

    def _acknowledgements(self, world: World, number: int, driver: Driver) -> Iterator[Move]:
        """Those on their way arrive, in any order, or never; or the driver's patience ends."""
        for said in sorted(driver.said, key=_by_number):
            rest = driver._replace(said=driver.said - {said})
            message = said.value
            assert isinstance(message, ev.SlotSaid)
            assert isinstance(message.message, SubtaskAcked)
            what = (
                f"the acknowledgement of checkpoint {message.message.checkpoint} by attempt {message.message.attempt}"
            )
            yield from self._feed(world, number, rest, said, f"p{number}: {what} arrives")
            if world.budget.lost_messages > 0:
                less = world.budget._replace(lost_messages=world.budget.lost_messages - 1)
                lost = _with_driver(world, number, self.box(rest))._replace(budget=less)
                yield Move(f"p{number}: {what} is lost", lost)
        state = driver.state.value
        waiting = isinstance(state, Active) and any(isinstance(one, Collecting) for one in state.run.flights)
        if self.bounds.loose and waiting and world.budget.timeouts > 0:
            less = world._replace(budget=world.budget._replace(timeouts=world.budget.timeouts - 1))
            yield from self._feed(less, number, driver, ev.ClockTicked(LATER_MS), f"p{number}: checkpoints time out")

    def _entry(self, key: str) -> Box[tuple[str, Document]]:
        entry: tuple[str, Document] = (key, None)
        return self.box(entry)

    # --- one driver -----------------------------------------------------------------------------------------------

    def _feed(
        self,
        world: World,
        number: int,
        driver: Driver,
        event: Event | tuple[Event, ...] | Box[Event],
        label: str,
        landed: Effect | None = None,
    ) -> Iterator[Move]:
        """Give the event to the driver's coordinator. What it then tells its slots arrives, or is lost."""
        boxed: Box[Event | tuple[Event, ...]] = event if isinstance(event, Box) else self.box(event)
        reaction = self._reactions.of(number, driver, boxed, deaf=False)
        yield self._moved(world, number, driver, reaction, label, landed)
        if reaction.noticed and world.budget.lost_messages > 0:
            less = world._replace(budget=world.budget._replace(lost_messages=world.budget.lost_messages - 1))
            deaf = self._reactions.of(number, driver, boxed, deaf=True)
            yield self._moved(less, number, driver, deaf, f"{label}; the slots do not hear of it", landed)

    def _moved(
        self, world: World, number: int, driver: Driver, reaction: Reaction, label: str, landed: Effect | None
    ) -> Move:
        after = Driver(reaction.state, driver.asked | reaction.asked, reaction.slot, driver.said)
        pipeline = self.bounds.pipeline_of(number)
        if isinstance(reaction.state.value, Over):
            world = _with_driver(self._adrift(world, number, after), number, None)
        else:
            world = _with_driver(world, number, self.box(after))
        return Move(label, self._tidy(world), pipeline, landed, reaction.ended)

    def observe(self, before: State, event: Event, after: State) -> None:
        """Called for every step of a coordinator that is seen for the first time; for those who draw pictures."""

    def _tidy(self, world: World) -> World:
        """Drop late writes that cannot change anything any more: their key exists."""
        if not world.late.value:
            return world
        alive = frozenset(late for late in world.late.value if not self._settled(world, late))
        return world if len(alive) == len(world.late.value) else world._replace(late=self.box(alive))

    def _settled(self, world: World, late: Late) -> bool:
        effect = late.effect.value
        return isinstance(effect, WRITES) and key_of(effect) in self.ground.documents(world.store, late.pipeline)


def _lasting(driver: Driver) -> frozenset[Box[Effect]]:
    return frozenset(effect for effect in driver.asked if isinstance(effect.value, _LASTING))


def _with_driver(world: World, number: int, driver: Box[Driver] | None) -> World:
    drivers = (*world.drivers[:number], driver, *world.drivers[number + 1 :])
    return world._replace(drivers=drivers)


def _prepared(sink: Sink, added: Iterable[w.Transaction]) -> Sink:
    """A transaction takes the place of one of the same name that never became visible: an older copy of a location gives names out again."""
    named = frozenset(added)
    visible = frozenset(one for one, fate in sink if one in named and fate == w.COMMITTED)
    rest = frozenset(entry for entry in sink if entry[0] not in named or entry[1] == w.COMMITTED)
    return rest | {(one, w.PREPARED) for one in named - visible}


def _by_number(box: Box[object]) -> int:
    return box.number
