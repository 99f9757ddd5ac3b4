"""A source subtask between its enumerator and its chain."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace

import msgspec
import polars as pl
from tests.property import pipelines as p

from tidegate.model.config import QueryConfig
from tidegate.model.elements import WATERMARK_MAX_US, Batch, EndOfData, Idle, SourceStatus, Watermark
from tidegate.model.ids import Attempt, CheckpointId, OperatorId, SlotIndex
from tidegate.model.messages import AssignSplits
from tidegate.model.snapshot import KeyGroupRange, SourceProgress, Split, SplitPosition
from tidegate.operators.ports import SourceConnector
from tidegate.operators.protocol import OperatorContext, Restored
from tidegate.operators.source import ASK_AGAIN_MS, POLL_MAX_MS, POLL_MIN_MS, FromSource, SourceOperator
from tidegate.testing.scripted import ScriptedReader, ScriptedSource, ScriptedSplit

NAME = OperatorId("source-0")


def frame(*numbers: int) -> pl.DataFrame:
    return pl.DataFrame({"n": list(numbers)}, schema={"n": pl.Int64})


def make(
    *splits: ScriptedSplit, values: tuple[bytes, ...] = (), batch_rows: int = 2, **options: object
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
    return SourceOperator(p.scan(0, "#1"), context, ScriptedSource(list(splits), batch_rows=batch_rows), config)


def assign(sequence: int, *numbers: int, unassigned: bool = False, no_more: bool = False) -> AssignSplits:
    return AssignSplits(
        attempt=Attempt(1),
        operator=NAME,
        subtask=SlotIndex(0),
        sequence=sequence,
        splits=tuple(SplitPosition(split=Split(number=n, payload=b""), position=None) for n in numbers),
        unassigned=unassigned,
        no_more=no_more,
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
        return progress.finished

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
    assert (request.open, request.finished) == (0, (0,))
    source.assign(assign(1, 1), 700)
    request = source.ask(700)
    assert request is not None
    assert (request.open, request.finished) == (1, ())


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
    assert Idle() not in drain(source, 3_000)
    assert source.next_poll_ms == 3_100
    assert Idle() in drain(source, 3_100)


def test_nothing_is_idle_in_a_bounded_run() -> None:
    source = make(ScriptedSplit(frame(1), closed=False), bounded=True)
    source.assign(assign(0, 0), 0)
    assert Idle() not in drain(source, 1e9)


def test_a_source_that_was_idle_at_the_checkpoint_is_idle_again_without_waiting() -> None:
    """T27: no stall after the restore; and an active split that comes back here keeps it active."""
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
    before = make()
    before.assign(assign(0), 0)
    drain(before, 0)
    assert Idle() in drain(before, 100)
    after = make(ScriptedSplit(frame(1)), values=(before.snapshot(CheckpointId(1)).value,))
    after.assign(assign(0, 0), 0)
    assert numbers(drain(after, 0)) == [(0, [1])]
    after.assign(assign(1), 0)
    assert Idle() not in drain(after, 0)
    assert Idle() in drain(after, 100)


def test_a_reader_forgets_splits_that_a_completed_checkpoint_has_as_done() -> None:
    source = make(*(ScriptedSplit(frame(n)) for n in range(50)))
    for number in range(50):
        source.assign(assign(number, number), 0)
        assert numbers(drain(source, polls=3)) == [(number, [number])]
        assert number in (source.snapshot(CheckpointId(number + 1)).source or SourceProgress()).finished
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


def test_a_source_without_splits_sleeps_until_it_is_idle_and_then_until_it_gets_one() -> None:
    source = make(ScriptedSplit(frame(1), closed=False))
    source.assign(assign(0), 10)
    source.poll(100, 10)
    assert source.next_poll_ms == 110
    assert Idle() in source.poll(100, 110)
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


class _Fetching:
    """A reader with nothing to read that has not caught up until it is said so."""

    position, finished = b"", False

    def __init__(self) -> None:
        self.looks = 0
        self.caught_up = False

    def read(self, rows_max: int, now_ms: int) -> pl.DataFrame | None:
        return None

    def describe(self) -> str:
        return "fetching"

    def look(self) -> None:
        self.looks += 1

    def close(self) -> None:
        return None


def test_a_source_is_drained_when_readers_that_fetch_ahead_have_caught_up_too() -> None:
    reader = _Fetching()

    class Connector:
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
