"""How long a reader has had nothing."""

from __future__ import annotations

from tidegate.eventtime.quiet import Quiet


def test_it_counts_from_the_first_time_that_there_was_nothing_to_the_last() -> None:
    quiet = Quiet()
    assert not quiet.lasts(0) and quiet.lasts_at_ms(10) == float("inf"), "nobody has asked"
    quiet.nothing(100)
    assert not quiet.lasts(10) and quiet.lasts_at_ms(10) == 110
    quiet.nothing(110)
    assert quiet.lasts(10) and not quiet.lasts(11)


def test_rows_end_it_and_time_without_a_question_does_not_count() -> None:
    quiet = Quiet()
    quiet.nothing(0)
    quiet.rows()
    assert not quiet.lasts(0)
    quiet.nothing(1_000)
    assert not quiet.lasts(10)


def test_who_has_always_had_nothing_need_not_be_asked() -> None:
    quiet = Quiet()
    quiet.always()
    assert quiet.lasts(1e12)
    quiet.nothing(5)
    assert quiet.lasts(1e12)
    quiet.rows()
    assert not quiet.lasts(0)
