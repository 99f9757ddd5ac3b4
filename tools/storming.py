"""What every storm of `make chaos` has: a clock, kills and freezes by it, a supervisor that starts drivers again, and its diary.

``storm.py`` and ``connector_storm.py`` add whom else they harm, and what the drivers run.
"""

from __future__ import annotations

import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from storm_pace import Pace
from storm_processes import DriverProcess, Victim, send
from storm_program import DRIVER_KILLS, FREEZE_S, FREEZES, SLOT_KILLS, Weather

FIRST_START_LIMIT_S = 400.0
AFTER_STORM_S = 400.0
OVERTIME_S = 400.0
LOOK_S = 0.1
"""Between two looks at the processes."""
TELL_EVERY_S = 10.0
BLOWS_MAX = 4
"""Without a completed checkpoint between them: a machine on which all of Spark's steps are slow has to see progress, too."""


class Storm:
    """Harm by the clock, which starts when the queries run. One driver at a time; a new one as soon as it is gone."""

    def __init__(
        self,
        folder: Path,
        seconds: float,
        weather: Weather,
        chance: random.Random,
        *,
        needs_skew: bool = False,
        program: str = "storm_query.py",
    ) -> None:
        """``needs_skew``: a query's slot is killed only after a checkpoint with barriers far apart: none other can have kept
        rows that come again. ``program``: what a driver runs."""
        self._folder = folder
        self._seconds = seconds
        self._weather = weather
        self._chance = chance
        self._needs_skew = needs_skew
        self._began_s = time.monotonic()
        self._blown_s, self._done = 0.0, 0
        """How long it blew, and how much the queries had done by then."""
        self._told_s = 0.0
        self._frozen: tuple[Victim, float] | None = None
        self._at_last_kill: dict[str, int] = {}
        self._killed: set[int] = set()
        """Slots. On a busy machine one dies some time after it was killed, and cannot be killed twice."""
        self._program = program
        self._drivers = [DriverProcess(folder, "driver-1", program)]
        self._pace = Pace()
        self.counts: Counter[str] = Counter()

    def __enter__(self) -> Storm:
        return self

    def __exit__(self, *failure: object) -> None:
        for driver in self._drivers:
            driver.end_all()

    def rage(self) -> str:
        """From the start of the queries to their end, right or wrong. What went wrong, if anything did."""
        return self._blow() or self._come_to_an_end()

    def summary(self) -> str:
        """What happened, for the line that says whether the output was right."""
        kinds = dict.fromkeys((*self._harms(), *sorted(self.counts)))
        after = ", ".join(f"{self.counts[kind]} {kind}" for kind in kinds)
        pace = f"{self._done / max(self._blown_s, 1.0):,.0f} events per s"
        calm_s = self._since_s - self._blown_s
        return f"{after} in {self._blown_s:.0f} s of storm ({pace}, {self._pace}) and {calm_s:.0f} s of calm"

    @property
    def missing(self) -> list[str]:
        """What was due and found no victim at all: a storm that did not blow says nothing."""
        return [what for what in self._harms() if self._weather[what] < self._seconds and not self.counts[what]]

    def _harms(self) -> dict[str, Callable[[], bool]]:
        """Everything that happens, by kind: who does it, and says whether it found a victim."""
        return {
            SLOT_KILLS.name: self._kill_slot,
            DRIVER_KILLS.name: self._kill_driver,
            FREEZES.name: self._freeze,
        }

    def _owners(self) -> list[Victim]:
        """Whom a freeze may hit beside slots."""
        return [Victim(self._driver.name, self._driver.pid), *self._driver.jvm()]

    # --- its course -------------------------------------------------------------------------------------------------------

    @property
    def _driver(self) -> DriverProcess:
        return self._drivers[-1]

    @property
    def _since_s(self) -> float:
        return time.monotonic() - self._began_s

    @property
    def _over(self) -> bool:
        """The queries came to their end, or their driver did for good."""
        return self._driver.status().ended or self._gone

    @property
    def _gone(self) -> bool:
        return self._driver.exit_code is not None and not self._driver.could_not_start

    def _blow(self) -> str:
        """Until the time is up or the queries are at their end; what has not happened by then, on a busy machine, still does."""
        while not ((status := self._driver.status()).running or status.ended):
            gone = self._driver.wait(LOOK_S) and not self._driver.status().ended
            if gone or self._since_s > FIRST_START_LIMIT_S:
                return f"the queries did not get going, exit code {self._driver.exit_code}:\n{self._log()}"
        self._tell(f"the queries run, {self._since_s:.0f} s after the start")
        self._began_s = time.monotonic()
        harms = self._harms()
        due_s = {what: self._weather[what] for what in harms}
        while not self._over and self._since_s < self._seconds + OVERTIME_S:
            if self._since_s >= self._seconds:
                harms = {what: harm for what, harm in harms.items() if what in self.missing}
                if not harms:
                    break
            for what, harm in harms.items():
                if self._since_s < due_s[what]:
                    continue
                if self._pace.harmed < BLOWS_MAX and harm():
                    self.counts[what] += 1
                    self._pace.harmed += 1
                    due_s[what] = self._since_s + self._weather[what]
                else:  # Tried again soon; not at the first moment, at which everything else that had to wait is tried as well.
                    due_s[what] = self._since_s + self._chance.uniform(0, self._weather[what] / 2)
            self._look()
        self._blown_s, self._done = self._since_s, self._pace.events
        return ""

    def _come_to_an_end(self) -> str:
        """The storm is over: the queries must end now, and right. What went wrong, if anything did."""
        self._thaw(at_once=True)
        self._tell("the storm is over")
        # What the storm kept from being done is done now.
        limit_s = AFTER_STORM_S + 2 * self._seconds
        while not self._gone:
            self._look()
            if self._since_s > self._blown_s + limit_s:
                return f"the queries did not end within {limit_s:.0f} s after the storm:\n{self._log()}"
        if not (self._folder / "result.json").exists():
            return f"the driver ended with exit code {self._driver.exit_code}:\n{self._log()}"
        orphans = [orphan for driver in self._drivers for orphan in driver.orphans()]
        return f"processes outlived their driver: {', '.join(orphans)}" if orphans else ""

    def _look(self) -> None:
        """What has to be done all the time, storm or not."""
        self._thaw()
        self._driver.wait(LOOK_S)
        self._supervise()
        status = self._driver.status()
        self._pace.see(self._since_s, self._driver.name, status)
        if self._since_s >= self._told_s + TELL_EVERY_S:
            self._told_s = self._since_s
            self._tell(self._pace.lately())

    def _supervise(self) -> None:
        """A driver that cannot start because somebody does not answer says so and ends; it is started again, as on a cluster."""
        if self._driver.could_not_start:
            self._tell(f"{self._driver.name} found nobody to talk to and is started again")
            self.counts["starts in vain"] += 1
            self._start_driver()

    def _start_driver(self) -> None:
        self._drivers.append(DriverProcess(self._folder, f"driver-{len(self._drivers) + 1}", self._program))

    # --- what it does -----------------------------------------------------------------------------------------------------

    def _slots(self) -> list[Victim]:
        return [slot for slot in self._driver.slots() if slot.pid not in self._killed]

    def _kill_slot(self) -> bool:
        status, slots = self._driver.status(), self._slots()
        if self._needs_skew:
            harmful = status.skewed(self._at_last_kill)
            slots = [slot for slot in slots if slot.query in harmful]
        if not slots:
            return False
        victim = self._chance.choice(slots)
        if not send(victim.pid, signal.SIGKILL):
            return False
        self._killed.add(victim.pid)
        self._at_last_kill = status.checkpoints
        self._tell(f"kill -9 of {victim.name}")
        return True

    def _kill_driver(self) -> bool:
        """Not before it has had checkpoints for a while: else a machine on which Spark starts slowly would see no progress at all."""
        life_s = self._weather[DRIVER_KILLS.name] / 2
        if not self._driver.status().progressing or self._since_s < self._pace.began_s(self._driver.name) + life_s:
            return False
        self._tell(f"kill -9 of {self._driver.name}")
        self._driver.kill()
        self._start_driver()
        return True

    def _freeze(self) -> bool:
        slots = self._slots()
        if not slots or self._frozen is not None:
            return False
        victim = self._chance.choice(slots if self._chance.random() < 0.6 else self._owners())
        if not send(victim.pid, signal.SIGSTOP):
            return False
        self._tell(f"SIGSTOP of {victim.name} for {FREEZE_S:.0f} s")
        self._frozen = (victim, time.monotonic() + FREEZE_S)
        return True

    def _thaw(self, *, at_once: bool = False) -> None:
        if self._frozen is not None and (at_once or time.monotonic() >= self._frozen[1]):
            send(self._frozen[0].pid, signal.SIGCONT)
            self._frozen = None

    def _tell(self, what: str) -> None:
        print(f"storm: {self._since_s:6.1f} s  {what}; checkpoints: {self._driver.status()}", flush=True)

    def _log(self) -> str:
        return (self._folder / "log").read_text(errors="replace")[-3000:]


def what_is_missing(storm: Storm) -> str:
    """In words; empty: everything that was due has happened."""
    return f"there were no {', no '.join(storm.missing)}: this run says nothing" if storm.missing else ""
