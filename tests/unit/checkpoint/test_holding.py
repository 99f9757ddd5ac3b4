"""What the coordinator knows of whole splits that hold event time back, and when nothing does."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.checkpoint.scenario import ONE, PLAN, SOURCE

from tidegate.checkpoint.granting import granted
from tidegate.checkpoint.holding import at_rest, held_by
from tidegate.checkpoint.plan import CheckpointPlan, SourceEventTime
from tidegate.checkpoint.sources import SplitAssigner, fresh
from tidegate.model.holding import Holder, HoldReason
from tidegate.model.ids import OperatorId, SlotIndex
from tidegate.model.messages import SplitsWanted
from tidegate.model.snapshot import FinishedSplit, Split

SECOND_US = 1_000_000
TIMED = replace(PLAN, event_time=True, source_times=(SourceEventTime(SOURCE, OperatorId("stream"), 0),))


def looked(source: SplitAssigner, *numbers: int, ordered: bool = False) -> SplitAssigner:
    splits = tuple(Split(number=number, payload=b"", cut=number == 2) for number in numbers)
    return source.on_discovered(splits, b"", bounded=False, endless=False, ordered=ordered, found=bool(numbers))


def read(source: SplitAssigner, *numbers: int) -> SplitAssigner:
    finished = tuple(FinishedSplit(number, number * SECOND_US) for number in numbers)
    message = SplitsWanted(attempt=ONE, slot=SlotIndex(0), operator=SOURCE, open=0, finished=finished)
    return source.on_wanted(message)


def told(source: SplitAssigner, plan: CheckpointPlan = TIMED) -> SplitAssigner:
    (source,) = granted(plan, (source,))
    return source.assign(ONE)[0]


def holder(source: SplitAssigner, plan: CheckpointPlan = TIMED) -> Holder | None:
    held = held_by(plan, (source,))
    return held[0] if held else None


def reason(source: SplitAssigner) -> HoldReason | None:
    held = holder(source)
    return None if held is None else held.reason


def test_a_source_holds_until_a_look_after_the_last_split_has_found_nothing_more() -> None:
    source = fresh(SOURCE, 2, delay_us=0)
    assert reason(source) is HoldReason.LOOK
    source = looked(source, 0, 1)
    held = holder(source)
    assert held is not None and (held.reason, held.count, held.example) == (HoldReason.UNREAD, 2, "split 0")
    source = read(source, 0)
    held = holder(source)
    assert held is not None and (held.count, held.example) == (1, "split 1")
    source = read(source, 1)
    assert reason(source) is HoldReason.LOOK
    assert reason(looked(source)) is None


def test_what_was_read_and_does_not_count_yet_is_behind() -> None:
    source = read(looked(fresh(SOURCE, 2, delay_us=0), 0, 1, 2, 3), 0, 1)
    held = holder(source)
    assert held is not None and (held.reason, held.count) == (HoldReason.BEHIND, 2)


def test_every_split_that_is_read_and_every_look_begins_another_wait() -> None:
    source = looked(fresh(SOURCE, 2, delay_us=0), 0, 1)
    steps = [source, read(source, 0), looked(read(source, 0), 5)]
    stands = [held.stand for one in steps if (held := holder(one)) is not None]
    assert len(set(stands)) == len(steps)


def test_all_rest_once_the_newest_watermark_was_told_to_every_reader() -> None:
    source = looked(read(looked(fresh(SOURCE, 2, delay_us=0), 0, 1), 0, 1))
    (source,) = granted(TIMED, (source,))
    assert not at_rest(TIMED, (source,)), "nobody has been told"
    assert at_rest(TIMED, (told(source),))
    assert not at_rest(TIMED, (looked(told(source), 2),))


def test_where_nobody_asks_what_time_it_is_nothing_is_held_and_all_is_at_rest() -> None:
    source = looked(fresh(SOURCE, 2), 0, 1)
    assert holder(source, PLAN) is None and at_rest(PLAN, (source,))


def test_readers_of_logs_speak_for_themselves() -> None:
    source = looked(fresh(SOURCE, 2, delay_us=0), 0, 1, ordered=True)
    assert holder(source) is None and at_rest(TIMED, (source,))
