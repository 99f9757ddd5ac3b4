"""A case: processes of one pipeline, each struck at a step, until one comes to the end. Then every row must be visible once."""

from __future__ import annotations

import itertools
import signal
import time
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from tests.integration.sink_steps.pipeline import ALL_ROWS, SinkFormats, Work
from tests.integration.sink_steps.processes import Nursery, Status
from tests.integration.sink_steps.steps import ANY, Doom, Entry, Step, read_diary

from tidegate.plan.relational import Sink

STRUCK, LATER = 2, 3
"""The checkpoint at which a process is struck, and the one after it: there was output before, and there is more to come."""
LIMIT_S = 240.0
"""For one process from its start to its end or its stop, on a machine that is busy with something else."""

VISIBLE_LIMIT_S, LOOK_S = 15.0, 0.05


class Target(Protocol):
    """Where the rows of one case go."""

    @property
    def formats(self) -> SinkFormats: ...

    def sink(self) -> Sink:
        """The node that writes there; made once per case."""
        ...

    def visible(self) -> list[int]:
        """Ids of the rows that a reader sees now, as often as it sees them."""
        ...

    def leftovers(self) -> list[str]:
        """Names of what was prepared and is neither visible nor thrown away."""
        ...


@dataclass(frozen=True)
class Setup:
    """What is tried: a sink, and the processes to try it with."""

    nursery: Nursery
    folder: Path
    target: Target
    without_rule: int = 0


@dataclass
class Run:
    """One process of a case."""

    work: Work
    pid: int
    status: Status | None = None

    def diary(self) -> list[Entry]:
        return read_diary(self.work.diary)

    def entries(self, what: str) -> list[Entry]:
        return [entry for entry in self.diary() if entry.what == what]

    def log(self) -> str:
        path = self.work.diary.with_suffix(".log")
        return path.read_text(errors="replace")[-3_000:] if path.exists() else ""


class NotHit(AssertionError):
    """The case did not come to pass: it says nothing about the sink."""


class Wrong(AssertionError):
    """A row is missing, repeated, visible too early, or something was left behind; or a process did not end as it must."""


class Case:
    """One pipeline from its first start to its end."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._numbers = itertools.count(1)
        self._sink = setup.target.sink()

    # --- the three kinds --------------------------------------------------------------------------------------------------

    def unharmed(self, *, failing: int = 0) -> Run:
        run = self._finish(2, failing)
        self._expect_all_rows()
        self._expect_nothing_left()
        return run

    def killed(self, *dooms: Doom, parallelisms: tuple[int, ...] = (), failing: int = 0) -> Run:
        """Each process dies at its step, the one after the last comes to the end; returns that one.

        ``failing``: a checkpoint of the first process that fails, so that the next one carries its output.
        """
        widths = itertools.chain(parallelisms, itertools.repeat(parallelisms[-1] if parallelisms else 2))
        for doom in dooms:
            self.struck(doom, next(widths), failing)
            failing = 0
        last = self._finish(next(widths))
        self._expect_all_rows()
        self._expect_nothing_left()
        return last

    def zombie(self, doom: Doom) -> None:
        """Stopped at its step; its successor comes to the end; then it goes on, as late as one likes, and has to give up."""
        zombie = self._stop(doom)
        self._finish(2)
        self._expect_all_rows()
        self._wake(zombie)
        self._expect_all_rows()
        # What it prepared late is nobody's. The next start throws it away.
        self._finish(2)
        self._expect_all_rows()
        self._expect_nothing_left()

    def swept_late(self) -> None:
        """A recovering process is stopped before its sweep; its successor has prepared output when the sweep comes."""
        self.struck(Doom(Step.BEFORE_MANIFEST))
        zombie = self._stop(Doom(Step.BEFORE_SWEEP, checkpoint=ANY))
        successor = self._stop(Doom(Step.BEFORE_MANIFEST, checkpoint=LATER))
        self._wake(zombie)
        self._wake(successor, "Finished")
        self._expect_all_rows()
        self._expect_nothing_left()

    def overtaken(self, ends: str = "Fenced") -> None:
        """Stopped before its manifest, and goes on while its successor, who has not seen that manifest, is about to sweep."""
        zombie = self._stop(Doom(Step.BEFORE_MANIFEST))
        successor = self._stop(Doom(Step.BEFORE_SWEEP, checkpoint=ANY))
        self._wake(zombie, ends)
        self._wake(successor, "Finished")
        self._expect_all_rows()

    def struck(self, doom: Doom, parallelism: int = 2, failing: int = 0) -> Run:
        """Killed at its step, and nothing of it is visible that must not be."""
        run = self._strike(doom, parallelism, failing)
        if run.status != Status(signal=signal.SIGKILL):
            raise Wrong(f"{doom} killed it, yet it ended with {run.status}")
        self._expect_nothing_early(run, doom)
        return run

    # --- processes --------------------------------------------------------------------------------------------------------

    def _start(self, parallelism: int, doom: Doom | None, failing: int = 0) -> Run:
        setup = self._setup
        work = Work(
            name=f"process-{next(self._numbers)}",
            folder=str(setup.folder),
            sink=self._sink,
            connectors=setup.target.formats,
            parallelism=parallelism,
            doom=doom,
            failing=failing,
            without_rule=setup.without_rule,
        )
        run = Run(work, setup.nursery.start(work, work.diary.with_suffix(".log")))
        run.status = setup.nursery.wait(run.pid, LIMIT_S)
        if run.status is None:
            setup.nursery.kill(run.pid)
            setup.nursery.wait(run.pid, LIMIT_S)
            raise Wrong(f"{work.name} came to no end within {LIMIT_S:.0f} s: {run.diary()[-3:]}\n{run.log()}")
        return run

    def _strike(self, doom: Doom, parallelism: int, failing: int = 0) -> Run:
        run = self._start(parallelism, doom, failing)
        struck = [entry for entry in run.entries("struck") if entry.details["step"] == doom.step.name]
        if len(struck) != 1:
            raise NotHit(f"{doom} never came: {run.status}, {run.diary()[-3:]}\n{run.log()}")
        return run

    def _stop(self, doom: Doom) -> Run:
        run = self._strike(replace(doom, strike=signal.SIGSTOP), 2)
        if run.status != Status(stopped=True):
            raise Wrong(f"{doom} stopped it, yet it stands at {run.status}")
        return run

    def _wake(self, run: Run, outcome: str = "Fenced") -> None:
        """It goes on and comes to its end."""
        nursery = self._setup.nursery
        nursery.resume(run.pid)
        run.status = nursery.wait(run.pid, LIMIT_S)
        if run.status is None:
            nursery.kill(run.pid)
            nursery.wait(run.pid, LIMIT_S)
        ended = [entry.details["outcome"] for entry in run.entries("ended")]
        if run.status != Status(exit_code=0) or ended != [outcome]:
            raise Wrong(f"woken, {run.work.name} ended as {ended} with {run.status}, not as {outcome}\n{run.log()}")

    def _finish(self, parallelism: int, failing: int = 0) -> Run:
        run = self._start(parallelism, None, failing)
        outcome = [entry.details["outcome"] for entry in run.entries("ended")]
        if run.status != Status(exit_code=0) or outcome != ["Finished"]:
            raise Wrong(f"{run.work.name} ended as {outcome} with {run.status}: {run.diary()[-3:]}\n{run.log()}")
        troubles = [entry for entry in run.diary() if entry.what.endswith("failed")]
        if troubles:
            raise Wrong(f"{run.work.name} had trouble that nobody made: {troubles}")
        return run

    # --- what must hold ---------------------------------------------------------------------------------------------------

    def _visible(self, wanted: int) -> list[int]:
        """What is committed may show a moment later: looks again while there is less than wanted."""
        deadline_s = time.monotonic() + VISIBLE_LIMIT_S
        while len(rows := self._setup.target.visible()) < wanted and time.monotonic() < deadline_s:
            time.sleep(LOOK_S)
        return rows

    def _expect_all_rows(self) -> None:
        seen, wanted = Counter(self._visible(len(ALL_ROWS))), Counter(ALL_ROWS)
        if seen != wanted:
            missing, surplus = sorted((wanted - seen).elements()), sorted((seen - wanted).elements())
            raise Wrong(f"{len(missing)} rows are missing: {missing[:8]}; {len(surplus)} are repeated: {surplus[:8]}")

    def _expect_nothing_early(self, run: Run, doom: Doom) -> None:
        """Up to the commits of a checkpoint nothing of it is visible, and all of those before it is."""
        if list(Step).index(doom.step) > list(Step).index(Step.BEFORE_COMMITS) or doom.checkpoint == ANY:
            return  # From here on some of it may be.
        done = {entry.number("checkpoint") for entry in run.entries("committed")}
        earlier = [entry for entry in run.entries("prepared") if entry.number("checkpoint") <= max(done, default=0)]
        committed = sum(entry.number("rows") for entry in earlier)
        seen = len(self._visible(committed))
        if seen != committed:
            raise Wrong(f"{committed} rows are committed at {doom}, and {seen} are visible")

    def _expect_nothing_left(self) -> None:
        left = self._setup.target.leftovers()
        if left:
            raise Wrong(f"prepared, not visible and not thrown away: {left[:5]}")
