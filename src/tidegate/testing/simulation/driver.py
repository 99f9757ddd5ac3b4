"""A simulated driver process: the real coordinator, its effects spread over simulated time."""

from __future__ import annotations

from collections.abc import Callable

from tidegate.checkpoint import effects as fx
from tidegate.checkpoint import events as ev
from tidegate.checkpoint.lifecycle import step
from tidegate.checkpoint.manifest import Manifest
from tidegate.checkpoint.phases import New, State
from tidegate.checkpoint.plan import CheckpointPlan
from tidegate.checkpoint.storing import StorageEffect, failure_of, perform
from tidegate.model import messages
from tidegate.model.errors import TidegateError
from tidegate.model.ids import Attempt, OperatorId, SlotIndex
from tidegate.plan.graph import JobGraph
from tidegate.testing.simulation.setting import Setting
from tidegate.testing.simulation.slots import SimulatedSlot
from tidegate.testing.simulation.sources import ScriptedEnumerator, script_of

TICK_MS = (20, 100)
STORAGE_MS = (1, 80)
CONTROL_MS = (0, 20)
SILENCE_MS = 8_000
ADVISORY = (messages.CheckpointCompleted, messages.CheckpointCommitted, messages.CheckpointAborted)


class SimulatedDriver:
    """One driver process. After ``crash`` it does nothing more, but what it had asked for may still happen."""

    def __init__(
        self,
        setting: Setting,
        name: str,
        graph: JobGraph,
        plan: CheckpointPlan,
        on_finish: Callable[[SimulatedDriver, fx.Outcome], None],
    ) -> None:
        self._setting = setting
        self._agenda = setting.agenda
        self._graph = graph
        self._plan = plan
        self._on_finish = on_finish
        self._state: State = New()
        self._frozen_until_ms = 0
        self._ready: set[SlotIndex] = set()
        self._enumerators: dict[OperatorId, ScriptedEnumerator] = {}
        self._restored: Manifest | None = None
        self.name = name
        self.alive = True
        self.attempt = Attempt(0)
        self.slots: list[SimulatedSlot] = []
        newest = max((key.split("/")[1] for key in setting.store.objects if key.endswith("/claim")), default="0")
        self.post(ev.Started(self._agenda.now_ms, process=name, newest_claim=Attempt(int(newest))))
        self._tick()

    # --- life -------------------------------------------------------------------------------------------------

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
            self.post(ev.ClockTicked(self._agenda.now_ms))
            self._agenda.soon(*TICK_MS, self._tick)

    def post(self, event: ev.Event) -> None:
        """An event reaches the inbox. A frozen process finds it when it wakes up."""
        if not self.alive:
            return
        if self.frozen:
            self._agenda.after(self._frozen_until_ms - self._agenda.now_ms + 1, lambda: self.post(event))
            return
        self._state, effects = step(self._plan, self._state, event)
        if not isinstance(event, ev.ClockTicked) or effects:
            self._agenda.note(self.name, _short(event))
        for effect in effects:
            self._agenda.note(self.name, f"  → {_short(effect)}")
            self._perform(effect)

    def request_checkpoint(self, token: str) -> None:
        self.post(ev.CheckpointRequested(self._agenda.now_ms, token))

    # --- effects ------------------------------------------------------------------------------------------------

    def _perform(self, effect: fx.Effect) -> None:
        match effect:
            case (
                fx.WriteClaim()
                | fx.ListLocation()
                | fx.WriteRestored()
                | fx.LookForClaim()
                | fx.StoreManifest()
                | fx.MarkCommitted()
                | fx.Delete()
            ):
                self._agenda.soon(*STORAGE_MS, lambda: self._store(effect))
            case fx.CommitSinks():
                self._agenda.soon(*STORAGE_MS, lambda: self._commit(effect))
            case fx.SweepSinks():
                self._agenda.soon(*STORAGE_MS, lambda: self._sweep(effect))
            case fx.Deploy(attempt, manifest):
                self._setting.tally.path("deployed from nothing" if manifest is None else "deployed from a checkpoint")
                self._agenda.soon(50, 400, lambda: self._deploy(attempt, manifest))
            case fx.SendToSlots(message, slots):
                for slot in self.slots:
                    if slots is None or slot.index in slots:
                        self._send(slot, message)
            case fx.EndAttempt(attempt, clean, reason):
                self._end(attempt, clean, reason)
            case fx.ForgetSplits(attempt, operator, below):
                self._agenda.soon(0, 500, lambda: self._forget(attempt, operator, below))
            case fx.AnswerRequest(_, outcome):
                self._setting.tally.path(f"request answered: {type(outcome).__name__}")
            case fx.Finish(outcome):
                self._agenda.note(self.name, f"finishes: {type(outcome).__name__}")
                self.alive = False
                self._setting.tally.path(f"finished as {type(outcome).__name__}")
                self._on_finish(self, outcome)

    def _still_happens(self) -> bool:
        """What a dead process had asked for happens or not; nobody can tell."""
        return self.alive or self._agenda.chance(0.5)

    def _after_thaw(self, do: Callable[[], None]) -> bool:
        """A frozen process does not act: it will, late, when it goes on."""
        if self.alive and self.frozen:
            self._agenda.after(self._frozen_until_ms - self._agenda.now_ms + 1, do)
            return True
        return False

    def _store(self, effect: StorageEffect) -> None:
        if self._after_thaw(lambda: self._store(effect)) or not self._still_happens():
            return
        event = perform(self._plan, effect, self._setting.store, lambda: self._agenda.now_ms)
        self._agenda.soon(0, 20, lambda: self.post(event))

    def _commit(self, effect: fx.CommitSinks) -> None:
        if self._after_thaw(lambda: self._commit(effect)) or not self._still_happens():
            return
        answer: ev.Event
        try:
            for _, committables in effect.committables:
                self._setting.outside.commit(committables)
            answer = ev.SinksCommitted(self._agenda.now_ms, effect.attempt, effect.checkpoint)
        except TidegateError as error:
            answer = ev.SinksFailed(self._agenda.now_ms, effect.attempt, effect.checkpoint, failure_of(error))
        self._agenda.soon(0, 20, lambda: self.post(answer))

    def _sweep(self, effect: fx.SweepSinks) -> None:
        if self._after_thaw(lambda: self._sweep(effect)) or not self._still_happens():
            return
        keep = dict(effect.keep)
        for sink in self._plan.sinks:
            self._setting.outside.sweep(sink, effect.older_than, keep.get(sink, ()))
        self._agenda.soon(0, 20, lambda: self.post(ev.SinksSwept(self._agenda.now_ms, effect.attempt)))

    # --- slots --------------------------------------------------------------------------------------------------

    def _deploy(self, attempt: Attempt, manifest: Manifest | None) -> None:
        if not self.alive or self._after_thaw(lambda: self._deploy(attempt, manifest)):
            return
        self.attempt = attempt
        self._ready = set()
        slots: list[SimulatedSlot] = []
        for index in range(self._graph.parallelism):
            slots.append(
                SimulatedSlot(
                    self._setting,
                    self._graph,
                    attempt,
                    SlotIndex(index),
                    slots,
                    lambda message: self._hear(message),
                    lambda index, error, a=attempt: self._slot_failed(a, index, error),
                )
            )
        self.slots = slots
        self._discover(attempt, manifest)
        restored = manifest.operators if manifest else ()
        start = messages.StartSubtasks(
            attempt=attempt,
            addresses=("",) * len(slots),
            restored=restored,
            checkpoint=manifest.checkpoint if manifest else None,
        )
        for slot in slots:
            self._agenda.soon(50, 300, lambda one=slot: one.tell(start))

    def _discover(self, attempt: Attempt, manifest: Manifest | None) -> None:
        states = {source.operator: source for source in manifest.sources} if manifest else {}
        for scan in self._graph.scans():
            enumerator = self._enumerators[scan.id] = ScriptedEnumerator(script_of(scan))
            old = states.get(scan.id)
            known = enumerator.restore(old.enumerator, tuple(p.split for p in old.open)) if old else ()
            splits = (*known, *enumerator.discover(self._agenda.now_ms))
            self.post(
                ev.SplitsDiscovered(
                    self._agenda.now_ms, attempt, scan.id, splits, enumerator.snapshot(), bounded=enumerator.bounded
                )
            )

    def _forget(self, attempt: Attempt, operator: OperatorId, below: int) -> None:
        """The enumerator's memory shrinks, and some moment later the coordinator holds its shorter snapshot."""
        if (
            not self.alive
            or attempt != self.attempt
            or self._after_thaw(lambda: self._forget(attempt, operator, below))
        ):
            return
        self._setting.tally.path("splits forgotten")
        enumerator = self._enumerators[operator]
        enumerator.forget(below)
        self.post(
            ev.SplitsDiscovered(
                self._agenda.now_ms, attempt, operator, (), enumerator.snapshot(), bounded=enumerator.bounded
            )
        )

    def _hear(self, message: messages.DriverMessage) -> None:
        """From a slot, over a network that delays and repeats."""
        self._deliver(lambda: self._heard(message))

    def _heard(self, message: messages.DriverMessage) -> None:
        match message:
            case messages.SlotReady(attempt=attempt, slot=slot) if attempt == self.attempt:
                self._ready.add(slot)
                if len(self._ready) == self._graph.parallelism:
                    self.post(ev.SlotsReady(self._agenda.now_ms, attempt))
            case (
                messages.SubtaskAcked()
                | messages.SubtaskDeclined()
                | messages.SplitsWanted()
                | messages.SourceExhausted()
            ):
                self.post(ev.SlotSaid(self._agenda.now_ms, message))
            case _:
                return

    def _send(self, slot: SimulatedSlot, message: messages.SlotMessage) -> None:
        if isinstance(message, ADVISORY) and self._agenda.chance(self._setting.faults.notice_lost):
            self._setting.tally.fault("notice_lost")
            return
        self._deliver(lambda: slot.tell(message))

    def _deliver(self, arrive: Callable[[], None]) -> None:
        faults, tally = self._setting.faults, self._setting.tally
        if self._agenda.chance(faults.message_repeated):
            tally.fault("message_repeated")
            self._agenda.soon(0, 3_000, arrive)
        if self._agenda.chance(faults.message_delayed):
            tally.fault("message_delayed")
            self._agenda.soon(20, 1_500, arrive)
        else:
            self._agenda.soon(*CONTROL_MS, arrive)

    def slot_died(self, slot: SimulatedSlot) -> None:
        """Spark notices a dead worker after a while."""
        attempt = self.attempt
        self._agenda.soon(100, 1_100, lambda: self._slot_failed(attempt, slot.index, None))

    def slot_silent(self, slot: SimulatedSlot, duration_ms: int) -> None:
        if duration_ms > SILENCE_MS:
            attempt = self.attempt
            self._agenda.after(SILENCE_MS, lambda: self._slot_failed(attempt, slot.index, None))

    def _slot_failed(self, attempt: Attempt, index: SlotIndex, error: TidegateError | None) -> None:
        failure = failure_of(error) if error else ev.Failure("SLOT_LOST", f"slot {index} is gone")
        if error is not None:
            failure = ev.Failure(failure.code, failure.message, failure.hint)
        self.post(ev.AttemptFailed(self._agenda.now_ms, attempt, failure))

    def _end(self, attempt: Attempt, clean: bool, reason: str) -> None:
        slots, self.slots = self.slots, []
        for slot in slots:
            self._send(slot, messages.EndAttempt(attempt=attempt, clean=clean, reason=reason))
            # A slot that cannot hear goes on as a zombie until Spark has killed it.
            self._agenda.soon(300, 12_000, lambda one=slot: one.kill("its job was cancelled"))
        self._agenda.soon(50, 900, lambda: self.post(ev.SlotsFree(self._agenda.now_ms, attempt)))


def _short(value: object) -> str:
    text = repr(value).replace("tidegate.", "")
    return text if len(text) <= 160 else text[:157] + "..."
