#!/usr/bin/env python3
"""Part of `make chaos`: three minutes of windows and running aggregates on real Spark while everything around them dies or freezes.

Every 8 s a random slot gets kill -9, every 30 s the driver, and every 13 s a slot, the driver or its JVM is stopped for 5 s. A driver
that died is started again on the same checkpoint locations, and is not killed again before it has completed a checkpoint. At the end
the windows in Parquet must be Spark batch's row for row, and the last row of every key of the running aggregate as well.

    python tools/storm.py [--seconds 180] [--seed N] [--checkpoints disk|s3|hdfs]
    python tools/storm.py --skewed                kills of slots, with barriers skewed on purpose: right all the same
    python tools/storm.py --harm at-least-once    the same kills in at-least-once mode: bids count twice
    python tools/storm.py --harm alignment        the same in exactly-once mode, with the alignment taken out of the slots
    python tools/storm.py --harm look             a coordinator that does not look for its successor: rows repeat

Exit code 0: the output was right, or, with --harm, the harness did see the damage.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from storm_processes import DriverProcess, Victim, await_file, send
from storm_stores import STORES, Home, home

FIRST_START_LIMIT_S = 400.0
AFTER_STORM_S = 400.0
LOOK_S = 0.1
"""Between two looks at the processes."""
NEVER = float("inf")


@dataclass(frozen=True)
class Weather:
    """Seconds between two events of a kind."""

    slot_kill_s: float = 8.0
    driver_kill_s: float = 30.0
    freeze_every_s: float = 13.0
    freeze_s: float = 5.0


SLOTS_ONLY = Weather(driver_kill_s=NEVER, freeze_every_s=NEVER)
SKEWED_SECONDS = 25.0
LOOK_SECONDS = 12.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=180.0)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--harm", choices=("at-least-once", "alignment", "look"))
    parser.add_argument("--skewed", action="store_true")
    parser.add_argument("--checkpoints", choices=STORES, default="disk", help="where checkpoints live")
    for name, what in (("slot", "kill -9 of a slot"), ("driver", "kill -9 of the driver"), ("freeze", "SIGSTOP")):
        default = getattr(Weather, "freeze_every_s" if name == "freeze" else f"{name}_kill_s")
        parser.add_argument(f"--{name}-every", type=float, default=default, help=f"seconds between two: {what}")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # However we are told to end: the children are ended too.
    weather = Weather(options.slot_every, options.driver_every, options.freeze_every)
    folder = Path(tempfile.mkdtemp(prefix="tidegate-storm-"))
    try:
        with home(options.checkpoints, folder) as place:
            code = run(folder, place, options.harm, options.seconds, weather, options.seed, skewed=options.skewed)
    except KeyboardInterrupt:
        print("storm: interrupted; all its processes are ended", flush=True)
        code = 130
    if code in (0, 130):
        shutil.rmtree(folder, ignore_errors=True)
    else:
        print(f"storm: everything is kept in {folder}", flush=True)
    return code


def run(
    folder: Path, place: Home, harm: str | None, seconds: float, weather: Weather, seed: int, *, skewed: bool
) -> int:
    if harm == "look":
        return see_harm_without_the_look(folder)
    skewed = skewed or harm is not None
    if skewed:
        seconds, weather = SKEWED_SECONDS, SLOTS_ONLY
    what = (
        f"the harm of '{harm}'"
        if harm
        else f"{seconds:.0f} s of kills{' with skewed barriers' if skewed else ' and freezes'}"
    )
    print(f"storm: {what}, replay with --seed {seed}", flush=True)
    put_work(folder, seconds, harm, place, skewed=skewed)
    with Storm(folder, seconds, weather, random.Random(seed), needs_skew=skewed) as storm:
        problem = storm.blow() or storm.come_to_an_end() or storm.missed()
        counts = storm.counts
    if problem:
        print(f"FAILED: {problem}", flush=True)
        return 1
    return verdict(json.loads((folder / "result.json").read_text()), counts, harm)


def put_work(
    folder: Path, seconds: float, harm: str | None, place: Home, *, skewed: bool = False, gates: bool = False
) -> None:
    """What the drivers are to do."""
    checkpoints = {"location": place.location, "storage": place.options}
    work = {"seconds": seconds, "harm": harm, "skewed": skewed, "gates": gates, **checkpoints}
    (folder / "work.json").write_text(json.dumps(work))


class Storm:
    """Kills and freezes by the clock, which starts when the queries run. One driver at a time; a new one as soon as it is gone."""

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
        self._frozen: tuple[Victim, float] | None = None
        self._at_last_kill: dict[str, int] = {}
        self._program = program
        self._drivers = [DriverProcess(folder, "driver-1", program)]
        self.counts: Counter[str] = Counter()

    def __enter__(self) -> Storm:
        return self

    def __exit__(self, *failure: object) -> None:
        for driver in self._drivers:
            driver.end_all()

    @property
    def _driver(self) -> DriverProcess:
        return self._drivers[-1]

    @property
    def _over(self) -> bool:
        """The queries came to their end, or a driver ended by itself."""
        return (self._folder / "result.json").exists() or self._driver.exit_code is not None

    def blow(self) -> str:
        """Until the time is up or the queries are at their end. What went wrong, if anything did."""
        deadline_s = self._began_s + FIRST_START_LIMIT_S
        while not self._driver.status().running:
            if self._driver.wait(LOOK_S) or time.monotonic() > deadline_s:
                return f"the queries did not get going, exit code {self._driver.exit_code}:\n{self._log()}"
        self._tell("the queries run")
        self._began_s = time.monotonic()
        harms = self._harms()
        due_s = {what: self._began_s + every_s for what, (every_s, _) in harms.items()}
        while time.monotonic() < self._began_s + self._seconds and not self._over:
            for what, (every_s, harm) in harms.items():
                # An event that finds no victim stays due.
                if time.monotonic() >= due_s[what] and harm():
                    due_s[what] = time.monotonic() + every_s
            self._thaw()
            self._driver.wait(LOOK_S)
        return ""

    def come_to_an_end(self) -> str:
        """The storm is over: the queries must end now, and right. What went wrong, if anything did."""
        self._thaw(at_once=True)
        self._tell("the storm is over")
        if not self._driver.wait(AFTER_STORM_S):
            return f"the queries did not end within {AFTER_STORM_S:.0f} s after the storm:\n{self._log()}"
        if not (self._folder / "result.json").exists():
            return f"the driver ended with exit code {self._driver.exit_code}:\n{self._log()}"
        orphans = [orphan for driver in self._drivers for orphan in driver.orphans()]
        return f"processes outlived their driver: {', '.join(orphans)}" if orphans else ""

    def missed(self) -> str:
        """A storm that did not blow says nothing: what was due and found no victim at all, if anything."""
        due = [what for what, (every_s, _) in self._harms().items() if every_s < self._seconds]
        none = [what for what in due if not self.counts[what]]
        return f"there were no {', no '.join(none)}: this run says nothing" if none else ""

    def _harms(self) -> dict[str, tuple[float, Callable[[], bool]]]:
        """Everything that happens: how often, in seconds, and who does it; whether it found a victim."""
        weather = self._weather
        return {
            "slot kills": (weather.slot_kill_s, self._kill_slot),
            "driver kills": (weather.driver_kill_s, self._kill_driver),
            "freezes": (weather.freeze_every_s, self._freeze),
        }

    def _kill_slot(self) -> bool:
        status, slots = self._driver.status(), self._driver.slots()
        if self._needs_skew:
            harmful = status.skewed(self._at_last_kill)
            slots = [slot for slot in slots if slot.query in harmful]
        if not slots:
            return False
        victim = self._chance.choice(slots)
        if not send(victim.pid, signal.SIGKILL):
            return False
        self._at_last_kill = status.checkpoints
        self.counts["slot kills"] += 1
        self._tell(f"kill -9 of {victim.name}")
        return True

    def _kill_driver(self) -> bool:
        """Not before it has completed a checkpoint: else a machine on which Spark starts slowly would see no progress at all."""
        if not self._driver.status().progressing:
            return False
        self._tell(f"kill -9 of {self._driver.name}")
        self.counts["driver kills"] += 1
        self._driver.kill()
        self._drivers.append(DriverProcess(self._folder, f"driver-{len(self._drivers) + 1}", self._program))
        return True

    def _freeze(self) -> bool:
        slots = self._driver.slots()
        if not slots or self._frozen is not None:
            return False
        owners = [Victim(self._driver.name, self._driver.pid), *self._driver.jvm()]
        victim = self._chance.choice(slots if self._chance.random() < 0.6 else owners)
        if not send(victim.pid, signal.SIGSTOP):
            return False
        self.counts["freezes"] += 1
        self._tell(f"SIGSTOP of {victim.name} for {self._weather.freeze_s:.0f} s")
        self._frozen = (victim, time.monotonic() + self._weather.freeze_s)
        return True

    def _thaw(self, *, at_once: bool = False) -> None:
        if self._frozen is not None and (at_once or time.monotonic() >= self._frozen[1]):
            send(self._frozen[0].pid, signal.SIGCONT)
            self._frozen = None

    def _tell(self, what: str) -> None:
        at_s = time.monotonic() - self._began_s
        print(f"storm: {at_s:6.1f} s  {what}; checkpoints: {self._driver.status()}", flush=True)

    def _log(self) -> str:
        return (self._folder / "log").read_text(errors="replace")[-3000:]


def verdict(result: dict, counts: Counter[str], harm: str | None) -> int:
    for line in result["problems"]:
        print(f"storm: {line}")
    seen = bool(result["problems"])
    if harm is None:
        usual = ("slot kills", "driver kills", "freezes")
        after = ", ".join(f"{counts[what]} {what}" for what in (*usual, *sorted(counts.keys() - set(usual))))
        right = f"OK: {result['rows']:,} rows equal Spark batch's"
        print(f"{'FAILED: wrong output' if seen else right} after {after}")
        return 1 if seen else 0
    print(f"OK: the damage of '{harm}' is seen" if seen else f"FAILED: '{harm}' did no harm: the harness is blind")
    return 0 if seen else 1


def see_harm_without_the_look(folder: Path) -> int:
    """Driver A has all acknowledgements of a checkpoint and is held before it stores the manifest. B takes over and is held before
    its sweep. A goes on: with the look it sees B's claim and stops; without it, it commits what B is about to compute again."""
    results = {}
    for harm in (None, "look"):
        place = folder / ("without" if harm else "with")
        place.mkdir()
        put_work(place, LOOK_SECONDS, harm, Home(str(place)), gates=True)
        print(f"storm: two drivers, {place.name} the look", flush=True)
        with driver(place, "A") as first:
            await_file(place / "A-holds-manifest", first)
            print(
                "storm: A has all acknowledgements of a checkpoint with output and is held before its manifest",
                flush=True,
            )
            with driver(place, "B") as second:
                await_file(place / "B-holds-sweep", second)
                print("storm: B has taken over and is held before its sweep; A goes on", flush=True)
                (place / "A-may-go-on").touch()
                await_file(place / "A-is-done", first)
                print(f"storm: A has ended: {(place / 'A-is-done').read_text() or 'as if it were alone'}", flush=True)
                (place / "B-may-go-on").touch()
                await_file(place / "result.json", second, AFTER_STORM_S)
        results[harm] = json.loads((place / "result.json").read_text())
    if results[None]["problems"]:
        print(f"FAILED: wrong output though the coordinator looks: {results[None]['problems']}")
        return 1
    print(f"storm: with the look: {results[None]['rows']:,} rows equal Spark batch's")
    return verdict(results["look"], Counter(), "look")


@contextmanager
def driver(folder: Path, name: str) -> Iterator[DriverProcess]:
    process = DriverProcess(folder, name)
    try:
        yield process
    finally:
        process.end_all()


if __name__ == "__main__":
    sys.exit(main())
