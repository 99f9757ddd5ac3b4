"""Which rows may be late, in worlds small enough to see it."""

from __future__ import annotations

from tidegate.testing.simulation.chronicle import Chronicle
from tidegate.testing.simulation.lateness import Lateness, Stream, TimedRow, floored
from tidegate.testing.simulation.timed import TimedScript, TimedSplit

SECOND_US = 1_000_000
LOOK_MS, IDLE_MS = 250, 1_000


def files(*splits: tuple[int, tuple[int, ...]], limit: int = 0) -> TimedScript:
    return TimedScript(number=0, splits=tuple(TimedSplit(ms, times) for ms, times in splits), limit=limit)


def log(*splits: TimedSplit) -> TimedScript:
    return TimedScript(number=0, splits=splits, ordered=True)


def lateness(chronicle: Chronicle, *scripts: TimedScript) -> Lateness:
    streams = tuple(Stream((one,), 0) for one in scripts if one.delay_us is not None)
    return Lateness(chronicle, streams, LOOK_MS, IDLE_MS, slack_ms=0)


def may_be_late(judge: Lateness, script: TimedScript, split: int, row: int = 0) -> bool:
    one = TimedRow(script, split, row)
    assert one.at_us is not None
    return judge.may_be_late(one, one.at_us)


def looked(chronicle: Chronicle, script: TimedScript, *findings: tuple[int, ...], attempt: int = 1) -> None:
    """Each finding is a look, 250 ms after the one before."""
    known: dict[int, int] = {}
    for number, found in enumerate(findings):
        known |= {split: len(known) + place for place, split in enumerate(found)}
        chronicle.looked(script.source, attempt, dict(known), number * LOOK_MS, found=bool(found))


def test_files_of_one_look_make_none_of_them_late() -> None:
    source, chronicle = files((0, (100 * SECOND_US,)), (0, (SECOND_US,))), Chronicle()
    looked(chronicle, source, (0, 1))
    assert not may_be_late(lateness(chronicle, source), source, 1)


def test_a_file_that_came_a_look_later_may_be_late() -> None:
    source, chronicle = files((0, (100 * SECOND_US,)), (600, (SECOND_US,))), Chronicle()
    looked(chronicle, source, (0,), (), (), (1,))
    assert may_be_late(lateness(chronicle, source), source, 1)
    assert not may_be_late(lateness(chronicle, source), source, 0)


def test_a_burst_that_a_look_cuts_is_one() -> None:
    source, chronicle = files((240, (100 * SECOND_US,)), (260, (SECOND_US,))), Chronicle()
    looked(chronicle, source, (), (0,), (1,))
    assert not may_be_late(lateness(chronicle, source), source, 1)


def test_with_a_limit_time_follows_one_cohort_behind() -> None:
    """Spark keeps the second of three and drops the third."""
    source, chronicle = (
        files((0, (100 * SECOND_US,)), (0, (50 * SECOND_US,)), (0, (50 * SECOND_US,)), limit=1),
        Chronicle(),
    )
    looked(chronicle, source, (0, 1, 2))
    judge = lateness(chronicle, source)
    assert [may_be_late(judge, source, split) for split in range(3)] == [False, False, True]


def test_rows_within_a_millisecond_of_the_watermark_are_on_time() -> None:
    source, chronicle = files((0, (2 * SECOND_US + 700,)), (600, (2 * SECOND_US, 2 * SECOND_US + 300))), Chronicle()
    looked(chronicle, source, (0,), (), (), (1,))
    judge = lateness(chronicle, source)
    assert [may_be_late(judge, source, 1, row) for row in range(2)] == [True, False]
    assert floored(-300, 0) == -1_000


def test_in_a_log_the_rows_before_count() -> None:
    source, chronicle = log(TimedSplit(0, (9 * SECOND_US, SECOND_US), (0, 0))), Chronicle()
    chronicle.opened(source.source, 0, 0)
    chronicle.handed(source.source, 0, range(2), 10, "slot 1.0")
    judge = lateness(chronicle, source)
    assert [may_be_late(judge, source, 0, row) for row in range(2)] == [False, True]


def test_another_log_counts_only_once_this_one_was_answered_empty_for_long_enough() -> None:
    """T72: silence is no answer."""
    source = log(TimedSplit(0, (9 * SECOND_US,), (0,)), TimedSplit(0, (SECOND_US,), (5_000,)))
    for answers_ms, late in (((100, 900), False), ((100, 1_200), True)):
        chronicle = Chronicle()
        chronicle.opened(source.source, 0, 0)
        chronicle.opened(source.source, 1, 0)
        chronicle.handed(source.source, 0, range(1), 1_100, "slot 1.0")
        note = None
        for at_ms in answers_ms:
            note = chronicle.answered_empty(source.source, 1, note, 0, at_ms)
        chronicle.handed(source.source, 1, range(1), 5_000, "slot 1.1")
        assert may_be_late(lateness(chronicle, source), source, 1) is late


def test_a_stream_that_others_meet_must_be_late_for_all_of_them() -> None:
    busy = files((0, (100 * SECOND_US,)), (600, (SECOND_US,)))
    quiet = TimedScript(number=1, splits=(TimedSplit(0, (0,)),))
    chronicle = Chronicle()
    looked(chronicle, busy, (0,), (), (), (1,))
    chronicle.handed(quiet.source, 0, range(1), 0, "slot 1.0")
    assert not may_be_late(lateness(chronicle, busy, quiet), busy, 1)
    assert may_be_late(lateness(chronicle, busy), busy, 1)
