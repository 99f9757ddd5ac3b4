"""The exhaustive check of the real ``step`` in small worlds: all rules hold, and each rule is needed."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from tidegate.checkpoint import committing, recovery, remembered, savepoint
from tidegate.checkpoint.events import Afterwards
from tidegate.checkpoint.plan import RULE_SWITCHES, without
from tidegate.testing.model.__main__ import main
from tidegate.testing.model.search import Exhausted, Holds, Violated, check
from tidegate.testing.model.world import Bounds
from tidegate.testing.model.worlds import EMPTY_COPY, LOST_MANIFEST, SMALL, harmful
from tidegate.testing.mutants.planting import Planting

SAVEPOINT = Bounds("a savepoint", starts=1, attempts=1, checkpoints=1, savepoints=1, afterwards=tuple(Afterwards))


@pytest.mark.parametrize("bounds", SMALL, ids=lambda bounds: bounds.name)
def test_no_epoch_is_lost_doubled_or_unreachable_in_any_small_world(bounds: Bounds) -> None:
    """T1, T4, T6, T7, T9, T10, T40, T46, T50 in every interleaving within the bounds."""
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


def test_a_savepoint_exported_before_its_output_is_visible_is_found() -> None:
    """T50, rule 8: whoever starts from it elsewhere would miss rows."""
    with Planting() as plant:
        # Asks the sinks, and serves the order without waiting for them.
        def too_early(original, run, now_ms):
            run, effects = original(run, now_ms)
            orders, export = run.orders.visible(run.attempt, run.base)
            return replace(run, orders=orders), (*export, *effects)

        plant.function(committing.ask_first, too_early)
        verdict = check(SAVEPOINT)
    assert isinstance(verdict, Violated)
    assert "exported before epochs [1] were visible" in verdict.law
    assert isinstance(check(SAVEPOINT), Holds)


def test_without_the_comparison_with_targets_an_older_copy_lets_rows_be_skipped_in_silence() -> None:
    """T74: the attempts of the copy come again, and a target that has newer output takes theirs for what it knows."""
    with Planting() as plant:
        plant.function(remembered.contradiction, lambda original, facts, chosen: None)
        verdict = check(EMPTY_COPY)
    assert isinstance(verdict, Violated)
    assert "skipped in silence" in verdict.law


def test_without_the_comparison_with_targets_a_lost_manifest_doubles_rows() -> None:
    """T73."""
    bounds = replace(LOST_MANIFEST, fall_back=False)
    with Planting() as plant:
        plant.function(remembered.contradiction, lambda original, facts, chosen: None)
        verdict = check(bounds)
    assert isinstance(verdict, Violated)
    assert "doubled" in verdict.law


def test_a_number_that_only_the_target_knows_is_not_given_out_again() -> None:
    """T73: with its manifest the number has gone from the location."""
    with Planting() as plant:
        plant.function(recovery._next, lambda original, facts: original(facts_without_targets(facts)))
        verdict = check(LOST_MANIFEST)
    assert isinstance(verdict, Violated)
    assert "has a number that the sink knows" in verdict.law


def facts_without_targets(facts):
    restored = {attempt: msgspec.structs.replace(one, accepted=()) for attempt, one in facts.restored.items()}
    return replace(facts, published=(), restored=restored)


def test_a_savepoint_with_committables_is_found() -> None:
    """Rule 8: whoever starts from it would publish them a second time."""
    with Planting() as plant:
        plant.function(savepoint.without_committables, lambda original, manifest: manifest)
        verdict = check(SAVEPOINT)
    assert isinstance(verdict, Violated)
    assert "carries committables" in verdict.law


def test_two_pipelines_in_one_store_never_touch_each_other() -> None:
    """Each move changes the files and transactions of its own pipeline only, though one location lies in the other."""
    bounds = Bounds("neighbours", starts=2, attempts=1, checkpoints=1, pipelines=2)
    assert isinstance(check(bounds), Holds)


def test_the_search_is_the_same_every_time() -> None:
    bounds = Bounds("twice", starts=2, attempts=2, checkpoints=1, crashes=1)
    assert check(bounds) == check(bounds)
    assert str(check(harmful(1), without(1))) == str(check(harmful(1), without(1)))


def test_a_world_that_is_too_wide_is_not_called_safe() -> None:
    bounds = Bounds("wide", starts=3, attempts=3, checkpoints=3, crashes=3, lost_answers=3)
    assert isinstance(check(bounds, worlds_max=500), Exhausted)


def test_the_command_prints_how_many_worlds_it_saw_and_shows_the_harm(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--without", "1"]) == 0
    assert "epoch 1 is visible, but the next start restores nothing" in capsys.readouterr().out
    assert main(["--world", "one driver"]) == 0
    assert "no violation in" in capsys.readouterr().out
