"""A join of two streams: what is late, what leaves when, what is kept, and what the output promises."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import polars as pl
import pytest

from tidegate.model import types as t
from tidegate.model.elements import WATERMARK_MAX_US, Batch
from tidegate.model.ids import OperatorId, SlotIndex
from tidegate.model.snapshot import KeyGroupRange
from tidegate.model.types import Field, Struct
from tidegate.operators.columns import polars_schema
from tidegate.operators.protocol import OperatorContext
from tidegate.operators.stream_join import LEFT, RIGHT, StreamJoinOperator
from tidegate.plan.expressions import Call, Column
from tidegate.plan.keyed import JoinSide, Moment, StreamJoin, StreamJoinKind, TimeRange
from tidegate.state.row_index import PAIRS_MAX

SECOND_US = 1_000_000
LEFT_ROWS = (Field("k", t.LONG), Field("t", t.TIMESTAMP))
RIGHT_ROWS = (Field("l", t.LONG), Field("u", t.TIMESTAMP))
LATER = Call("lessthanorequal", (Column("t", t.TIMESTAMP), Column("u", t.TIMESTAMP)), t.BOOLEAN)
WINDOW = Struct((Field("start", t.TIMESTAMP), Field("end", t.TIMESTAMP)))


def within_a_second(kind: StreamJoinKind = StreamJoinKind.LEFT) -> StreamJoin:
    """A right row comes at most a second after its left partner, and not before it."""
    return StreamJoin(
        id=OperatorId("join"),
        kind=kind,
        left=JoinSide(
            keys=("k",),
            schema=LEFT_ROWS,
            event_time=Moment("t"),
            expires=Moment("t", None, SECOND_US),
            lag_us=SECOND_US,
        ),
        right=JoinSide(keys=("l",), schema=RIGHT_ROWS, event_time=Moment("u"), expires=Moment("u"), lag_us=0),
        null_safe=(False,),
        condition=LATER,
        within=TimeRange("t", "u", 0, SECOND_US),
        schema=LEFT_ROWS if kind is StreamJoinKind.SEMI else (*LEFT_ROWS, *RIGHT_ROWS),
    )


def running(node: StreamJoin) -> StreamJoinOperator:
    groups = KeyGroupRange(0, 8)
    context = OperatorContext(
        operator=node.id, subtask=SlotIndex(0), parallelism=1, max_parallelism=groups.stop, groups=groups
    )
    return StreamJoinOperator(node, context)


def batch(port: int, rows: Iterable[tuple]) -> Batch:
    schema = polars_schema(RIGHT_ROWS if port == RIGHT else LEFT_ROWS)
    return Batch(pl.DataFrame(list(rows), schema=schema, orient="row"), port=port)


def rows_of(produced: Iterable[Batch]) -> list[tuple]:
    return [row for one in produced for row in one.rows.with_columns(pl.col(pl.Datetime).to_physical()).rows()]


def test_a_late_row_is_dropped_and_counted_on_either_side() -> None:
    join = running(within_a_second())
    list(join.on_watermark(10))
    assert rows_of(join.on_batch(batch(LEFT, [(1, 10), (2, 11)]))) == []
    assert rows_of(join.on_batch(batch(RIGHT, [(2, 10), (2, 11)]))) == [(2, 11, 2, 11)]
    assert join.counters.late_rows == 2


def test_a_row_without_event_time_is_never_late_and_leaves_at_the_very_end() -> None:
    join = running(within_a_second())
    list(join.on_watermark(10))
    assert rows_of(join.on_batch(batch(LEFT, [(1, None)]))) == []
    assert rows_of(join.on_watermark(100 * SECOND_US)) == []
    assert rows_of(join.on_watermark(WATERMARK_MAX_US)) == [(1, None, None, None)]


def test_a_row_without_a_partner_leaves_when_the_watermark_says_that_none_can_come() -> None:
    join = running(within_a_second())
    list(join.on_batch(batch(LEFT, [(1, 5)])))
    assert rows_of(join.on_watermark(SECOND_US + 4)) == []
    assert rows_of(join.on_watermark(SECOND_US + 5)) == [(1, 5, None, None)]
    assert rows_of(join.on_watermark(WATERMARK_MAX_US)) == []


def test_a_row_that_found_a_partner_never_leaves_alone() -> None:
    join = running(within_a_second())
    list(join.on_batch(batch(LEFT, [(1, 5)])))
    assert rows_of(join.on_batch(batch(RIGHT, [(1, 6)]))) == [(1, 5, 1, 6)]
    assert rows_of(join.on_watermark(WATERMARK_MAX_US)) == []


def test_a_null_key_has_no_partner_and_waits_for_none() -> None:
    join = running(within_a_second())
    assert rows_of(join.on_batch(batch(LEFT, [(None, 5)]))) == [(None, 5, None, None)]
    assert join.counters.state_rows == 0


def test_a_semi_join_lets_each_left_row_leave_once_and_forgets_it() -> None:
    join = running(within_a_second(StreamJoinKind.SEMI))
    list(join.on_batch(batch(LEFT, [(1, 5), (1, 5)])))
    assert rows_of(join.on_batch(batch(RIGHT, [(1, 6), (1, 7)]))) == [(1, 5), (1, 5)]
    assert rows_of(join.on_batch(batch(RIGHT, [(1, 8)]))) == []
    assert rows_of(join.on_batch(batch(LEFT, [(1, 6)]))) == [(1, 6)]
    assert join.counters.state_rows == 3


def test_the_output_lags_behind_the_watermark_by_the_range() -> None:
    assert running(within_a_second()).output_watermark(10 * SECOND_US) == 9 * SECOND_US
    assert running(within_a_second()).output_watermark(WATERMARK_MAX_US) == WATERMARK_MAX_US


def test_a_side_that_never_expires_lets_the_output_promise_nothing() -> None:
    node = within_a_second(StreamJoinKind.INNER)
    forgetful = JoinSide(keys=("k",), schema=LEFT_ROWS, event_time=Moment("t"), expires=None, lag_us=None)
    join = running(StreamJoin(**{**{f: getattr(node, f) for f in node.__slots__}, "left": forgetful}))
    assert join.output_watermark(10) is None


def test_a_side_without_event_time_says_nothing_about_the_promise() -> None:
    node = within_a_second(StreamJoinKind.INNER)
    timeless = JoinSide(keys=("k",), schema=LEFT_ROWS, lag_us=None)
    join = running(StreamJoin(**{**{f: getattr(node, f) for f in node.__slots__}, "left": timeless}))
    assert join.output_watermark(10) == 10


def test_windows_are_keys_that_expire_at_their_end() -> None:
    sides = ((Field("w", WINDOW, nullable=False),), (Field("v", WINDOW),))
    node = StreamJoin(
        id=OperatorId("join"),
        kind=StreamJoinKind.FULL,
        left=JoinSide(keys=("w",), schema=sides[0], event_time=Moment("w", "end"), expires=Moment("w", "end")),
        right=JoinSide(keys=("v",), schema=sides[1], event_time=Moment("v", "end"), expires=Moment("v", "end")),
        null_safe=(False,),
        condition=None,
        schema=(*sides[0], *sides[1]),
    )
    join = running(node)

    def windows(port: int, *starts: int) -> Batch:
        column = pl.Series(
            [{"start": at, "end": at + 10} for at in starts], dtype=polars_schema(sides[port])["wv"[port]]
        )
        return Batch(pl.DataFrame({"wv"[port]: column}), port=port)

    list(join.on_batch(windows(LEFT, 0, 10)))
    assert len(rows_of(join.on_batch(windows(RIGHT, 10, 20)))) == 1
    assert [one.rows.height for one in join.on_watermark(10)] == [1]
    list(join.on_batch(windows(RIGHT, 0)))
    assert join.counters.late_rows == 1
    assert sum(one.rows.height for one in join.on_watermark(WATERMARK_MAX_US)) == 1


def test_a_hot_key_leaves_in_bounded_pieces() -> None:
    """One key on both sides: every row is every other's partner."""
    join = running(within_a_second(StreamJoinKind.INNER))
    list(join.on_batch(batch(LEFT, ((1, 5) for _ in range(2_000)))))
    heights = [one.rows.height for one in join.on_batch(batch(RIGHT, ((1, 5) for _ in range(200))))]
    assert sum(heights) == 400_000
    assert max(heights) <= PAIRS_MAX


@pytest.mark.parametrize("kind", StreamJoinKind)
def test_state_is_flat_after_the_range_has_passed(kind: StreamJoinKind) -> None:
    """Ten minutes at a steady rate."""
    join = running(within_a_second(kind))
    seen: list[int] = []
    sizes: list[int] = []
    for second in range(600):
        at_us = second * SECOND_US
        numbers = range(second * 20, second * 20 + 20)
        list(join.on_batch(batch(LEFT, ((n % 97, at_us + n) for n in numbers))))
        list(join.on_batch(batch(RIGHT, ((n % 89, at_us + n) for n in numbers))))
        list(join.on_watermark(at_us - SECOND_US))
        seen.append(join.counters.state_rows)
        sizes.append(join.counters.state_bytes)
    assert 0 < max(seen[300:]) <= 1.2 * max(seen[:300])
    assert max(sizes[300:]) <= 1.2 * max(sizes[:300])


def test_rows_survive_that_memory_is_given_back() -> None:
    """Expired rows make room; those that stay are found as before."""
    join = running(within_a_second(StreamJoinKind.INNER))
    for step in itertools.count():
        list(join.on_batch(batch(LEFT, ((n, step * SECOND_US + 1) for n in range(3_000)))))
        list(join.on_watermark(step * SECOND_US))
        if step == 6:
            break
    assert join.counters.state_rows == 6_000
    found = rows_of(join.on_batch(batch(RIGHT, ((n, 6 * SECOND_US + 1) for n in range(3_000)))))
    assert len(found) == 6_000
