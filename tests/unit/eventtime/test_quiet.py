"""How long a log has had nothing."""

from __future__ import annotations

from tidegate.eventtime.quiet import Quiet


def test_it_counts_from_the_first_answer_that_there_was_nothing_to_the_last() -> None:
    """T72: whoever does not answer has said nothing."""
    quiet = Quiet()
    assert not quiet.lasts(0), "nobody has answered"
    quiet.nothing(100)
    assert quiet.lasts(0) and not quiet.lasts(10)
    quiet.nothing(110)
    assert quiet.lasts(10) and not quiet.lasts(11)


def test_rows_end_it_and_time_without_an_answer_does_not_count() -> None:
    quiet = Quiet()
    quiet.nothing(0)
    quiet.rows()
    assert not quiet.lasts(0)
    quiet.nothing(1_000)
    assert not quiet.lasts(10)


def test_idleness_from_before_a_restore_is_a_hint_that_one_answer_confirms() -> None:
    """T71: what came while nobody read is not late."""
    quiet = Quiet()
    quiet.expect()
    assert not quiet.lasts(0), "nobody has answered since"
    quiet.nothing(5)
    assert quiet.lasts(1e12)
    quiet = Quiet()
    quiet.expect()
    quiet.rows()
    quiet.nothing(5)
    assert not quiet.lasts(1), "something had come"
