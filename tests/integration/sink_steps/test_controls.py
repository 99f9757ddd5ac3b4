"""Can the harness fail? A sink that is right passes everything; each mistake in it is found, and so is a coordinator without its look."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.integration.sink_steps.cases import Case, NotHit, Setup, Wrong
from tests.integration.sink_steps.control_sinks import LineTarget, Mistake
from tests.integration.sink_steps.processes import Nursery
from tests.integration.sink_steps.scenarios import SCENARIOS, Profile, lines, profile
from tests.integration.sink_steps.steps import Doom, Step

FOUND_BY = {
    Mistake.APPENDS_AGAIN: "killed before the marker",
    Mistake.VISIBLE_AT_PREPARE: "killed before the manifest",
    Mistake.FORGETS: "killed in the middle of the commits after a checkpoint that failed",
    Mistake.SWEEPS_NEWER: "stopped before the sweep of its own recovery",
    Mistake.NAMES_WITHOUT_ATTEMPT: "stopped before the sweep of its own recovery",
    Mistake.NOT_ATOMIC: "killed in the middle of the commits",
}
BY_WORDS = {scenario.words: scenario for scenario in SCENARIOS}


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    with Nursery() as nursery:
        yield nursery


def cases(nursery: Nursery, root: Path, mistake: Mistake = Mistake.NONE, without_rule: int = 0) -> Callable[[], Case]:
    def case() -> Case:
        folder = root / str(len(list(root.iterdir())))
        (folder / "out").mkdir(parents=True)
        out = folder / "out"
        return Case(Setup(nursery, folder, LineTarget(out, mistake), without_rule))

    return case


def test_a_sink_that_is_right_passes_everything(nursery: Nursery, tmp_path: Path) -> None:
    case = cases(nursery, tmp_path)
    counted = profile(case)
    for scenario in SCENARIOS:
        for trial in scenario.trials(counted):
            trial(case())


@pytest.mark.parametrize("mistake", FOUND_BY, ids=lambda mistake: mistake.value)
def test_a_mistake_is_found(nursery: Nursery, tmp_path: Path, mistake: Mistake) -> None:
    case = cases(nursery, tmp_path, mistake)
    assert any(is_wrong(case(), trial) for trial in BY_WORDS[FOUND_BY[mistake]].trials(counted(mistake, case)))


def counted(mistake: Mistake, case: Callable[[], Case]) -> Profile:
    """Of the mistaken sink itself where the commit is what is mistaken; a sink that fails when nobody harms it has no other."""
    commits = lines(case().unharmed(), Step.IN_COMMITS, 2) if mistake is Mistake.NOT_ATOMIC else 30
    return Profile(prepare=15, commits=commits, commits_after_failure=30, commits_again=30, sweep=4)


def is_wrong(case: Case, trial: Callable[[Case], object]) -> bool:
    try:
        trial(case)
    except Wrong:
        return True
    return False


def test_every_mistake_has_its_control() -> None:
    assert set(FOUND_BY) == set(Mistake) - {Mistake.NONE}


def test_a_coordinator_that_does_not_look_is_found(nursery: Nursery, tmp_path: Path) -> None:
    """The zombie's manifest is late: without the look it goes on and commits what its successor is about to compute again."""
    cases(nursery, tmp_path)().overtaken()
    with pytest.raises(Wrong, match=r"[1-9]\d* are repeated"):
        cases(nursery, tmp_path, without_rule=1)().overtaken(ends="Finished")


def test_a_step_that_never_comes_fails_the_case(nursery: Nursery, tmp_path: Path) -> None:
    with pytest.raises(NotHit):
        cases(nursery, tmp_path)().killed(Doom(Step.BEFORE_MANIFEST, checkpoint=99))
    with pytest.raises(NotHit):
        cases(nursery, tmp_path)().killed(Doom(Step.IN_COMMITS, line=100_000))
