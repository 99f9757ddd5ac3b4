"""Every second of a run: whether something goes wrong with a process, a channel, a clock or the store."""

from __future__ import annotations

from tidegate.checkpoint import events as ev
from tidegate.testing.simulation.clocks import JUMP_MS
from tidegate.testing.simulation.driver import SimulatedDriver
from tidegate.testing.simulation.people import People
from tidegate.testing.simulation.setting import Moment, Setting
from tidegate.testing.simulation.slots import SimulatedSlot


class Trouble:
    def __init__(self, setting: Setting, everybody: list[People]) -> None:
        self._setting = setting
        self._agenda = setting.agenda
        self._everybody = everybody
        setting.on_moment = self.at
        setting.chronicle.on_read = lambda: self.at(Moment.READ)

    def at(self, moment: Moment) -> None:
        """A split is on its way to be settled: now, or a moment later, a process dies."""
        faults, people = self._setting.faults, self._everybody[0]
        drivers = people.living
        if not faults.settling_crash or not drivers or not self._happens("settling_crash"):
            return
        self._setting.tally.path(f"a process dies when {moment.value}")
        driver = drivers[-1]
        running = [slot for slot in driver.slots if slot.alive]
        if running and self._agenda.chance(0.7):
            slot = self._agenda.random.choice(running)
            self._agenda.soon(0, 40, lambda: self._kill_slot(driver, slot))
        else:
            self._agenda.soon(0, 40, lambda: self._kill_driver(people, driver))

    def every_second(self) -> None:
        for people in self._everybody:
            if people.finished_ms is None:
                people.start_if_alone()
            for driver in people.living:
                self._with_driver(people, driver)
                running = [slot for slot in driver.slots if slot.alive]
                if running:
                    self._with_slot(driver, self._agenda.random.choice(running))
            self._with_store(people)

    def _happens(self, kind: str) -> bool:
        """Counted when it does."""
        if not self._agenda.chance(getattr(self._setting.faults, kind)):
            return False
        self._setting.tally.fault(kind)
        return True

    def _with_driver(self, people: People, driver: SimulatedDriver) -> None:
        agenda = self._agenda
        if self._happens("driver_crash"):
            agenda.soon(0, 999, lambda: self._kill_driver(people, driver))
        if self._happens("driver_freeze"):
            driver.freeze(agenda.random.randint(500, 12_000))
            agenda.soon(500, 3_000, people.start)
        if self._happens("second_driver"):
            agenda.soon(0, 999, people.start)
        if self._happens("clock_jump"):
            self._jump(driver, driver.name)
        if self._happens("request"):
            people.ask_for_checkpoint(driver)
        if self._happens("savepoint"):
            people.ask_for_savepoint(driver)
        if driver.gang is not None and self._happens("backlog"):
            attempt, far_behind = driver.gang.attempt, agenda.chance(0.5)
            driver.say(lambda now_ms: ev.BacklogSeen(now_ms, attempt, far_behind))
        if self._happens("stop"):
            people.stop(driver)

    def _with_slot(self, driver: SimulatedDriver, slot: SimulatedSlot) -> None:
        agenda, tally, faults = self._agenda, self._setting.tally, self._setting.faults
        if self._happens("slot_crash"):
            agenda.soon(0, 999, lambda: self._kill_slot(driver, slot))
        if self._happens("slot_freeze"):
            duration_ms = agenda.random.randint(500, 15_000)
            slot.freeze(duration_ms)
            driver.slot_silent(slot, duration_ms)
        if self._happens("clock_jump"):
            self._jump(slot, slot.who)
        if agenda.chance(faults.channel_slow) and slot.slow_channel(agenda.random.randint(1_000, 6_000)):
            tally.fault("channel_slow")
        if agenda.chance(faults.channel_broken) and slot.break_channel():
            tally.fault("channel_broken")

    def _with_store(self, people: People) -> None:
        store = people.location.store
        if self._agenda.chance(self._setting.faults.storage_full):
            store.fill_up(self._agenda.random.randint(500, 8_000))
        if self._agenda.chance(self._setting.faults.storage_throttled):
            store.throttle(self._agenda.random.randint(50, 1_500))

    def _jump(self, process: SimulatedDriver | SimulatedSlot, who: str) -> None:
        forward_ms = self._agenda.random.randint(*JUMP_MS)
        self._agenda.note(who, f"its clock jumps by {forward_ms} ms")
        process.clock.jump(forward_ms)

    def _kill_slot(self, driver: SimulatedDriver, slot: SimulatedSlot) -> None:
        if slot.alive:
            slot.kill("kill -9")
            driver.slot_died(slot)

    def _kill_driver(self, people: People, driver: SimulatedDriver) -> None:
        if not driver.alive:
            return
        driver.crash()
        self._agenda.soon(200, 3_000, people.start_if_alone)
        for others in self._everybody:
            # The pipelines of a job live in one process.
            beside = others.living[-1:] if others is not people else []
            for one in beside:
                self._setting.tally.path("both pipelines of a job die together")
                one.crash()
                self._agenda.soon(200, 3_000, others.start_if_alone)
