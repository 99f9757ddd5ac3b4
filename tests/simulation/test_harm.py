"""The simulator's auditors can see harm: with a rule of publication switched off, the seeds below end in a violation.

The exhaustive check of ``test_model.py`` shows that every rule is needed; these runs show that the simulated world is rough enough to
need them, and that its auditors would not sleep through a mistake in the real code. The same seeds with all rules are clean.
"""

from __future__ import annotations

import pytest

from tidegate.checkpoint.plan import without
from tidegate.testing.simulation.world import Simulation

HARM = [
    (1, (25, 11, 20, 28), ("output differs", "was deleted")),
    (4, (17, 26, 48, 66), ("output differs",)),
    (9, (9, 12, 15, 21), ("was deleted",)),
]
"""Rule, seeds and what an auditor says. One seed is enough; the others are there because a change anywhere in the code moves what
happens in each of them."""


@pytest.mark.parametrize(("rule", "seeds", "harm"), HARM)
def test_without_a_rule_the_simulator_finds_the_harm_it_prevents(
    rule: int, seeds: tuple[int, ...], harm: tuple[str, ...]
) -> None:
    found: list[str] = []
    for seed in (*seeds, *range(100, 160)):
        found.extend(Simulation(seed, rules=without(rule)).run().violations)
        if any(sign in violation for violation in found for sign in harm):
            return
    pytest.fail(f"no harm without rule {rule}: {found}")


@pytest.mark.parametrize("seed", [25, 17, 9])
def test_with_all_rules_the_same_seeds_are_clean(seed: int) -> None:
    assert not Simulation(seed).run().violations
