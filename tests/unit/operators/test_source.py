"""A source subtask between its enumerator and its chain."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace

import msgspec
import polars as pl
from tests.property import pipelines as p

from tidegate.model.config import QueryConfig
from tidegate.model.elements import (
    WATERMARK_MAX_US,
    WATERMARK_MIN_US,
    Active,
    Batch,
    EndOfData,
    Idle,
    SourceStatus,
    Watermark,
)
from tidegate.model.ids import Attempt, CheckpointId, OperatorId, SlotIndex
from tidegate.model.messages import AssignSplits
from tidegate.model.snapshot import FinishedSplit, KeyGroupRange, SourceProgress, Split, SplitPosition
from tidegate.operators.protocol import OperatorContext, Restored
from tidegate.operators.source import ASK_AGAIN_MS, POLL_MAX_MS, POLL_MIN_MS, FromSource, SourceOperator
from tidegate.ports.source import SourceConnector, SplitReader
from tidegate.testing.scripted import ScriptedReader, ScriptedSource, ScriptedSplit

NAME = OperatorId("source-0")


def frame(*numbers: int) -> pl.DataFrame:
    return pl.DataFrame({"n": list(numbers)}, schema={"n": pl.Int64})


def make(
    *splits: ScriptedSplit,
    values: tuple[bytes, ...] = (),
    batch_rows: int = 2,
    timeless: bool = False,
    meets_others: bool = False,
    is_far: bool = False,
    **options: object,
) -> SourceOperator:
    context = OperatorContext(
        operator=NAME,
        subtask=SlotIndex(0),
        parallelism=1,
        max_parallelism=1,
        groups=KeyGroupRange(0, 1),
        restored=Restored(values=values),
    )
    config = msgspec.structs.replace(QueryConfig(idle_timeout_ms=100), **options)
    source = SourceOperator(p.scan(0, "#1"), context, ScriptedSource(list(splits), batch_rows=batch_rows), config)
    source.take_place(None if timeless else _Times(), meets_others=meets_others, is_far=is_far)
    return source


def assign(
    sequence: int,
    *numbers: int,
    unassigned: bool = False,
    no_more: bool = False,
    heard: int = 0,
    ordered: bool = True,
    unread: bool = False,
    watermark_us: int = WATERMARK_MIN_US,
    answers: bool = True,
    rest: int = 0,
) -> AssignSplits:
    """Log splits, unless asked for others."""
    return AssignSplits(
        attempt=Attempt(1),
        operator=NAME,
        subtask=SlotIndex(0),
        sequence=sequence,
        splits=tuple(SplitPosition(split=Split(number=n, payload=b""), position=None) for n in numbers),
        unassigned=unassigned,
        no_more=no_more,
        heard=heard,
        ordered=ordered,
        unread=unread,
        watermark_us=watermark_us,
        answers=answers,
        rest=rest,
    )


def drain(source: SourceOperator, now_ms: float = 0.0, polls: int = 20) -> list[FromSource]:
    return [element for _ in range(polls) for element in source.poll(100, now_ms)]


def numbers(elements: list[FromSource]) -> list[tuple[int, list[int]]]:
    return [(e.origin, e.rows["n"].to_list()) for e in elements if isinstance(e, Batch)]


def test_open_splits_are_read_in_turn() -> None:
    source = make(ScriptedSplit(frame(1, 2, 3)), ScriptedSplit(frame(4, 5, 6)))
    source.assign(assign(0, 0, 1), 0)
    assert numbers(drain(source)) == [(0, [1, 2]), (1, [4, 5]), (0, [3]), (1, [6])]


def test_repeated_assignments_are_harmless_and_early_ones_wait() -> None:
    source = make(ScriptedSplit(frame(1)), ScriptedSplit(frame(2)))
    source.assign(assign(1, 1, no_more=True), 0)
    assert numbers(drain(source)) == []
    assert not source.exhausted
    source.assign(assign(0, 0), 0)
    source.assign(assign(0, 0), 0)
    source.assign(assign(1, 1, no_more=True), 0)
    assert numbers(drain(source)) == [(0, [1]), (1, [2])]


def test_the_position_is_that_of_the_last_row_handed_out() -> None:
    """T34"""
    source = make(ScriptedSplit(frame(1, 2, 3)))
    source.assign(assign(0, 0), 0)
    source.poll(100, 0)
    progress = source.snapshot(CheckpointId(1)).source
    assert progress is not None
    (position,) = progress.open
    assert position.position is not None
    assert msgspec.msgpack.decode(position.position) == 2


def test_a_split_not_yet_read_keeps_the_position_it_came_with() -> None:
    source = make(ScriptedSplit(frame(1, 2, 3)))
    source.assign(assign(0, 0), 0)
    progress = source.snapshot(CheckpointId(1)).source
    assert progress is not None
    assert progress.open[0].position is None


def test_finished_splits_are_reported_until_a_checkpoint_with_them_is_complete() -> None:
    source = make(ScriptedSplit(frame(1)), ScriptedSplit(frame(2)))
    source.assign(assign(0, 0), 0)
    drain(source)

    def reported(checkpoint: int) -> tuple[int, ...]:
        progress = source.snapshot(CheckpointId(checkpoint)).source
        assert progress is not None
        return tuple(one.number for one in progress.finished)

    assert reported(1) == (0,)
    assert reported(2) == (0,)
    source.assign(assign(1, 1), 0)
    drain(source)
    source.on_completed(CheckpointId(2))
    assert reported(3) == (1,)
    source.on_completed(CheckpointId(3))
    assert reported(4) == ()


def test_it_asks_for_splits_until_it_is_answered_and_says_what_it_has_finished() -> None:
    source = make(ScriptedSplit(frame(1)), ScriptedSplit(frame(2), closed=False))
    assert source.ask(0) is not None
    assert source.ask(1) is None
    assert source.ask(ASK_AGAIN_MS) is not None
    source.assign(assign(0, 0), 600)
    drain(source, 600)
    source.on_completed(CheckpointId(1))
    request = source.ask(600)
    assert request is not None
    assert (request.open, request.finished) == (0, (FinishedSplit(0),))
    source.assign(assign(1, 1, heard=request.number), 700)
    request = source.ask(700)
    assert request is not None
    assert (request.open, request.finished) == (1, (FinishedSplit(0),)), "that message may have been lost"
    source.assign(assign(2, heard=request.number + 1), 800)
    request = source.ask(10_000)
    assert request is not None and request.finished == ()


def test_a_finished_split_is_told_at_once_and_again_until_it_is_heard_of() -> None:
    """Others may wait for it: a cohort settles when all of it has been read."""
    splits = [ScriptedSplit(frame(n), closed=n == 0) for n in range(4)]
    source = make(*splits, message_repeat_ms=2_000)
    source.ask(0)
    source.assign(assign(0, 0, 1, 2, 3, ordered=False, unread=True), 0)
    source.ask(0)
    assert source.next_ask_ms == float("inf"), "it has enough"
    drain(source, 10)
    assert source.next_ask_ms == float("-inf")
    request = source.ask(10)
    assert request is not None and (request.finished, request.asks) == ((FinishedSplit(0),), False)
    assert source.ask(2_009) is None
    again = source.ask(2_010)
    assert again is not None and again.finished == request.finished
    source.assign(assign(1, ordered=False, unread=True, answers=False, heard=request.number + 1), 2_020)
    source.ask(2_020)
    assert source.next_ask_ms == float("inf")


def test_a_finished_split_is_told_until_it_is_heard_of_although_a_checkpoint_has_it_as_done() -> None:
    """The message was lost, and the checkpoint was complete before the next one: the assigner would wait for the split for ever."""
    source = make(ScriptedSplit(frame(1)), message_repeat_ms=1_000)
    source.ask(0)
    source.assign(assign(0, 0, ordered=False, unread=True, no_more=True), 0)
    drain(source, 10)
    first = source.ask(10)
    assert first is not None and first.finished == (FinishedSplit(0),)
    source.snapshot(CheckpointId(1))
    source.on_completed(CheckpointId(1))
    again = source.ask(1_010)
    assert again is not None and again.finished == (FinishedSplit(0),)
    reported = source.snapshot(CheckpointId(2)).source
    assert reported is not None and reported.finished == ()
    source.assign(assign(1, ordered=False, unread=True, heard=again.number + 1), 1_020)
    later = source.ask(5_000)
    assert later is None or later.finished == ()


def test_news_about_the_time_are_no_answer() -> None:
    """The question stands: whoever has one open is not sent to sleep by a grant."""
    source = make(ScriptedSplit(frame(1)))
    source.ask(0)
    source.assign(assign(0, ordered=False, unread=True, answers=False, watermark_us=5), 100)
    assert source.next_ask_ms == ASK_AGAIN_MS


def test_the_status_of_whole_splits_is_the_newest_grant_and_never_goes_back() -> None:
    source = make(ScriptedSplit(frame(1), closed=False))
    source.assign(assign(0, 0, ordered=False, unread=True, watermark_us=70), 0)
    status = SourceStatus(frozenset(), holding=False, granted_us=70, whole=True)
    assert drain(source)[0] == status
    source.assign(assign(1, ordered=False, unread=True, watermark_us=60, answers=False), 0)
    assert drain(source) == []
    source.assign(assign(2, ordered=False, unread=True, watermark_us=90, answers=False), 0)
    assert drain(source) == [SourceStatus(frozenset(), holding=False, granted_us=90, whole=True)]


def test_readers_of_whole_splits_are_never_idle() -> None:
    """T70: called idle, one would be passed over while the rows that end its rest are on their way and the others' grants are not."""
    source = make(ScriptedSplit(frame(1)))
    source.assign(assign(0, 0, ordered=False, unread=True), 0)
    assert Idle() not in drain(source, 1e9)
    source.assign(assign(1, ordered=False, unread=False, watermark_us=50), 1e9)
    assert drain(source, 1e9) == [SourceStatus(frozenset(), holding=False, granted_us=50, whole=True)]


def test_readers_whose_time_is_told_behind_an_exchange_say_which_rest_it_is_and_wake_at_once() -> None:
    source = make(ScriptedSplit(frame(1)), timeless=True, is_far=True)
    source.assign(assign(0, 0, ordered=False, unread=True), 0)
    assert not [e for e in drain(source) if isinstance(e, Idle)]
    source.assign(assign(1, ordered=False, rest=1), 0)
    assert drain(source)[-1] == Idle(rest=1)
    source.assign(assign(2, ordered=False, rest=2, answers=False), 0)
    assert drain(source) == [Idle(rest=2)], "something came and went elsewhere"
    assert source.assign(assign(3, ordered=False, unread=True, rest=2, answers=False), 0), "not only with the first row"
    assert drain(source) == []


def test_a_reader_for_whose_time_nobody_asks_says_how_far_the_others_are() -> None:
    """Else what its rows meet would never be given up; before its cohort is read, no further than they were when it began."""
    source = make(ScriptedSplit(frame(1)), timeless=True)
    source.assign(assign(0, 0, ordered=False, unread=True, watermark_us=40), 0)
    assert [e for e in drain(source) if isinstance(e, Watermark)] == [Watermark(40)]
    source.assign(assign(1, ordered=False, watermark_us=90), 0)
    assert [e for e in drain(source) if isinstance(e, Watermark)] == [Watermark(90)]


def test_readers_of_logs_whose_time_others_need_hold_where_they_are_told_to() -> None:
    """The driver tells them the time of the others: called idle, they would be passed over while their next rows are on their way."""
    source = make(ScriptedSplit(frame(1), closed=False), meets_others=True)
    source.assign(assign(0, watermark_us=30), 0)
    assert drain(source) == [SourceStatus(frozenset(), holding=False, granted_us=30)]


def test_a_bounded_run_of_whole_splits_ends_only_behind_the_last_grant() -> None:
    """Else this channel would stop counting before the last watermark has come through it."""
    source = make(ScriptedSplit(frame(1)), bounded=True)
    source.assign(assign(0, 0, ordered=False, unread=True, no_more=True), 0)
    assert EndOfData() not in drain(source)
    source.assign(assign(1, ordered=False, unread=False, no_more=True, watermark_us=50, answers=False), 0)
    assert drain(source) == [SourceStatus(frozenset(), holding=False, granted_us=50, whole=True), EndOfData()]


def test_a_reader_of_logs_takes_the_time_of_the_others_only_while_it_has_nothing_to_tell_it_by() -> None:
    source = make(ScriptedSplit(frame(1), closed=False))
    source.assign(assign(0, watermark_us=30), 0)
    assert drain(source) == [SourceStatus(frozenset(), holding=False, granted_us=30), Idle()], "idle at once"
    source.assign(assign(1, watermark_us=40, answers=False), 0)
    assert drain(source) == [SourceStatus(frozenset(), holding=False, granted_us=40), Idle()]
    source.assign(assign(2, 0, watermark_us=40), 0)
    drain(source)
    source.assign(assign(3, watermark_us=90, answers=False), 0)
    assert drain(source) == [], "made of what was known before it had something to read"
    status = SourceStatus(frozenset(), holding=False, granted_us=90)
    assert status in drain(source, 1e5), "the driver does not say it again: it counts from the next rest on"


def test_a_log_for_whose_time_nobody_asks_says_so_once_and_for_good() -> None:
    source = make(ScriptedSplit(frame(1), closed=False), timeless=True)
    source.assign(assign(0, 0), 0)
    elements = drain(source)
    assert [e for e in elements if isinstance(e, Idle)] == [Idle(for_good=True)]
    source.assign(assign(1), 1e6)
    assert [e for e in drain(source, 1e6) if isinstance(e, Idle)] == []


def test_a_stream_that_is_quiet_for_very_long_is_let_go_if_the_user_says_so() -> None:
    source = make(ScriptedSplit(frame(1)), idle_stream_timeout_ms=500)
    source.assign(assign(0, ordered=False), 0)
    assert not [e for e in drain(source) if isinstance(e, Idle)]
    assert source.next_poll_ms == 500
    assert drain(source, 500) == [Idle(let_go=True)]
    assert source.next_poll_ms == float("inf")


def test_the_largest_time_of_a_split_goes_with_its_position_and_with_its_end() -> None:
    """T69: what was read before a restore counts when the rest has been read."""
    source = make(ScriptedSplit(frame(1, 2, 3)))
    times = _Times()
    source.take_place(times)
    message = assign(0, 0, ordered=False, unread=True)
    (position,) = message.splits
    source.assign(msgspec.structs.replace(message, splits=(msgspec.structs.replace(position, largest_us=70),)), 0)
    status, _ = source.poll(2, 0)
    assert isinstance(status, SourceStatus) and status.reached == ((0, 70),)
    times.largest[0] = 90
    progress = source.snapshot(CheckpointId(1)).source
    assert progress is not None and progress.open[0].largest_us == 90
    drain(source)
    progress = source.snapshot(CheckpointId(2)).source
    assert progress is not None and progress.finished == (FinishedSplit(0, 90),)


class _Times:
    def __init__(self) -> None:
        self.largest: dict[int, int] = {}

    def largest_us(self, split: int) -> int:
        return self.largest.get(split, WATERMARK_MIN_US)

    def forget(self, split: int) -> int:
        return self.largest.pop(split, WATERMARK_MIN_US)


def test_the_end_comes_once_after_the_last_row() -> None:
    source = make(ScriptedSplit(frame(1)), bounded=True)
    source.assign(assign(0, 0, no_more=True), 0)
    elements = drain(source)
    assert [type(e) for e in elements if not isinstance(e, SourceStatus)] == [Batch, EndOfData]
    assert source.exhausted


def test_a_drain_ends_with_the_last_watermark() -> None:
    source = make(bounded=True, drain=True)
    source.assign(assign(0, no_more=True), 0)
    assert drain(source)[-2:] == [Watermark(WATERMARK_MAX_US), EndOfData()]


def test_status_names_open_splits_and_holds_while_data_is_unassigned() -> None:
    source = make(ScriptedSplit(frame(1), closed=False), bounded=True)
    assert drain(source) == [SourceStatus(frozenset(), holding=True)]
    source.assign(assign(0, 0, unassigned=True), 0)
    assert drain(source)[0] == SourceStatus(frozenset({0}), holding=True)
    source.assign(assign(1, unassigned=False), 0)
    assert drain(source) == [SourceStatus(frozenset({0}), holding=False)]


def test_a_source_without_rows_becomes_idle_once_and_wakes_with_the_next_row() -> None:
    split = ScriptedSplit(frame(1), closed=False)
    source = make(split)
    source.assign(assign(0, 0), 0)
    source.assign(assign(1), 0)
    drain(source, 0)
    assert [e for e in drain(source, 99) if isinstance(e, Idle)] == []
    assert drain(source, 100)[-1] == Idle()
    assert drain(source, 200) == []
    split.append(frame(2))
    assert drain(source, 300)[0] == SourceStatus(frozenset({0}), holding=False)


def test_a_split_that_was_not_read_for_want_of_room_is_not_idle() -> None:
    """What comes behind a slow sink is not late. Only a reader that was asked and had nothing has nothing."""
    first, second = ScriptedSplit(frame(1, 2, 3, 4)), ScriptedSplit(frame(5, 6, 7, 8))
    source = make(first, second)
    source.assign(assign(0, 0, 1), 0)
    assert source.poll(100, 0)[0] == SourceStatus(frozenset({0, 1}), holding=False)
    held_up = [element for now_ms in (500, 1_000, 1_500) for element in source.poll(100, now_ms)]
    assert numbers(held_up) == [(1, [5, 6]), (0, [3, 4]), (1, [7, 8])]
    assert not [e for e in held_up if isinstance(e, SourceStatus)], "both are open, and neither counts as idle"


def test_a_split_without_rows_beside_a_busy_one_is_idle_when_it_has_been_asked_for_so_long() -> None:
    quiet, busy = ScriptedSplit(frame(), closed=False), ScriptedSplit(frame(*range(100)), closed=False)
    source = make(quiet, busy)
    source.assign(assign(0, 0, 1), 0)
    seen = [element for now_ms in range(0, 300, 10) for element in source.poll(100, now_ms)]
    statuses = [e for e in seen if isinstance(e, SourceStatus)]
    assert statuses == [SourceStatus(frozenset({0, 1}), holding=False), SourceStatus(frozenset({1}), holding=False)]
    assert Idle() not in seen


class Fetched(ScriptedReader):
    """Its rows are on their way until a test says otherwise."""

    awaits_rows = True

    def read(self, rows_max: int, now_ms: int) -> pl.DataFrame | None:
        return None if self.awaits_rows else super().read(rows_max, now_ms)


def test_a_split_whose_rows_are_on_their_way_is_not_idle_however_long_that_takes() -> None:
    """Nor is the source: its rows would be late when they come."""
    scripted = ScriptedSource([ScriptedSplit(frame(1))])
    reader = Fetched(scripted, 0, 0)
    source = make()
    source._connector = SimpleNamespace(open=lambda split, position: reader)  # type: ignore[assignment]
    source.assign(assign(0, 0), 0)
    source.assign(assign(1), 0)
    seen = [element for now_ms in range(0, 10_000, 50) for element in source.poll(100, now_ms)]
    assert seen == [SourceStatus(frozenset({0}), holding=False)]
    reader.awaits_rows = False
    assert numbers(drain(source, 10_000)) == [(0, [1])]


def test_a_source_that_has_just_run_out_of_rows_is_not_idle_however_long_they_took() -> None:
    source = make(ScriptedSplit(frame(1), closed=False))
    source.assign(assign(0, 0), 0)
    source.assign(assign(1), 0)
    assert numbers(drain(source, 0, polls=1)) == [(0, [1])]
    assert Idle() not in drain(source, 1_000)
    assert Idle() in drain(source, 1_100)


def test_a_source_that_waits_for_an_answer_is_not_idle() -> None:
    """What it is about to be given may be older than anything that others have read: a long look into a directory, a busy driver."""
    source = make(ScriptedSplit(frame(1)), ScriptedSplit(frame(2)))
    assert Idle() not in drain(source, 1_000)
    assert source.next_poll_ms == float("inf"), "the answer wakes it"
    source.assign(assign(0, 0), 2_000)
    assert numbers(drain(source, 2_000)) == [(0, [1])]
    assert Idle() not in drain(source, 3_000), "it has asked for more"
    source.assign(assign(1), 3_000)
    assert Idle() in drain(source, 3_000), "the driver has none for it"


def test_nothing_is_idle_in_a_bounded_run() -> None:
    source = make(ScriptedSplit(frame(1), closed=False), bounded=True)
    source.assign(assign(0, 0), 0)
    assert Idle() not in drain(source, 1e9)


def test_a_source_that_was_idle_at_the_checkpoint_is_idle_again_with_the_first_answer() -> None:
    """T27 T71: no stall after the restore, no idleness before the answer; an active split that comes back here keeps it active."""
    before = make(ScriptedSplit(frame(), closed=False))
    before.assign(assign(0, 0), 0)
    before.assign(assign(1), 0)
    drain(before, 0)
    assert Idle() in drain(before, 100)
    value = before.snapshot(CheckpointId(1)).value
    quiet, busy = ScriptedSplit(frame(), closed=False), ScriptedSplit(frame(), closed=False)
    after = make(quiet, busy, values=(value,))
    after.assign(assign(0, 0), 0)
    assert Idle() in drain(after, 0)
    after = make(quiet, busy, values=(value,))
    after.assign(assign(0, 0, 1), 0)
    assert Idle() not in drain(after, 50)


def test_a_source_that_was_idle_at_the_checkpoint_and_has_had_rows_since_waits_like_any_other() -> None:
    """T71"""
    before = make(ScriptedSplit(frame(), closed=False))
    before.assign(assign(0, 0), 0)
    drain(before, 0)
    assert Idle() in drain(before, 100)
    after = make(ScriptedSplit(frame(1), closed=False), values=(before.snapshot(CheckpointId(1)).value,))
    after.assign(assign(0, 0), 0)
    assert numbers(drain(after, 0)) == [(0, [1])]
    assert Idle() not in drain(after, 99)
    assert Idle() in drain(after, 100)


def test_a_log_is_idle_only_if_its_source_has_said_so_again_and_again() -> None:
    """T72: a broker that is silent has not said that there is nothing."""
    split = ScriptedSplit(frame(), closed=False, reachable=False)
    source = make(split)
    source.assign(assign(0, 0), 0)
    assert Idle() not in drain(source, 1_000)
    split.reachable = True
    source.poll(100, 2_000)
    split.reachable = False
    assert Idle() not in drain(source, 9_000), "one answer is a moment, not a time"
    split.reachable = True
    assert Idle() in drain(source, 9_100)


def test_a_log_that_was_idle_and_falls_silent_is_awaited_again() -> None:
    """T72: what it had said is as old as its last answer. Nothing has come, so those behind are told."""
    split = ScriptedSplit(frame(), closed=False)
    source = make(split)
    source.assign(assign(0, 0), 0)
    for now_ms in (0, 50):
        drain(source, now_ms)
    assert Idle() in drain(source, 100)
    split.reachable = False
    assert Active() not in drain(source, 199)
    said = drain(source, 200)
    assert Active() in said
    assert any(isinstance(one, SourceStatus) and one.open == frozenset({0}) for one in said)
    assert drain(source, 5_000) == [], "it is said once"
    split.reachable = True
    assert Idle() in drain(source, 5_050), "and with the next answer it is idle again"


def test_a_log_whose_source_answers_no_sooner_than_the_time_out_stays_idle_between_its_answers() -> None:
    """Awaited and idle in turn, it would keep everybody busy for ever."""
    split = ScriptedSplit(frame(), closed=False)
    source = make(split)
    source.assign(assign(0, 0), 0)
    drain(source, 0)
    assert Idle() in drain(source, 150)
    for now_ms in range(200, 1_000, 50):
        split.reachable = now_ms % 150 == 0
        assert drain(source, now_ms) == []
    split.reachable = False
    assert Active() in drain(source, 2_000), "silent for longer than it ever was between two answers"


def test_a_reader_forgets_splits_that_a_completed_checkpoint_has_as_done() -> None:
    source = make(*(ScriptedSplit(frame(n)) for n in range(50)))
    for number in range(50):
        source.assign(assign(number, number), 0)
        assert numbers(drain(source, polls=3)) == [(number, [number])]
        progress = source.snapshot(CheckpointId(number + 1)).source or SourceProgress()
        assert FinishedSplit(number) in progress.finished
        source.on_completed(CheckpointId(number + 1))
    assert (source.snapshot(CheckpointId(99)).source, source.known_splits) == (SourceProgress(), 0)


def test_a_source_is_drained_only_by_a_poll_that_finds_nothing() -> None:
    """What arrived between the last poll and the question, and what was assigned meanwhile, is not overlooked."""
    endless = ScriptedSplit(frame(1), closed=False)
    source = make(endless, ScriptedSplit(frame(9)))
    source.assign(assign(0, 0), 0)
    assert not source.drained
    drain(source)
    assert source.drained
    endless.append(frame(2))
    source.poll_again(1)
    assert not source.drained and source.ready(1)
    assert numbers(drain(source, 1)) == [(0, [2])]
    assert source.drained
    source.assign(assign(1, 1), 2)
    assert not source.drained


def test_a_source_that_has_not_been_answered_or_has_not_said_so_is_not_drained() -> None:
    """What it says after the first answer may move watermarks: results of rows that were read long ago depend on it."""
    source = make()
    drain(source)
    assert not source.drained
    source.assign(assign(0), 1)
    assert not source.drained and source.ready(1)
    assert drain(source, 1)[0] == SourceStatus(frozenset(), holding=False)
    assert source.drained


def test_a_source_that_has_been_told_the_time_and_has_not_passed_it_on_is_not_drained() -> None:
    """A checkpoint that is taken next would leave before the windows that this closes."""
    source = make(ScriptedSplit(frame(1)))
    source.assign(assign(0, 0, ordered=False, unread=True), 0)
    drain(source)
    assert source.drained
    source.assign(assign(1, ordered=False, answers=False, watermark_us=7_000), 1)
    assert not source.drained and source.ready(1)
    assert drain(source, 1)[0] == SourceStatus(frozenset(), holding=False, granted_us=7_000, whole=True)
    assert source.drained


def test_a_source_at_its_end_is_drained() -> None:
    source = make(ScriptedSplit(frame(1)))
    source.assign(assign(0, 0, no_more=True), 0)
    drain(source)
    assert source.exhausted and source.drained
    source.poll_again(1)
    assert source.drained


def test_the_longer_there_are_no_rows_the_less_often_a_reader_is_asked() -> None:
    split = ScriptedSplit(frame(1), closed=False)
    source = make(split, idle_timeout_ms=1_000_000)
    source.assign(assign(0, 0), 0)
    assert isinstance(source.poll(100, 0)[-1], Batch)
    assert source.next_poll_ms == 0, "there may be more right now"
    moments = [0.0]
    while moments[-1] < 10_000:
        assert not [e for e in source.poll(100, moments[-1]) if isinstance(e, Batch)]
        moments.append(source.next_poll_ms)
    pauses = [b - a for a, b in pairwise(moments)]
    assert pauses[0] == POLL_MIN_MS
    assert pauses == sorted(pauses)
    assert pauses[-1] == POLL_MAX_MS
    split.append(frame(2))
    assert isinstance(source.poll(100, moments[-1])[-1], Batch)
    assert source.next_poll_ms == moments[-1]


def test_a_source_without_splits_sleeps_until_it_gets_one() -> None:
    source = make(ScriptedSplit(frame(1), closed=False))
    source.assign(assign(0), 10)
    assert Idle() in source.poll(100, 10)
    assert source.next_poll_ms == float("inf")
    source.assign(assign(1, 0), 5_000)
    assert source.next_poll_ms == 5_000


def test_an_answer_that_there_is_nothing_is_not_questioned_as_often_as_input_is_looked_for() -> None:
    """Whoever waits is given what is found: the next question is only for lost messages."""
    source = make(ScriptedSplit(frame(1)), discovery_interval_ms=10, message_repeat_ms=2_000)
    source.ask(0)
    source.assign(assign(0), 0)
    assert source.next_ask_ms == 1_000
    source.assign(assign(1, unassigned=True), 5)
    assert source.next_ask_ms == 15, "what others have been sent may come back"


class _Informed(ScriptedSource):
    """A source that wants to know; its readers fetch in the background, and have caught up when told so."""

    def __init__(self, *splits: ScriptedSplit) -> None:
        super().__init__(list(splits), batch_rows=2)
        self.heard: list[list[tuple[int, bytes | None]]] = []
        self.closed = False

    def completed(self, positions: tuple[SplitPosition, ...]) -> None:
        self.heard.append([(one.split.number, one.position) for one in positions])

    def close(self) -> None:
        self.closed = True


def _operator(connector: SourceConnector) -> SourceOperator:
    context = OperatorContext(
        operator=NAME,
        subtask=SlotIndex(0),
        parallelism=1,
        max_parallelism=1,
        groups=KeyGroupRange(0, 1),
        restored=Restored(),
    )
    return SourceOperator(p.scan(0, "#1"), context, connector, QueryConfig())


def test_a_source_learns_where_a_completed_checkpoint_stands_and_not_where_it_stands_itself() -> None:
    """T33."""
    connector = _Informed(ScriptedSplit(frame(1, 2, 3, 4, 5)), ScriptedSplit(frame(6)))
    source = _operator(connector)
    source.assign(assign(0, 0, 1, no_more=True), 0)
    source.poll(100, 0)
    first = source.snapshot(CheckpointId(1)).source
    assert first is not None
    at_first = [(one.split.number, one.position) for one in first.open]
    drain(source)
    source.snapshot(CheckpointId(2))
    assert connector.heard == []
    source.on_completed(CheckpointId(1))
    assert connector.heard == [at_first]
    source.on_completed(CheckpointId(2))
    ended = dict(connector.heard[1])
    assert ended.keys() == {0, 1} and ended[0] != dict(at_first)[0]
    source.on_completed(CheckpointId(2))
    source.snapshot(CheckpointId(3))
    source.on_completed(CheckpointId(3))
    assert len(connector.heard) == 2
    source.close()
    assert connector.closed


def test_a_split_that_ended_after_the_checkpoint_is_told_with_the_next_one() -> None:
    connector = _Informed(ScriptedSplit(frame(1, 2, 3)))
    source = _operator(connector)
    source.assign(assign(0, 0), 0)
    source.poll(2, 0)
    source.snapshot(CheckpointId(1))
    drain(source)
    source.on_completed(CheckpointId(1))
    source.snapshot(CheckpointId(2))
    source.on_completed(CheckpointId(2))
    (first,), (second,) = connector.heard
    assert first[0] == second[0] == 0 and first[1] != second[1]


def test_a_checkpoint_that_was_overtaken_is_not_told() -> None:
    connector = _Informed(ScriptedSplit(frame(1, 2, 3)))
    source = _operator(connector)
    source.assign(assign(0, 0), 0)
    source.poll(100, 0)
    for number in (1, 2):
        source.snapshot(CheckpointId(number))
    source.on_completed(CheckpointId(2))
    source.on_completed(CheckpointId(1))
    assert len(connector.heard) == 1


class _Fetching(SplitReader):
    """A reader with nothing to read that has not caught up until it is said so."""

    position, finished, caught_up = b"", False, False

    def __init__(self) -> None:
        self.looks = 0

    def read(self, rows_max: int, now_ms: int) -> pl.DataFrame | None:
        return None

    def describe(self) -> str:
        return "fetching"

    def look(self) -> None:
        self.looks += 1


def test_a_source_is_drained_when_readers_that_fetch_ahead_have_caught_up_too() -> None:
    reader = _Fetching()

    class Connector(SourceConnector):
        def open(self, split: Split, position: bytes | None) -> _Fetching:
            return reader

    source = _operator(Connector())
    source.assign(assign(0, 0), 0)
    drain(source)
    assert not source.drained
    source.poll_again(0)
    assert reader.looks == 1
    drain(source)
    reader.caught_up = True
    assert source.drained
