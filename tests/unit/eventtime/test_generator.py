"""Watermarks of a source with several splits."""

from __future__ import annotations

from tidegate.eventtime.delay import watermark_at
from tidegate.eventtime.generator import GeneratorState, SplitWatermarks
from tidegate.model.elements import NO_ORIGIN, WATERMARK_MAX_US, WATERMARK_MIN_US, SourceStatus

DELAY = 10_000


def logs(*numbers: int, holding: bool = False, granted_us: int = WATERMARK_MIN_US) -> SourceStatus:
    return SourceStatus(frozenset(numbers), holding, granted_us)


def whole(granted_us: int, *reached: tuple[int, int]) -> SourceStatus:
    return SourceStatus(frozenset(), holding=False, granted_us=granted_us, whole=True, reached=reached)


def test_the_slowest_open_split_decides() -> None:
    generator = SplitWatermarks(DELAY)
    generator.on_status(logs(1, 2))
    assert generator.observe(1, 100_000) is None
    assert generator.observe(2, 60_000) == 50_000
    assert generator.observe(1, 500_000) is None


def test_a_split_that_opens_later_does_not_turn_it_back() -> None:
    generator = SplitWatermarks(DELAY)
    generator.on_status(logs(1))
    assert generator.observe(1, 100_000) == 90_000
    generator.on_status(logs(1, 2))
    assert generator.observe(2, 20_000) is None
    assert generator.emitted_us == 90_000


def test_a_closed_split_holds_nothing_back() -> None:
    generator = SplitWatermarks(DELAY)
    generator.on_status(logs(1, 2))
    generator.observe(1, 100_000)
    generator.observe(2, 60_000)
    assert generator.on_status(logs(1)) == 90_000


def test_with_nothing_open_everything_read_counts() -> None:
    generator = SplitWatermarks(DELAY)
    generator.on_status(logs(1))
    generator.observe(1, 100_000)
    generator.on_status(logs(1, 2))
    generator.on_status(logs(2))
    generator.observe(2, 300_000)
    assert generator.emitted_us == 290_000
    assert generator.on_status(logs(holding=False)) is None


def test_nothing_advances_while_known_data_is_unread() -> None:
    generator = SplitWatermarks(DELAY)
    generator.on_status(logs(1, holding=True))
    assert generator.observe(1, 100_000) is None
    assert generator.on_status(logs(1)) == 90_000


def test_behind_an_exchange_all_rows_are_one_split() -> None:
    generator = SplitWatermarks(DELAY)
    assert generator.observe(NO_ORIGIN, 100_000) == 90_000


def test_a_restored_split_goes_on_where_it_was_wherever_it_is_assigned() -> None:
    """T26"""
    states = (GeneratorState(splits={1: 100_000}), GeneratorState(splits={2: 60_000}))
    generator = SplitWatermarks(DELAY, states)
    assert generator.on_status(logs(2)) == 50_000


def test_what_was_closed_before_a_restore_proves_nothing_while_splits_were_open() -> None:
    """T27: a subtask that has no split yet must not run ahead of one that is about to be assigned."""
    generator = SplitWatermarks(DELAY, (GeneratorState(splits={1: 100_000}, closed_us=900_000),))
    assert generator.on_status(logs(holding=False)) is None
    generator = SplitWatermarks(DELAY, (GeneratorState(closed_us=900_000),))
    assert generator.on_status(logs(holding=False)) == 890_000


def test_microseconds_below_the_millisecond_do_not_count() -> None:
    """As in Spark: a row 300 µs behind the floor is on time."""
    generator = SplitWatermarks(DELAY)
    generator.on_status(logs(1))
    assert generator.observe(1, 100_999) == 90_000
    assert SplitWatermarks(DELAY).observe(NO_ORIGIN, -1) == -11_000, "before 1970, too"


def test_rows_of_whole_splits_never_move_it_and_grants_do() -> None:
    """T69: not even when the split is at its end."""
    generator = SplitWatermarks(DELAY)
    assert generator.on_status(whole(WATERMARK_MIN_US)) is None
    assert generator.observe(1, 500_000) is None
    assert generator.on_status(whole(200_000)) == 200_000
    assert generator.on_status(whole(100_000)) is None


def test_a_whole_split_that_was_read_in_part_keeps_the_time_of_that_part() -> None:
    generator = SplitWatermarks(DELAY)
    generator.on_status(whole(WATERMARK_MIN_US, (7, 300_000)))
    generator.observe(7, 100_000)
    assert generator.largest_us(7) == 300_000
    assert generator.forget(7) == 300_000
    assert generator.largest_us(7) == WATERMARK_MIN_US
    assert generator.snapshot() == GeneratorState(), "times of whole splits are part of their positions"


def test_a_reader_of_logs_without_any_takes_the_time_of_the_others() -> None:
    generator = SplitWatermarks(DELAY)
    assert generator.on_status(logs(granted_us=70_000)) == 70_000
    assert generator.on_status(logs(3, granted_us=70_000)) is None
    assert generator.observe(3, 60_000) is None, "it was idle: its rows may be late"


def test_a_log_that_was_idle_for_a_while_goes_on_where_it_stood() -> None:
    generator = SplitWatermarks(DELAY)
    generator.on_status(logs(1, 2))
    generator.observe(1, 100_000)
    generator.observe(2, 60_000)
    assert generator.on_status(logs(1)) == 90_000
    generator.on_status(logs(1, 2))
    assert generator.largest_us(2) == 60_000


def test_a_log_that_was_read_before_a_restore_and_has_nothing_since_counts() -> None:
    """T71"""
    generator = SplitWatermarks(DELAY)
    assert generator.on_status(SourceStatus(frozenset(), holding=False, reached=((4, 80_000),))) == 70_000


def test_no_row_however_far_in_the_future_makes_the_watermark_that_ends_a_stream() -> None:
    assert watermark_at((1 << 63) - 1, 0) < WATERMARK_MAX_US
    assert watermark_at(WATERMARK_MAX_US, -1) < WATERMARK_MAX_US
