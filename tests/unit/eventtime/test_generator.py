"""Watermarks of a source with several splits."""

from __future__ import annotations

from tidegate.eventtime.generator import GeneratorState, SplitWatermarks
from tidegate.model.elements import NO_ORIGIN

DELAY = 10


def splits(*numbers: int) -> frozenset[int]:
    return frozenset(numbers)


def test_the_slowest_open_split_decides() -> None:
    generator = SplitWatermarks(DELAY)
    generator.on_status(splits(1, 2), holding=False)
    assert generator.observe(1, 100) is None
    assert generator.observe(2, 60) == 50
    assert generator.observe(1, 500) is None


def test_a_split_that_opens_later_does_not_turn_it_back() -> None:
    generator = SplitWatermarks(DELAY)
    generator.on_status(splits(1), holding=False)
    assert generator.observe(1, 100) == 90
    generator.on_status(splits(1, 2), holding=False)
    assert generator.observe(2, 20) is None
    assert generator.emitted_us == 90


def test_a_closed_split_holds_nothing_back() -> None:
    generator = SplitWatermarks(DELAY)
    generator.on_status(splits(1, 2), holding=False)
    generator.observe(1, 100)
    generator.observe(2, 60)
    assert generator.on_status(splits(1), holding=False) == 90


def test_with_nothing_open_everything_read_counts() -> None:
    generator = SplitWatermarks(DELAY)
    generator.on_status(splits(1), holding=False)
    generator.observe(1, 100)
    generator.on_status(splits(1, 2), holding=False)
    generator.on_status(splits(2), holding=False)
    generator.observe(2, 300)
    assert generator.emitted_us == 290
    assert generator.on_status(splits(), holding=False) is None


def test_nothing_advances_while_known_data_is_unread() -> None:
    generator = SplitWatermarks(DELAY)
    generator.on_status(splits(1), holding=True)
    assert generator.observe(1, 100) is None
    assert generator.on_status(splits(1), holding=False) == 90


def test_behind_an_exchange_all_rows_are_one_split() -> None:
    generator = SplitWatermarks(DELAY)
    assert generator.observe(NO_ORIGIN, 100) == 90


def test_a_restored_split_goes_on_where_it_was_wherever_it_is_assigned() -> None:
    """T26"""
    states = (GeneratorState(splits={1: 100}), GeneratorState(splits={2: 60}))
    generator = SplitWatermarks(DELAY, states)
    assert generator.on_status(splits(2), holding=False) == 50


def test_what_was_closed_before_a_restore_proves_nothing_while_splits_were_open() -> None:
    """T27: a subtask that has no split yet must not run ahead of one that is about to be assigned."""
    generator = SplitWatermarks(DELAY, (GeneratorState(splits={1: 100}, closed_us=900),))
    assert generator.on_status(splits(), holding=False) is None
    generator = SplitWatermarks(DELAY, (GeneratorState(closed_us=900),))
    assert generator.on_status(splits(), holding=False) == 890
