"""The slots of one attempt, seen from the driver: start, discovery, messages both ways, the end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.checkpoint import events as ev
from tidegate.checkpoint.manifest import Manifest
from tidegate.checkpoint.storing import failure_of
from tidegate.model import messages
from tidegate.model.errors import InvalidQuery, TidegateError
from tidegate.model.ids import Attempt, OperatorId, SlotIndex
from tidegate.testing.simulation.looks import SimulatedLooks
from tidegate.testing.simulation.setting import Moment, Setting
from tidegate.testing.simulation.slots import SimulatedSlot

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
        self._looks = SimulatedLooks(setting, driver, attempt, graph, manifest, lambda: self._current)
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

    def forget(self, operator: OperatorId, below: int) -> None:
        """The enumerator's memory shrinks. The coordinator holds its shorter snapshot with the next report of a look."""
        if not self._current or self._driver.after_thaw(lambda: self.forget(operator, below)):
            return
        self._setting.tally.path("splits forgotten")
        self._looks.forget(operator, below)

    # --- messages -----------------------------------------------------------------------------------------------

    def send(self, message: messages.SlotMessage, slots: tuple[SlotIndex, ...] | None) -> None:
        if isinstance(message, messages.AssignSplits):
            self._setting.on_moment(Moment.TOLD)
        for slot in self.slots:
            if slots is None or slot.index in slots:
                self._setting.network.carry(message, lambda one=slot: one.tell(message))

    def _hear(self, message: messages.DriverMessage) -> None:
        if isinstance(message, messages.SplitsWanted) and message.finished:
            self._setting.on_moment(Moment.REPORTED)
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
                | messages.SourceTime()
            ):
                self._driver.say(lambda now_ms: ev.SlotSaid(now_ms, message))
                if isinstance(message, messages.SplitsWanted) and message.finished:
                    self._setting.on_moment(Moment.HEARD)
            case _:
                return

    def failed(self, index: SlotIndex, error: TidegateError | None) -> None:
        failure = ev.Failure("SLOT_LOST", f"slot {index} is gone")
        if error is not None:
            told = failure_of(error)
            self._setting.tally.path(f"attempt failed: {told.code}")
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
