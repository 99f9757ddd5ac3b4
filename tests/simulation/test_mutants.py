"""Bugs planted on purpose are found: a judge that overlooks one would overlook it in the real code, too."""

from __future__ import annotations

import pytest

from tidegate.checkpoint import lifecycle
from tidegate.testing.model import reactions
from tidegate.testing.model.world import Bounds
from tidegate.testing.mutants.catalogue import BY_NAME, MUTANTS, QUICK, TESTED, TIMED
from tidegate.testing.mutants.hunting import Killed, Survived, hunt
from tidegate.testing.mutants.mutant import Mutant, worlds
from tidegate.testing.mutants.planting import Planting
from tidegate.testing.mutants.runner import run

TINY = Bounds("tiny", starts=1, attempts=1, checkpoints=1)


def test_the_quickest_mutants_are_killed() -> None:
    """`make mutants` hunts all of them."""
    survivors = [f"{mutant.name}: {verdict.why}" for mutant, verdict in run(QUICK) if isinstance(verdict, Survived)]
    assert not survivors


def test_every_bug_in_event_time_and_in_the_order_of_output_is_found() -> None:
    """T26 T27 T69 T70 T71 T72 T75 T85 T86: by the worlds that know which rows may be late, and by the auditor of order."""
    found = {mutant.name: hunt(mutant) for mutant in TIMED}
    assert not {name: verdict.why for name, verdict in found.items() if isinstance(verdict, Survived)}
    assert len(found) >= 20


@pytest.mark.timeout(1200)
def test_every_bug_in_stored_state_and_in_the_shell_fails_a_test_of_its_place() -> None:
    """T3 T11 T23 T26 T35 T39 T54 T64 T77 T80: each in a pytest process of its own. That the tests pass without it, this run shows."""
    found = {mutant.name: hunt(mutant, withdraw=False) for mutant in TESTED}
    assert not {name: verdict.why for name, verdict in found.items() if isinstance(verdict, Survived)}
    assert len(found) >= 18


def test_there_are_at_least_forty_mutants_each_with_a_name_and_a_harm_of_its_own() -> None:
    assert len(MUTANTS) >= 40
    assert len(BY_NAME) == len(MUTANTS)
    assert len({mutant.harm for mutant in MUTANTS}) == len(MUTANTS)
    assert all(mutant.against and mutant.harm.endswith(".") for mutant in MUTANTS)


def test_a_mutant_that_changes_nothing_survives() -> None:
    """The judges accuse nobody without reason."""
    harmless = Mutant("harmless", "nothing", "None.", worlds(TINY), lambda plant: None)
    verdict = hunt(harmless)
    assert isinstance(verdict, Survived)
    assert "planted code ran 0 times" in verdict.why


def test_a_mutant_that_crashes_is_not_taken_for_a_dead_one() -> None:
    """A wrong function with the wrong arguments proves nothing about the judges."""

    def plant(planting: Planting) -> None:
        planting.function(lifecycle.step, lambda original: original)

    with pytest.raises(TypeError):
        hunt(Mutant("clumsy", "nothing", "None.", worlds(TINY), plant))


def test_planting_reaches_every_importer_and_leaves_no_trace() -> None:
    real = lifecycle.step
    with Planting() as planting:
        planting.function(lifecycle.step, lambda original, *args: original(*args))
        assert reactions.step is lifecycle.step is not real
    assert reactions.step is lifecycle.step is real
    with pytest.raises(LookupError), Planting() as planting:
        planting.function(lambda: None, lambda original: None)


def test_a_killed_mutant_names_its_killer() -> None:
    verdict = hunt(BY_NAME["commit-before-the-look"])
    assert isinstance(verdict, Killed)
    assert verdict.by.startswith("world")
    assert "doubled" in verdict.sign
