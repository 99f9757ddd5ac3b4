"""When a cohort closes and settles, and what is granted then."""

from __future__ import annotations

from dataclasses import replace

from tidegate.checkpoint.cohorts import LOOKS_MAX, Cohorts, restored_cohorts
from tidegate.checkpoint.manifest import Interval
from tidegate.model.elements import WATERMARK_MIN_US
from tidegate.model.snapshot import FinishedSplit, Split

SECOND_US = 1_000_000
DELAY_US = 2 * SECOND_US
NEW = Cohorts(delay_us=DELAY_US)


def split(number: int, earliest_s: float | None = None, *, cut: bool = False) -> Split:
    earliest_us = None if earliest_s is None else round(earliest_s * SECOND_US)
    return Split(number=number, payload=b"", earliest_us=earliest_us, cut=cut)


def found(cohorts: Cohorts, *splits: int | Split) -> Cohorts:
    return cohorts.looked(tuple(split(one) if isinstance(one, int) else one for one in splits), found=True)


def nothing(cohorts: Cohorts) -> Cohorts:
    return cohorts.looked((), found=False)


def read(cohorts: Cohorts, number: int, largest_s: float | None) -> Cohorts:
    largest_us = WATERMARK_MIN_US if largest_s is None else round(largest_s * SECOND_US)
    return cohorts.finished((FinishedSplit(number, largest_us),))


def granted_s(cohorts: Cohorts) -> float | None:
    return None if cohorts.granted_us == WATERMARK_MIN_US else (cohorts.granted_us + DELAY_US) / SECOND_US


def test_nothing_is_granted_before_all_of_a_closed_cohort_has_been_read() -> None:
    """T69"""
    cohorts = read(nothing(found(NEW, 0, 1)), 1, 100)
    assert granted_s(cohorts) is None and cohorts.unread
    cohorts = read(cohorts, 0, 50)
    assert granted_s(cohorts) == 100 and not cohorts.unread


def test_what_has_been_read_counts_once_a_look_has_found_nothing_new() -> None:
    """T70: a look in the middle of a burst does not split it."""
    cohorts = read(found(NEW, 0), 0, 100)
    assert granted_s(cohorts) is None
    cohorts = found(cohorts, 1)
    assert granted_s(cohorts) is None
    cohorts = nothing(cohorts)
    assert granted_s(cohorts) is None
    assert granted_s(read(cohorts, 1, 10)) == 100


def test_files_that_never_stop_coming_do_not_stop_time() -> None:
    """The look that finds the first of them, and four more."""
    cohorts = NEW
    for number in range(LOOKS_MAX + 1):
        assert cohorts.start == 0 and granted_s(cohorts) is None
        cohorts = read(found(cohorts, number), number, 10 * number)
    assert cohorts.start == LOOKS_MAX + 1
    assert granted_s(cohorts) == 10 * LOOKS_MAX


def test_while_more_is_known_time_follows_one_cohort_behind() -> None:
    cohorts = found(nothing(found(NEW, 0)), 1)
    cohorts = read(cohorts, 0, 100)
    assert cohorts.start == 1 and granted_s(cohorts) is None
    cohorts = found(nothing(cohorts), 2)
    cohorts = read(cohorts, 1, 200)
    assert granted_s(cohorts) == 100
    assert granted_s(read(nothing(cohorts), 2, 0)) == 200


def test_what_was_found_while_others_were_read_is_a_cohort_that_a_look_has_closed_already() -> None:
    cohorts = nothing(found(nothing(found(NEW, 0)), 1))
    assert (read(cohorts, 0, 5).start, read(cohorts, 0, 5).stop) == (1, 2)


def test_splits_of_the_next_cohort_that_are_read_early_do_not_count_early() -> None:
    cohorts = read(found(nothing(found(NEW, 0)), 1), 1, 500)
    assert granted_s(cohorts) is None
    cohorts = read(cohorts, 0, 100)
    assert granted_s(cohorts) is None and cohorts.largest_us == 500 * SECOND_US
    assert granted_s(nothing(cohorts)) == 500


def test_a_split_told_twice_counts_once_and_an_old_one_not_at_all() -> None:
    cohorts = read(nothing(found(NEW, 0, 1)), 0, 100)
    assert read(cohorts, 0, 100) == cohorts
    cohorts = found(read(cohorts, 1, 10), 2)
    assert read(cohorts, 0, 900) == cohorts


def test_limits_cut_what_one_look_has_found() -> None:
    """A row that is late in the batch after next is not in the next one: 100, 50, 50 and 50 s, one at a time; the second is kept."""
    cohorts = nothing(found(NEW, split(0), *(split(number, cut=True) for number in (1, 2, 3))))
    assert (cohorts.stop, cohorts.assignable) == (1, 2)
    cohorts = read(cohorts, 0, 100)
    assert granted_s(cohorts) is None and (cohorts.stop, cohorts.assignable) == (2, 3)
    cohorts = read(cohorts, 1, 50)
    assert granted_s(cohorts) == 100 and cohorts.assignable == 4
    cohorts = read(read(cohorts, 2, 50), 3, 50)
    assert granted_s(cohorts) == 100 and not cohorts.unread


def test_without_limits_everything_known_may_be_read() -> None:
    cohorts = found(nothing(found(NEW, 0, 1)), 2, 3)
    assert cohorts.stop == 2 and cohorts.assignable == 4


def test_microseconds_do_not_count() -> None:
    cohorts = nothing(found(NEW, 0))
    assert cohorts.finished((FinishedSplit(0, 5_000_999),)).granted_us == 5_000_000 - DELAY_US


def test_before_1970_time_goes_as_well() -> None:
    assert nothing(found(NEW, 0)).finished((FinishedSplit(0, -1),)).granted_us == -1_000 - DELAY_US


def test_empty_and_all_null_splits_say_nothing_about_time() -> None:
    cohorts = read(nothing(found(NEW, 0, 1)), 0, None)
    assert granted_s(cohorts) is None
    assert granted_s(read(cohorts, 1, None)) is None
    assert granted_s(read(cohorts, 1, 7)) == 7


def test_a_source_whose_time_nobody_asks_for_settles_without_granting() -> None:
    cohorts = read(nothing(found(replace(NEW, delay_us=None), 0)), 0, 100)
    assert cohorts.start == 1 and granted_s(cohorts) is None and not cohorts.unread


def test_a_bounded_run_has_one_look_and_one_cohort() -> None:
    cohorts = NEW.looked((split(0), split(1)), found=True, last=True)
    assert granted_s(read(read(cohorts, 1, 30), 0, 20)) == 30


# --- statistics


def test_time_goes_on_inside_a_closed_cohort_to_where_the_first_unread_split_begins() -> None:
    cohorts = nothing(found(NEW, split(0, 0), split(1, 50), split(2, 90)))
    cohorts = read(cohorts, 0, 60)
    # Rows at that very time stay on time: deduplication compares with "at or before".
    assert cohorts.granted_us == 50 * SECOND_US - 1_000
    assert read(cohorts, 1, 80).granted_us == 80 * SECOND_US - DELAY_US
    assert read(cohorts, 1, 300).granted_us == 90 * SECOND_US - 1_000


def test_a_split_without_statistics_or_an_open_cohort_holds_all_of_it() -> None:
    cohorts = nothing(found(NEW, split(0, 0), split(1), split(2, 90)))
    assert granted_s(read(cohorts, 0, 60)) is None
    assert read(read(cohorts, 0, 60), 1, 60).granted_us == 60 * SECOND_US - DELAY_US
    still_open = found(NEW, split(0, 0), split(1, 50))
    assert granted_s(read(still_open, 0, 60)) is None


def test_splits_of_the_next_cohort_hold_as_well() -> None:
    cohorts = found(nothing(found(NEW, split(0, 0), split(1, 50))), split(2, 10))
    assert read(cohorts, 0, 60).granted_us == 10 * SECOND_US - 1_000


def test_a_live_file_that_says_its_times_ends_no_bound() -> None:
    cohorts = read(nothing(found(NEW, split(0, 0), split(1, 50), split(2, 90))), 0, 60)
    timed, untimed = found(cohorts, split(3, 300)), found(cohorts, split(3))
    assert read(timed, 1, 300).granted_us == 90 * SECOND_US - 1_000
    assert read(untimed, 1, 300).granted_us == cohorts.granted_us


# --- restores


def done(*ranges: tuple[int, int]) -> tuple[Interval, ...]:
    return tuple(Interval(start, stop) for start, stop in ranges)


def test_what_was_read_before_a_restore_counts_when_all_that_was_known_then_has_been_read() -> None:
    cohorts = found(restored_cohorts(DELAY_US, done((0, 2), (3, 4)), 300 * SECOND_US), 2)
    assert granted_s(nothing(cohorts)) is None
    assert granted_s(read(nothing(cohorts), 2, 10)) == 300


def test_when_everything_had_been_read_the_first_look_grants_it() -> None:
    cohorts = restored_cohorts(DELAY_US, done((0, 4)), 300 * SECOND_US)
    assert granted_s(cohorts) is None
    assert granted_s(nothing(cohorts)) == 300


def test_splits_that_the_first_look_does_not_name_are_not_waited_for() -> None:
    cohorts = found(restored_cohorts(DELAY_US, done((1, 2)), 300 * SECOND_US), 5)
    cohorts = cohorts.absent(done((1, 2), (5, 6)))
    assert granted_s(read(nothing(cohorts), 5, 10)) == 300


def test_of_a_document_that_says_nothing_about_times_nothing_is_known() -> None:
    cohorts = nothing(found(restored_cohorts(DELAY_US, done((0, 2)), WATERMARK_MIN_US), 2))
    assert granted_s(cohorts) is None
    assert granted_s(read(cohorts, 2, 10)) == 10


def test_after_a_restore_with_limits_what_the_next_cohort_had_read_does_not_count_one_cohort_early() -> None:
    """Cuts at 2, 4 and 6. When the checkpoint was taken 1 and 3 had been read; 3 is of the second cohort."""
    cohorts = restored_cohorts(DELAY_US, done((1, 2), (3, 4)), 300 * SECOND_US)
    known = (split(0), split(2, cut=True), *(split(number, cut=number % 2 == 0) for number in (4, 5, 6, 7)))
    cohorts = nothing(cohorts.looked(known, found=True).absent(done((0, 8))))
    cohorts = read(read(cohorts, 0, 1), 2, 1)
    assert granted_s(cohorts) in (None, 1)
    cohorts = read(read(cohorts, 4, 1), 5, 1)
    assert granted_s(cohorts) == 300


def test_what_returns_from_behind_the_next_cohort_counts_with_its_own() -> None:
    """One at a time. When the checkpoint was taken 0 and 3 were open, at readers that its barrier had reached at different times: they, and
    what lies between them, are given out at once."""
    cohorts = nothing(found(restored_cohorts(DELAY_US, (), WATERMARK_MIN_US), *(split(n, cut=n > 0) for n in range(6))))
    assert cohorts.assignable == 2
    cohorts = read(read(read(read(cohorts, 3, 500), 0, 1), 1, 2), 2, 3)
    assert granted_s(cohorts) == 3, "4 is of the cohort right behind that of 3"
    assert granted_s(read(cohorts, 4, 4)) == 500
    assert granted_s(read(read(cohorts, 5, 5), 4, 600)) == 600


def test_where_nothing_waits_for_time_what_was_read_counts_one_cohort_later() -> None:
    """Spark runs no batch without rows there, and judges each by the one before the last."""
    cohorts = nothing(read(found(Cohorts(delay_us=DELAY_US, lags=True), 0), 0, 100))
    assert granted_s(cohorts) is None
    cohorts = nothing(read(found(cohorts, 1), 1, 200))
    assert granted_s(cohorts) == 100
    assert granted_s(nothing(cohorts)) == 100


def test_where_nothing_waits_for_time_neither_a_restore_nor_statistics_hurry_it() -> None:
    again = restored_cohorts(DELAY_US, done((0, 3)), 300 * SECOND_US, lags=True)
    assert granted_s(nothing(again)) is None
    assert (
        granted_s(read(nothing(found(Cohorts(delay_us=DELAY_US, lags=True), split(0, 100), split(1, 200))), 0, 150))
        is None
    )


def test_where_nothing_waits_for_time_it_always_stays_one_cohort_behind() -> None:
    cohorts = nothing(found(read(nothing(found(replace(NEW, lags=True), 0)), 0, 100), 1))
    assert cohorts.start == 1 and granted_s(cohorts) is None
    assert granted_s(read(cohorts, 1, 200)) == 100
