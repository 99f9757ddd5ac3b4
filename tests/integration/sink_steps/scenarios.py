"""Everything that is done to a sink, row by row of the table in the documentation."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

from tests.integration.sink_steps.cases import LATER, STRUCK, Case, Run
from tests.integration.sink_steps.steps import ANY, Doom, Step

Trial: TypeAlias = Callable[[Case], object]


@dataclass(frozen=True)
class Profile:
    """How many lines of a connector run inside a step, as counted in processes that nobody struck there."""

    prepare: int
    commits: int
    commits_after_failure: int
    """Of a checkpoint that carries the output of one that failed."""
    commits_again: int
    """In the recovery of a process that died before its commits."""
    sweep: int
    """The same after one that died before its manifest: there is something to sweep."""


def profile(case: Callable[[], Case]) -> Profile:
    """Four runs, each of them a case of its own."""
    plain = case().unharmed()
    return Profile(
        prepare=lines(plain, Step.IN_PREPARE, STRUCK),
        commits=lines(plain, Step.IN_COMMITS, STRUCK),
        commits_after_failure=lines(case().unharmed(failing=STRUCK), Step.IN_COMMITS, LATER),
        commits_again=lines(case().killed(Doom(Step.BEFORE_COMMITS)), Step.IN_COMMITS, STRUCK),
        sweep=lines(case().killed(Doom(Step.BEFORE_MANIFEST)), Step.IN_SWEEP, ANY),
    )


def lines(run: Run, step: Step, checkpoint: int) -> int:
    counts = [
        entry.number("lines")
        for entry in run.entries("lines")
        if entry.details["step"] == step.name and checkpoint in (ANY, entry.number("checkpoint"))
    ]
    assert counts and counts[0] > 0, f"no line of a connector ran {step.value}: {counts}"
    return min(counts) if step is Step.IN_PREPARE else counts[0]


def places(lines: int, count: int) -> list[int]:
    """``count`` lines spread over so many."""
    return sorted({max(1, int(lines * (part + 0.5) / count)) for part in range(count)})


@dataclass(frozen=True)
class Scenario:
    """One row of the table. Every trial is a case of its own."""

    title: str
    trials: Callable[[Profile], Iterable[Trial]]
    zombie: bool = False

    @property
    def words(self) -> str:
        return f"{'stopped' if self.zombie else 'killed'} {self.title}"


def killed(step: Step) -> Scenario:
    return Scenario(step.value, lambda _: [lambda case: case.killed(Doom(step, checkpoint=STRUCK))])


def zombie(step: Step) -> Scenario:
    doom = Doom(step, signal.SIGSTOP, STRUCK)
    return Scenario(step.value, lambda _: [lambda case: case.zombie(doom)], zombie=True)


def in_the_middle(step: Step, lines: Callable[[Profile], int], count: int) -> Scenario:
    def trials(profile: Profile) -> list[Trial]:
        dooms = [Doom(step, checkpoint=STRUCK, line=line) for line in places(lines(profile), count)]
        return [lambda case, doom=doom: case.killed(doom) for doom in dooms]

    return Scenario(step.value, trials)


def in_commits_twice(profile: Profile) -> list[Trial]:
    first = Doom(Step.IN_COMMITS, checkpoint=STRUCK, line=places(profile.commits, 1)[0])
    again = Doom(Step.IN_COMMITS, checkpoint=STRUCK, line=places(profile.commits_again, 1)[0])
    return [lambda case: case.killed(first, again)]


def in_commits_after_failure(count: int) -> Scenario:
    def trials(profile: Profile) -> list[Trial]:
        lines = places(profile.commits_after_failure, count)
        dooms = [Doom(Step.IN_COMMITS, checkpoint=LATER, line=line) for line in lines]
        return [lambda case, doom=doom: case.killed(doom, failing=STRUCK) for doom in dooms]

    return Scenario("in the middle of the commits after a checkpoint that failed", trials)


def in_sweep(count: int) -> Scenario:
    def trials(profile: Profile) -> list[Trial]:
        dooms = [Doom(Step.IN_SWEEP, checkpoint=ANY, line=line) for line in places(profile.sweep, count)]
        return [lambda case, doom=doom: case.killed(Doom(Step.BEFORE_MANIFEST), doom) for doom in dooms]

    return Scenario("before the manifest, and again in the middle of the sweep", trials)


def zombie_in_commits(count: int) -> Scenario:
    def trials(profile: Profile) -> list[Trial]:
        dooms = [Doom(Step.IN_COMMITS, signal.SIGSTOP, STRUCK, line) for line in places(profile.commits, count)]
        return [lambda case, doom=doom: case.zombie(doom) for doom in dooms]

    return Scenario(Step.IN_COMMITS.value, trials, zombie=True)


def rescaled(first: int, then: int) -> Scenario:
    return Scenario(
        f"after the manifest, goes on with {then} instead of {first} slots",
        lambda _: [lambda case: case.killed(Doom(Step.AFTER_MANIFEST), parallelisms=(first, then))],
    )


SCENARIOS = (
    Scenario(
        "before the first checkpoint",
        lambda _: [lambda case: case.killed(Doom(Step.BEFORE_PREPARE, checkpoint=1), parallelisms=(3, 1))],
    ),
    killed(Step.BEFORE_PREPARE),
    in_the_middle(Step.IN_PREPARE, lambda profile: profile.prepare, 1),
    killed(Step.AFTER_PREPARE),
    killed(Step.BEFORE_MANIFEST),
    killed(Step.AFTER_MANIFEST),
    killed(Step.BEFORE_LOOK),
    killed(Step.BEFORE_COMMITS),
    in_the_middle(Step.IN_COMMITS, lambda profile: profile.commits, 3),
    Scenario("in the middle of the commits, and again while it repeats them", in_commits_twice),
    in_commits_after_failure(1),
    killed(Step.BEFORE_MARKER),
    killed(Step.AFTER_MARKER),
    in_sweep(1),
    rescaled(3, 1),
    zombie(Step.BEFORE_PREPARE),
    zombie(Step.BEFORE_MANIFEST),
    zombie(Step.BEFORE_COMMITS),
    zombie_in_commits(3),
    Scenario("before the sweep of its own recovery", lambda _: [lambda case: case.swept_late()], zombie=True),
)
"""The rows of the table."""

THOROUGH = (
    in_the_middle(Step.IN_PREPARE, lambda profile: profile.prepare, 12),
    in_the_middle(Step.IN_COMMITS, lambda profile: profile.commits, 40),
    in_commits_after_failure(20),
    in_sweep(12),
    zombie_in_commits(25),
    rescaled(1, 3),
    zombie(Step.AFTER_PREPARE),
    zombie(Step.BEFORE_LOOK),
    zombie(Step.BEFORE_MARKER),
)
"""More places, and steps that differ little from their neighbours."""
