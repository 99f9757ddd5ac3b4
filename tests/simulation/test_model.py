"""The exhaustive check of the real ``step`` in small worlds: all rules hold, and each rule is needed."""

from __future__ import annotations

import pytest

from tidegate.checkpoint.plan import RULE_SWITCHES, without
from tidegate.testing.model.__main__ import main
from tidegate.testing.model.search import Exhausted, Holds, Violated, check
from tidegate.testing.model.world import Bounds
from tidegate.testing.model.worlds import SMALL, harmful


@pytest.mark.parametrize("bounds", SMALL, ids=lambda bounds: bounds.name)
def test_no_epoch_is_lost_doubled_or_unreachable_in_any_small_world(bounds: Bounds) -> None:
    """T1, T4, T6, T9, T10, T40 in every interleaving within the bounds."""
    verdict = check(bounds)
    assert isinstance(verdict, Holds), str(verdict)
    assert verdict.worlds > 100


@pytest.mark.parametrize("rule", RULE_SWITCHES)
def test_each_rule_removed_does_harm_and_with_it_the_same_world_is_safe(rule: int) -> None:
    bounds = harmful(rule)
    verdict = check(bounds, without(rule))
    assert isinstance(verdict, Violated), f"rule {rule} is not needed in {bounds}"
    assert verdict.trace
    assert isinstance(check(bounds), Holds)


@pytest.mark.parametrize(
    ("rule", "harm"),
    [
        (1, "doubled"),
        (2, "lost"),
        (3, "doubled"),
        (4, "lost"),
        (5, "lost"),
        (6, "doubled"),
        (7, "fenced"),
        (8, "doubled"),
        (9, "missing"),
    ],
)
def test_the_harm_is_the_one_the_rule_speaks_of(rule: int, harm: str) -> None:
    verdict = check(harmful(rule), without(rule))
    assert isinstance(verdict, Violated)
    assert harm in verdict.law


def test_the_search_is_the_same_every_time() -> None:
    bounds = Bounds("twice", starts=2, attempts=2, checkpoints=1, crashes=1)
    assert check(bounds) == check(bounds)
    assert str(check(harmful(1), without(1))) == str(check(harmful(1), without(1)))


def test_a_world_that_is_too_wide_is_not_called_safe() -> None:
    bounds = Bounds("wide", starts=3, attempts=3, checkpoints=3, crashes=3, lost_answers=3)
    assert isinstance(check(bounds, worlds_max=500), Exhausted)


def test_the_command_prints_how_many_worlds_it_saw_and_shows_the_harm(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--without", "3"]) == 0
    assert "epoch 1 is visible, but the next start restores nothing" in capsys.readouterr().out
