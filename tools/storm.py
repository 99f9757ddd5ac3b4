#!/usr/bin/env python3
"""Part of `make chaos`: three minutes of windows and running aggregates on real Spark while everything around them dies or freezes.

Every 8 s a random slot gets kill -9, every 30 s the driver, and now and then a slot or the driver is stopped for 5 s. A driver that died is
started again on the same checkpoint locations. At the end both outputs must equal Spark batch: the windows row by row; of the running
aggregate every row once and the last one of each key.

    python tools/storm.py [--seconds 180] [--seed N]
    python tools/storm.py --harm at-least-once    the same kills in at-least-once mode, with barriers skewed on purpose: rows repeat
    python tools/storm.py --harm alignment        exactly-once mode with the alignment taken out of the slots: rows repeat
    python tools/storm.py --harm look             a coordinator that does not look for its successor: rows repeat

Exit code 0: the output was right, or, with --harm, the harness did see the damage.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

TOOLS = Path(__file__).resolve().parent
QUERY = TOOLS / "storm_query.py"
SLOT_KILL_S, DRIVER_KILL_S, STOP_EVERY_S, STOP_S = 8.0, 30.0, 13.0, 5.0
HARM_SECONDS = 25.0
AFTER_STORM_S = 400.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=180.0)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--harm", choices=("at-least-once", "alignment", "look"))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tidegate-storm-") as name:
        if options.harm == "look":
            return see_harm_without_the_look(Path(name))
        seconds = HARM_SECONDS if options.harm else options.seconds
        storm = Storm(Path(name), seconds, random.Random(options.seed), options.harm)
        print(f"storm: {seconds:.0f} s, replay with --seed {options.seed}", flush=True)
        return storm.run()


class Storm:
    """Kills and freezes by the clock; the driver process is one child, started again whenever it is gone."""

    def __init__(self, folder: Path, seconds: float, chance: random.Random, harm: str | None) -> None:
        self._folder = folder
        self._seconds = seconds
        self._chance = chance
        self._harm = harm
        self._counts = {"slots killed": 0, "drivers killed": 0, "slots stopped": 0, "drivers stopped": 0}
        work = {"seconds": seconds, "harm": harm}
        (folder / "work.json").write_text(json.dumps(work))

    def run(self) -> int:
        child = start(self._folder)
        began_s = time.monotonic()
        due_s = {"slot": began_s + SLOT_KILL_S, "driver": began_s + DRIVER_KILL_S, "stop": began_s + STOP_EVERY_S}
        if self._harm:
            due_s = {"slot": began_s + SLOT_KILL_S}
        try:
            while time.monotonic() < began_s + self._seconds and not self._finished(child):
                moment = min(due_s, key=lambda kind: due_s[kind])
                wait(child, max(0.0, due_s[moment] - time.monotonic()))
                if self._finished(child):
                    break
                if child.poll() is not None:
                    child = start(self._folder)
                match moment:
                    case "slot" if self._kill_slot():
                        due_s["slot"] = time.monotonic() + SLOT_KILL_S
                    case "slot":
                        due_s["slot"] = time.monotonic() + 0.5  # Nobody is there to be killed: recovering.
                    case "driver":
                        child = self._kill_driver(child)
                        due_s["driver"] = time.monotonic() + DRIVER_KILL_S
                    case _:
                        self._stop(child)
                        due_s["stop"] = time.monotonic() + STOP_EVERY_S
            return self._judge(child)
        finally:
            end_family(child)

    def _finished(self, child: subprocess.Popen[bytes]) -> bool:
        return (self._folder / "result.json").exists() or (child.poll() not in (None, -signal.SIGKILL))

    def _pids(self) -> list[int]:
        try:
            pids = json.loads((self._folder / "pids.json").read_text())
        except (OSError, ValueError):
            return []
        return [pid for pid in pids if psutil.pid_exists(pid)]

    def _kill_slot(self) -> bool:
        pids = self._pids()
        if not pids:
            return False
        self._counts["slots killed"] += 1
        send(self._chance.choice(pids), signal.SIGKILL)
        return True

    def _kill_driver(self, child: subprocess.Popen[bytes]) -> subprocess.Popen[bytes]:
        self._counts["drivers killed"] += 1
        print(f"storm: {self._counts}", flush=True)
        child.kill()
        child.wait()
        return start(self._folder)

    def _stop(self, child: subprocess.Popen[bytes]) -> None:
        pids = self._pids()
        victim = child.pid if not pids or self._chance.random() < 0.3 else self._chance.choice(pids)
        self._counts["drivers stopped" if victim == child.pid else "slots stopped"] += 1
        if send(victim, signal.SIGSTOP):
            time.sleep(STOP_S)  # The length of the freeze itself.
            send(victim, signal.SIGCONT)

    def _judge(self, child: subprocess.Popen[bytes]) -> int:
        if child.poll() is not None and not (self._folder / "result.json").exists():
            child = start(self._folder)
        try:
            child.wait(AFTER_STORM_S)
        except subprocess.TimeoutExpired:
            print(f"FAILED: the queries did not end within {AFTER_STORM_S:.0f} s after the storm")
            return 1
        log = (self._folder / "log").read_text()[-3000:]
        if not (self._folder / "result.json").exists():
            print(f"FAILED: the driver ended with exit code {child.returncode}:\n{log}")
            return 1
        problems = json.loads((self._folder / "result.json").read_text())
        print(f"storm: {self._counts}")
        return verdict(problems, self._harm)


def verdict(problems: dict, harm: str | None) -> int:
    for line in problems["problems"]:
        print(f"storm: {line}")
    if harm is None:
        print("FAILED" if problems["problems"] else f"OK: {problems['rows']:,} rows equal Spark batch's")
        return 1 if problems["problems"] else 0
    seen = bool(problems["problems"])
    print(f"OK: the damage of '{harm}' is seen" if seen else f"FAILED: '{harm}' did no harm: the harness is blind")
    return 0 if seen else 1


def see_harm_without_the_look(folder: Path) -> int:
    """Driver A has all acknowledgements of a checkpoint and is held before it stores the manifest. B takes over and is held before
    its sweep. A goes on: with the look it would see B's claim and stop; without it, it commits what B is about to compute again."""
    outcomes = {}
    for harm in (None, "look"):
        place = folder / str(harm)
        place.mkdir()
        (place / "work.json").write_text(json.dumps({"seconds": 12, "harm": harm, "gates": True}))
        first = start(place, "A")
        second = None
        try:
            await_file(place / "A-holds-manifest", first)
            second = start(place, "B")
            await_file(place / "B-holds-sweep", second)
            (place / "A-may-go-on").touch()
            await_file(place / "A-is-done", first)
            (place / "B-may-go-on").touch()
            second.wait(AFTER_STORM_S)
            outcomes[harm] = json.loads((place / "result.json").read_text())
        finally:
            for child in (first, second):
                if child is not None:
                    end_family(child)
    print(
        f"storm: with the look: {outcomes[None]['problems'] or 'right'}; without: {outcomes['look']['problems'] or 'right'}"
    )
    if outcomes[None]["problems"]:
        print("FAILED: wrong output though the coordinator looks")
        return 1
    return verdict(outcomes["look"], "look")


def start(folder: Path, name: str = "driver") -> subprocess.Popen[bytes]:
    environment = {**os.environ, "STORM_FOLDER": str(folder), "STORM_NAME": name}
    # Slots run in other processes: what is planted in the code has to be planted there as well.
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(TOOLS / "harm"), os.environ.get("PYTHONPATH")]))
    environment["STORM_HARM"] = json.loads((folder / "work.json").read_text())["harm"] or ""
    with (folder / "log").open("ab") as log:
        return subprocess.Popen([sys.executable, str(QUERY)], env=environment, stdout=log, stderr=log)


def wait(child: subprocess.Popen[bytes], seconds: float) -> None:
    try:
        child.wait(seconds)
    except subprocess.TimeoutExpired:
        return


def await_file(path: Path, child: subprocess.Popen[bytes], limit_s: float = 120.0) -> None:
    deadline_s = time.monotonic() + limit_s
    while not path.exists():
        if time.monotonic() > deadline_s or (child.poll() is not None and not path.exists()):
            raise SystemExit(f"FAILED: {path.name} did not happen:\n{(path.parent / 'log').read_text()[-2000:]}")
        wait(child, 0.05)


def send(pid: int, what: signal.Signals) -> bool:
    try:
        os.kill(pid, what)
    except ProcessLookupError:
        return False
    return True


def end_family(child: subprocess.Popen[bytes]) -> None:
    if child.poll() is None:
        family = psutil.Process(child.pid).children(recursive=True)
        child.kill()
        child.wait()
        for one in family:
            send(one.pid, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main())
