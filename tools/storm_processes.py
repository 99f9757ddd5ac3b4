"""The processes of ``tools/storm.py``: one driver with its JVM and slots, how to see them, harm them, and end them all."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

TOOLS = Path(__file__).resolve().parent
ORPHAN_LIMIT_S = 20.0
SKEW_MIN_MS = 400
COULD_NOT_START = 75
"""Exit code of a driver whose queries need somebody who does not answer (EX_TEMPFAIL)."""


@dataclass(frozen=True)
class Status:
    """What a driver last said of itself: per query its phase, attempt, newest checkpoint, and the pids of its slots."""

    queries: dict[str, dict]

    @property
    def running(self) -> bool:
        """All its queries have slots at work."""
        return bool(self.queries) and all(query["phase"] == "running" for query in self.queries.values())

    @property
    def ended(self) -> bool:
        """All its queries have come to their end."""
        return bool(self.queries) and all(query["phase"] == "ended" for query in self.queries.values())

    @property
    def events(self) -> int:
        """How many events of the input the watermark has passed, where a query has one."""
        return max((query["events"] for query in self.queries.values()), default=0)

    @property
    def checkpoints(self) -> dict[str, int]:
        return {name: query["checkpoint"] for name, query in self.queries.items()}

    @property
    def progressing(self) -> bool:
        """This driver has completed a checkpoint of every query that has not ended."""
        return bool(self.queries) and all(
            query["completed"] > 0 for query in self.queries.values() if query["phase"] != "ended"
        )

    def skewed(self, after: dict[str, int]) -> set[str]:
        """Queries whose newest checkpoint is newer than ``after`` says and had barriers far apart."""
        return {
            name
            for name, query in self.queries.items()
            if query["checkpoint"] > after.get(name, 0) and query["skew_ms"] >= SKEW_MIN_MS
        }

    def __str__(self) -> str:
        told = (f"{name} {query['checkpoint']} ({query['phase']})" for name, query in self.queries.items())
        return ", ".join(told) or "none since the driver was started"


@dataclass(frozen=True)
class Victim:
    name: str
    pid: int
    query: str = ""


class DriverProcess:
    """One driver. Its log is ``folder/log``; several drivers of a folder append to the same one."""

    def __init__(self, folder: Path, name: str, program: str = "storm_query.py") -> None:
        self.name = name
        self._folder = folder
        work = json.loads((folder / "work.json").read_text())
        environment = {
            **os.environ,
            "STORM_FOLDER": str(folder),
            "STORM_NAME": name,
            "STORM_HARM": work.get("harm") or "",
        }
        # Slots run in other processes: what is planted in the code has to be planted there as well.
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(TOOLS / "harm"), os.environ.get("PYTHONPATH")]))
        command = [sys.executable, str(TOOLS / program)]
        with (folder / "log").open("ab") as log:
            # A session of its own: Ctrl-C is for the harness, which then ends everybody in order.
            self._process = subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)
        self._family: dict[int, psutil.Process] = {}

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        return self._process.poll()

    @property
    def could_not_start(self) -> bool:
        return self.exit_code == COULD_NOT_START

    def wait(self, seconds: float) -> bool:
        """Whether it has ended within ``seconds``."""
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def status(self) -> Status:
        try:
            return Status(json.loads((self._folder / f"status.{self.name}").read_text()))
        except FileNotFoundError:
            return Status({})

    def slots(self) -> list[Victim]:
        """Slots that are alive now and descend from this very driver: the file may be older than their death."""
        family = self.family()
        return [
            Victim(f"slot {slot} of {name}", pid, name)
            for name, query in self.status().queries.items()
            for slot, pid in sorted(query["pids"].items())
            if pid in family
        ]

    def jvm(self) -> Iterator[Victim]:
        for one in self.family().values():
            if one.name() == "java":
                yield Victim("the driver's JVM", one.pid)

    def family(self) -> dict[int, psutil.Process]:
        """Everybody below the driver, itself included, by pid; remembered, so that orphans can be told later."""
        everybody: list[psutil.Process] = []
        if self._process.poll() is None:  # A pid that was waited for may be somebody else's by now.
            root = psutil.Process(self.pid)
            everybody = [root, *root.children(recursive=True)]
        self._family |= {one.pid: one for one in everybody}
        return {pid: one for pid, one in self._family.items() if lives(one)}

    def kill(self) -> None:
        """kill -9 of the driver alone: what it leaves behind has to end by itself."""
        self.family()
        self._process.kill()
        self._process.wait()

    def orphans(self) -> list[str]:
        """After its end: who still lives ``ORPHAN_LIMIT_S`` later."""
        _, alive = psutil.wait_procs(self.family().values(), timeout=ORPHAN_LIMIT_S)
        return [f"{one.pid} {one.name()}" for one in alive if lives(one)]

    def end_all(self) -> None:
        """Driver, JVM, slots: at once."""
        family = self.family()
        for one in family.values():
            try:
                one.kill()
            except psutil.NoSuchProcess:
                continue
        self._process.wait()
        psutil.wait_procs(family.values(), timeout=ORPHAN_LIMIT_S)


def lives(process: psutil.Process) -> bool:
    """A dead process that nobody has buried yet does not."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def send(pid: int, what: signal.Signals) -> bool:
    """Whether somebody was there to get it."""
    try:
        os.kill(pid, what)
    except ProcessLookupError:
        return False
    return True


def await_file(path: Path, driver: DriverProcess, limit_s: float = 400.0) -> None:
    """Ends the program when ``driver`` is gone before the file is there."""
    deadline_s = time.monotonic() + limit_s
    while not path.exists():
        gone = driver.wait(0.05)
        if not path.exists() and (gone or time.monotonic() > deadline_s):
            raise SystemExit(f"FAILED: {path.name} did not happen:\n{(path.parent / 'log').read_text()[-3000:]}")
