"""A simulated driver process: the real coordinator, its effects spread over simulated time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from tidegate.checkpoint import effects as fx
from tidegate.checkpoint import events as ev
from tidegate.checkpoint.lifecycle import step
from tidegate.checkpoint.manifest import Manifest
from tidegate.checkpoint.phases import New, State
from tidegate.checkpoint.plan import CheckpointPlan
from tidegate.checkpoint.savepoint import perform_export
from tidegate.checkpoint.storing import StorageEffect, perform
from tidegate.checkpoint.visibility import perform_commit
from tidegate.model.ids import Attempt, OperatorId
from tidegate.model.snapshot import Published
from tidegate.plan.graph import JobGraph
from tidegate.ports.store import BlobStore
from tidegate.testing.simulation.gang import SimulatedGang
from tidegate.testing.simulation.location import Location
from tidegate.testing.simulation.setting import Setting
from tidegate.testing.simulation.slots import SimulatedSlot
from tidegate.testing.simulation.telling import tell

TICK_MS = (20, 100)
ANSWER_MS = (0, 20)
SILENCE_MS = 8_000


class Watch(Protocol):
    """Auditors see what a coordinator hears, what it wants before it happens, and what it has become."""

    def heard(self, driver: SimulatedDriver, event: ev.Event) -> None: ...

    def effect(self, driver: SimulatedDriver, effect: fx.Effect) -> None: ...

    def deleting(self, driver: SimulatedDriver) -> None: ...

    def stepped(self, driver: SimulatedDriver, state: State) -> None: ...


@dataclass(frozen=True, slots=True)
class Start:
    """What a person starts: a query, at a place, with a configuration."""

    name: str
    location: Location
    graph: JobGraph
    plan: CheckpointPlan
    open_target: Callable[[str], BlobStore]
    """Where savepoints go."""
    falls_back: bool = False
    """``onCorruptCheckpoint=fallBack``: rows may come twice."""
    changed: bool = False
    """The query is not what it was at the first start."""


class SimulatedDriver:
    """One driver process. After ``crash`` it does nothing more, but what it had asked for may still happen."""

    def __init__(
        self, setting: Setting, start: Start, watch: Watch, on_finish: Callable[[SimulatedDriver, fx.Outcome], None]
    ) -> None:
        self._setting = setting
        self._agenda = setting.agenda
        self.start = start
        self._watch = watch
        self._on_finish = on_finish
        self._state: State = New()
        self._frozen_until_ms = 0
        self._gang: SimulatedGang | None = None
        self.clock = setting.clock()
        self.name = start.name
        self.alive = True
        self.answers: dict[str, fx.RequestDone | fx.RequestFailed] = {}
        keys = start.location.store.objects
        newest = max((key.split("/")[1] for key in keys if key.endswith("/claim")), default="0")
        self.post(
            ev.Started(
                self.clock.now_ms(),
                process=self.name,
                newest_claim=Attempt(int(newest)),
                accept_duplicates=start.falls_back,
            )
        )
        self._tick()

    # --- life -------------------------------------------------------------------------------------------------

    @property
    def slots(self) -> list[SimulatedSlot]:
        return self._gang.slots if self._gang is not None else []

    @property
    def gang(self) -> SimulatedGang | None:
        return self._gang

    def crash(self) -> None:
        self._agenda.note(self.name, "dies")
        self.alive = False
        for slot in self.slots:
            # Slots leave when the driver has been silent for long; until then they are zombies.
            self._agenda.soon(200, SILENCE_MS, lambda one=slot: one.kill("its driver is silent"))

    def freeze(self, duration_ms: int) -> None:
        self._agenda.note(self.name, f"freezes for {duration_ms} ms")
        self._frozen_until_ms = self._agenda.now_ms + duration_ms

    @property
    def frozen(self) -> bool:
        return self._frozen_until_ms > self._agenda.now_ms

    def _tick(self) -> None:
        if self.alive:
            self.post(ev.ClockTicked(self.clock.now_ms()))
            self._agenda.soon(*TICK_MS, self._tick)

    def post(self, event: ev.Event) -> None:
        """An event reaches the inbox. A frozen process finds it when it wakes up."""
        if not self.alive:
            return
        if self.frozen:
            self._agenda.after(self._frozen_until_ms - self._agenda.now_ms + 1, lambda: self.post(event))
            return
        self._watch.heard(self, event)
        self._state, effects = step(self.start.plan, self._state, event)
        if effects or not isinstance(event, ev.ClockTicked):
            self._agenda.note(self.name, tell(event))
            self._watch.stepped(self, self._state)
        for effect in effects:
            self._agenda.note(self.name, f"  → {tell(effect)}")
            self._watch.effect(self, effect)
            self._perform(effect)

    def say(self, make: Callable[[int], ev.Event]) -> None:
        """Post an event with this process's own time on it."""
        self.post(make(self.clock.now_ms()))

    # --- effects ------------------------------------------------------------------------------------------------

    def _perform(self, effect: fx.Effect) -> None:
        store = self.start.location.store
        match effect:
            case _ if isinstance(effect, StorageEffect):
                self._agenda.after(store.latency_ms(), lambda: self._store(effect))
            case fx.ExportSavepoint():
                self._agenda.after(store.latency_ms(), lambda: self._export(effect))
            case fx.CommitSinks():
                self._agenda.after(self._setting.outside.latency_ms(), lambda: self._commit(effect))
            case fx.SweepSinks():
                self._agenda.after(self._setting.outside.latency_ms(), lambda: self._sweep(effect))
            case fx.Deploy(attempt, manifest):
                self._setting.tally.path("deployed from nothing" if manifest is None else "deployed from a checkpoint")
                self._agenda.soon(50, 400, lambda: self._deploy(attempt, manifest))
            case fx.SendToSlots(message, slots):
                if self._gang is not None:
                    self._gang.send(message, slots)
            case fx.EndAttempt(attempt, clean, reason):
                self._end(attempt, clean, reason)
            case fx.ForgetSplits(attempt, operator, below):
                if self._gang is not None and self._gang.attempt == attempt:
                    self._agenda.soon(0, 500, lambda gang=self._gang: gang.forget(operator, below))
            case fx.AnswerRequest(token, outcome):
                self._setting.tally.path(f"request answered: {type(outcome).__name__}")
                self.answers[token] = outcome
            case fx.ReportCheckpoint():
                pass
            case fx.Finish(outcome):
                self._agenda.note(self.name, f"finishes: {type(outcome).__name__}")
                self.alive = False
                self._setting.tally.path(f"finished as {type(outcome).__name__}")
                self._on_finish(self, outcome)

    def _still_happens(self) -> bool:
        """What a dead process had asked for happens or not; nobody can tell."""
        return self.alive or self._agenda.chance(0.5)

    def after_thaw(self, do: Callable[[], None]) -> bool:
        """A frozen process does not act: it will, late, when it goes on."""
        if self.alive and self.frozen:
            self._agenda.after(self._frozen_until_ms - self._agenda.now_ms + 1, do)
            return True
        return False

    def _answer(self, event: ev.Event) -> None:
        self._agenda.soon(*ANSWER_MS, lambda: self.post(event))

    def _store(self, effect: StorageEffect) -> None:
        if self.after_thaw(lambda: self._store(effect)) or not self._still_happens():
            return
        if isinstance(effect, fx.Delete):
            effect = self._cut_short(effect)
            self._watch.deleting(self)
        answer = perform(self.start.plan, effect, self.start.location.store, self._stopwatch(effect), self._ask_targets)
        if isinstance(answer, ev.CleanupDone) and answer.untried:
            self._setting.tally.fault("delete_partly")
        self._answer(answer)

    def _ask_targets(self) -> tuple[tuple[OperatorId, Published], ...]:
        pipeline = self.start.location.pipeline
        asked = ((sink, self._setting.outside.published(pipeline, sink)) for sink in self.start.plan.sinks)
        return tuple((sink, published) for sink, published in asked if published is not None)

    def _cut_short(self, effect: fx.Delete) -> fx.Delete:
        """A process that died while it cleaned up deleted some of it."""
        if self.alive or not effect.keys or not self._agenda.chance(self._setting.faults.delete_partly):
            return effect
        self._setting.tally.fault("delete_partly")
        return fx.Delete(effect.attempt, effect.keys[: len(effect.keys) // 2], effect.timeout_ms)

    def _stopwatch(self, effect: StorageEffect) -> Callable[[], int]:
        """The process's clock while it works; now and then a round of cleanup runs out of time."""
        if not isinstance(effect, fx.Delete) or not self._agenda.chance(self._setting.faults.delete_partly):
            return self.clock.now_ms
        spent_ms = 0

        def now_ms() -> int:
            nonlocal spent_ms
            spent_ms += self._agenda.random.randint(0, effect.timeout_ms // 3)
            return self.clock.now_ms() + spent_ms

        return now_ms

    def _export(self, effect: fx.ExportSavepoint) -> None:
        if self.after_thaw(lambda: self._export(effect)) or not self._still_happens():
            return
        self._answer(perform_export(effect, self.start.location.store, self.start.open_target, self.clock.now_ms))

    def _commit(self, effect: fx.CommitSinks) -> None:
        if self.after_thaw(lambda: self._commit(effect)) or not self._still_happens():
            return
        self._answer(perform_commit(effect, self._setting.outside.commit, self.clock.now_ms))

    def _sweep(self, effect: fx.SweepSinks) -> None:
        if self.after_thaw(lambda: self._sweep(effect)) or not self._still_happens():
            return
        keep = dict(effect.keep)
        for sink in self.start.plan.sinks:
            self._setting.outside.sweep(self.start.location.pipeline, sink, effect.older_than, keep.get(sink, ()))
        self._answer(ev.SinksSwept(self.clock.now_ms(), effect.attempt))

    # --- slots --------------------------------------------------------------------------------------------------

    def _deploy(self, attempt: Attempt, manifest: Manifest | None) -> None:
        if not self.alive or self.after_thaw(lambda: self._deploy(attempt, manifest)):
            return
        self._gang = SimulatedGang(self._setting, self, attempt, manifest)

    def _end(self, attempt: Attempt, clean: bool, reason: str) -> None:
        gang, self._gang = self._gang, None
        if gang is not None:
            gang.end(clean=clean, reason=reason)
        self._agenda.soon(50, 900, lambda: self.say(lambda now_ms: ev.SlotsFree(now_ms, attempt)))

    def slot_died(self, slot: SimulatedSlot) -> None:
        """Spark notices a dead worker after a while."""
        if self._gang is not None:
            self._agenda.soon(100, 1_100, lambda gang=self._gang: gang.failed(slot.index, None))

    def slot_silent(self, slot: SimulatedSlot, duration_ms: int) -> None:
        if duration_ms > SILENCE_MS and self._gang is not None:
            self._agenda.after(SILENCE_MS, lambda gang=self._gang: gang.failed(slot.index, None))
