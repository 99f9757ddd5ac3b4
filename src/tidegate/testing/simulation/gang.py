"""The slots of one attempt, seen from the driver: start, discovery, messages both ways, the end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.checkpoint import events as ev
from tidegate.checkpoint.manifest import Manifest
from tidegate.checkpoint.storing import failure_of
from tidegate.model import messages
from tidegate.model.errors import InvalidQuery, TidegateError
from tidegate.model.ids import Attempt, OperatorId, SlotIndex
from tidegate.plan.relational import Scan
from tidegate.testing.simulation.setting import Setting
from tidegate.testing.simulation.slots import SimulatedSlot
from tidegate.testing.simulation.sources import ScriptedEnumerator, script_of

if TYPE_CHECKING:
    from tidegate.testing.simulation.driver import SimulatedDriver


class SimulatedGang:
    def __init__(self, setting: Setting, driver: SimulatedDriver, attempt: Attempt, manifest: Manifest | None) -> None:
        self._setting = setting
        self._agenda = setting.agenda
        self._driver = driver
        self._config = driver.start.plan.config
        self.attempt = attempt
        self._ready: set[SlotIndex] = set()
        self._ended = False
        self._enumerators: dict[OperatorId, ScriptedEnumerator] = {}
        self.slots: list[SimulatedSlot] = []
        graph = driver.start.graph
        for index in range(graph.parallelism):
            slot = SimulatedSlot(
                setting,
                driver.start.location,
                self._config,
                graph,
                attempt,
                SlotIndex(index),
                self.slots,
                self._hear,
                self.failed,
            )
            self.slots.append(slot)
        for scan in graph.scans():
            self._restore_source(scan, manifest)
        start = messages.StartSubtasks(
            attempt=attempt,
            addresses=("",) * len(self.slots),
            restored=manifest.operators if manifest else (),
            checkpoint=manifest.checkpoint if manifest else None,
        )
        self._agenda.soon(50, 300, lambda: self._start(start))

    def _start(self, start: messages.StartSubtasks) -> None:
        """Told again to those that have not said that they are ready: either message may be lost."""
        if not self._current or len(self._ready) == len(self.slots):
            return
        if self._driver.after_thaw(lambda: self._start(start)):
            return
        self.send(start, tuple(slot.index for slot in self.slots if slot.index not in self._ready))
        self._agenda.after(self._config.message_repeat_ms, lambda: self._start(start))

    @property
    def _current(self) -> bool:
        return self._driver.alive and not self._ended

    # --- sources ------------------------------------------------------------------------------------------------

    def _restore_source(self, scan: Scan, manifest: Manifest | None) -> None:
        enumerator = self._enumerators[scan.id] = ScriptedEnumerator(script_of(scan))
        old = next((one for one in manifest.sources if one.operator == scan.id), None) if manifest else None
        known = enumerator.restore(old.enumerator, tuple(one.split for one in old.open)) if old else ()
        splits = (*known, *enumerator.discover(self._agenda.now_ms))
        self._discovered(scan.id, splits)
        if not enumerator.bounded:
            self._agenda.after(self._config.discovery_interval_ms, lambda: self._discover(scan.id))

    def _discover(self, operator: OperatorId) -> None:
        if not self._current or self._driver.after_thaw(lambda: self._discover(operator)):
            return
        enumerator = self._enumerators[operator]
        splits = enumerator.discover(self._agenda.now_ms)
        if splits:
            self._setting.tally.path("splits discovered while running")
            self._discovered(operator, splits)
        if not enumerator.bounded:
            self._agenda.after(self._config.discovery_interval_ms, lambda: self._discover(operator))

    def _discovered(self, operator: OperatorId, splits: tuple[ev.Split, ...]) -> None:
        enumerator = self._enumerators[operator]
        self._driver.say(
            lambda now_ms: ev.SplitsDiscovered(
                now_ms, self.attempt, operator, splits, enumerator.snapshot(), bounded=enumerator.bounded
            )
        )

    def forget(self, operator: OperatorId, below: int) -> None:
        """The enumerator's memory shrinks, and some moment later the coordinator holds its shorter snapshot."""
        if not self._current or self._driver.after_thaw(lambda: self.forget(operator, below)):
            return
        self._setting.tally.path("splits forgotten")
        self._enumerators[operator].forget(below)
        self._discovered(operator, ())

    # --- messages -----------------------------------------------------------------------------------------------

    def send(self, message: messages.SlotMessage, slots: tuple[SlotIndex, ...] | None) -> None:
        for slot in self.slots:
            if slots is None or slot.index in slots:
                self._setting.network.carry(message, lambda one=slot: one.tell(message))

    def _hear(self, message: messages.DriverMessage) -> None:
        self._setting.network.carry(message, lambda: self._heard(message))

    def _heard(self, message: messages.DriverMessage) -> None:
        match message:
            case messages.SlotReady(slot=slot):
                self._ready.add(slot)
                if len(self._ready) == len(self.slots):
                    self._driver.say(lambda now_ms: ev.SlotsReady(now_ms, self.attempt))
            case (
                messages.SubtaskAcked()
                | messages.SubtaskDeclined()
                | messages.SplitsWanted()
                | messages.SourceExhausted()
            ):
                self._driver.say(lambda now_ms: ev.SlotSaid(now_ms, message))
            case _:
                return

    def failed(self, index: SlotIndex, error: TidegateError | None) -> None:
        failure = ev.Failure("SLOT_LOST", f"slot {index} is gone")
        if error is not None:
            told = failure_of(error)
            retryable = not isinstance(error, InvalidQuery)
            failure = ev.Failure(
                told.code, told.message, told.hint, error.operator, error.position, retryable=retryable
            )
        self._driver.say(lambda now_ms: ev.AttemptFailed(now_ms, self.attempt, failure))

    def end(self, *, clean: bool, reason: str) -> None:
        self._ended = True
        self.send(messages.EndAttempt(attempt=self.attempt, clean=clean, reason=reason), None)
        for slot in self.slots:
            # A slot that cannot hear goes on as a zombie until Spark has killed it.
            self._agenda.soon(300, 12_000, lambda one=slot: one.kill("its job was cancelled"))
