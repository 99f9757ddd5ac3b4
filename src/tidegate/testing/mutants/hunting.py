"""One mutant before its judge: planted, hunted, withdrawn; then the same judge must find the real code innocent."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

import msgspec

from tidegate.model.errors import Bug
from tidegate.testing.model.search import Violated, check
from tidegate.testing.mutants.mutant import SEEDS_MAX, Mutant, Seeds, Tests, TimedSeeds, Worlds
from tidegate.testing.mutants.planting import Planting
from tidegate.testing.simulation.timed_run import TimedSimulation
from tidegate.testing.simulation.world import Simulation

ROOT = Path(__file__).resolve().parents[4]
"""Of the project."""
MUTANT = "TIDEGATE_MUTANT"
"""Tells a pytest process which mutant to plant."""
WORLDS_MAX = 400_000
"""A mutant may make a world endless; the harm stands near its beginning."""
CPU_MAX_S = 300.0
"""After so much work in simulated worlds the hunt is given up. Not by the clock on the wall: machines are busy."""


class Killed(msgspec.Struct, frozen=True, tag=True):
    """``by``: the world or seed; ``sign``: the first line of the violation."""

    by: str
    effort: str
    sign: str
    seconds: float = 0.0


class Survived(msgspec.Struct, frozen=True, tag=True):
    """Nothing was found, or the judge accuses the real code as well."""

    why: str
    seconds: float = 0.0


Verdict: TypeAlias = Killed | Survived


def hunt(mutant: Mutant, *, withdraw: bool = True) -> Verdict:
    """``withdraw``: also asks the judge about the real code. Tests that run anyway need not be asked twice."""
    began_s = time.monotonic()
    match mutant.judge:
        case Worlds() as judge:
            verdict = _in_worlds(mutant, judge)
        case Seeds() | TimedSeeds() as judge:
            verdict = _in_seeds(mutant, judge)
        case Tests() as judge:
            verdict = _in_tests(mutant, judge, withdraw=withdraw)
    return msgspec.structs.replace(verdict, seconds=time.monotonic() - began_s)


def _in_worlds(mutant: Mutant, judge: Worlds) -> Verdict:
    seen = reached = 0
    for bounds in judge.bounds:
        with Planting() as planting:
            mutant.plant(planting)
            found = check(bounds, worlds_max=WORLDS_MAX)
        reached += planting.reached
        seen += found.worlds
        if isinstance(found, Violated):
            innocent = check(bounds)
            if isinstance(innocent, Violated):
                return Survived(f"the real code is accused as well: {innocent.law}")
            return Killed(
                f"world {bounds.name!r}", f"{len(found.trace)} steps, {seen:,} worlds", found.law.splitlines()[0]
            )
    return Survived(_nothing(f"{seen:,} worlds", reached))


def _in_seeds(mutant: Mutant, judge: Seeds | TimedSeeds) -> Verdict:
    tried = reached = 0
    until_s = time.process_time() + CPU_MAX_S
    for seed in _order(judge):
        if time.process_time() > until_s:
            break
        tried += 1
        with Planting() as planting:
            mutant.plant(planting)
            signs = _signs(seed, judge)
        reached += planting.reached
        if signs:
            accused = _signs(seed, judge)
            if accused:
                return Survived(f"the real code is accused as well in seed {seed}: {accused[0]}")
            where = f"{'event-time ' if isinstance(judge, TimedSeeds) else ''}seed {seed}"
            return Killed(where, f"{tried} seeds", signs[0].splitlines()[0])
    return Survived(_nothing(f"{tried} seeds", reached))


def _in_tests(mutant: Mutant, judge: Tests, *, withdraw: bool) -> Verdict:
    """The mutant is planted in a pytest process of its own."""
    if not all((ROOT / path.partition("::")[0]).exists() for path in judge.paths):
        return Survived(f"{' and '.join(judge.paths)} are not here: they belong to the project, not to the package")
    infected = _pytest(judge, {MUTANT: mutant.name}, "-p", "tidegate.testing.mutants.infected")
    failed = [line for line in infected.stdout.splitlines() if line.startswith("FAILED ")]
    if not failed:
        last = (infected.stdout.strip() or infected.stderr.strip() or "no report").splitlines()[-1]
        return Survived(f"no test fails: {last}")
    if withdraw and _pytest(judge, {}).returncode:
        return Survived("the tests fail without it as well")
    test, _, sign = failed[0].removeprefix("FAILED ").partition(" - ")
    return Killed(test.rpartition("::")[2], judge.paths[0].rpartition("/")[2], sign or "it fails")


def _pytest(judge: Tests, environment: dict[str, str], *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-x", "-rf", "-p", "no:cacheprovider", *options, *judge.paths]
    return subprocess.run(
        command, cwd=ROOT, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )


def _signs(seed: int, judge: Seeds | TimedSeeds) -> tuple[str, ...]:
    """Violations of one run. A ``Bug`` is a sign: the code itself noticed. Any other exception is the mutant's own mistake."""
    simulation = TimedSimulation if isinstance(judge, TimedSeeds) else Simulation
    try:
        return simulation(seed, faults=judge.faults).run().violations
    except Bug as bug:
        return (f"{bug.code}: {bug.message}",)


def _order(judge: Seeds | TimedSeeds) -> Iterator[int]:
    yield from judge.first
    yield from (seed for seed in range(SEEDS_MAX) if seed not in judge.first)


def _nothing(effort: str, reached: int) -> str:
    return f"nothing found in {effort}; planted code ran {reached:,} times"
