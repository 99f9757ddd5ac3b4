"""Which rows each operator may drop, as Structured Streaming does it, and that each dropped row is counted once, over all restores.

``tests/integration/event_time/test_dropped_rows.py`` asks Structured Streaming itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import msgspec
import polars as pl
import pytest
from tests.unit.operators.stateful.stateful_harness import process
from tests.unit.operators.test_aggregate import running, windows
from tests.unit.operators.test_stream_join import LEFT, RIGHT, within_a_second

from tidegate.model import types as t
from tidegate.model.elements import Batch
from tidegate.model.ids import CheckpointId, OperatorId, SlotIndex
from tidegate.model.output_mode import OutputMode
from tidegate.model.types import Field, Schema, Struct
from tidegate.operators.aggregate import AggregateOperator
from tidegate.operators.columns import polars_schema
from tidegate.operators.deduplicate import DeduplicateOperator
from tidegate.operators.partial_aggregate import PartialAggregateOperator, partial_schema
from tidegate.operators.protocol import Operator, OperatorContext, Restored
from tidegate.operators.sessions import SessionAggregateOperator
from tidegate.operators.stateful_process import StatefulProcessOperator
from tidegate.operators.stream_join import StreamJoinOperator
from tidegate.plan.keyed import Deduplicate, SessionAggregate, TimeMode
from tidegate.plan.relational import Aggregate, AggregateCall, EventTimeKey, PartialAggregate
from tidegate.state.keygroups import range_of
from tidegate.testing.processors import load_tally

GROUPS = 128
WATERMARK_US = 10_000_000
TIMES_US = (None, -5_000_000, 0, WATERMARK_US - 1, WATERMARK_US, WATERMARK_US + 1)
"""Deadlines of rows: the ends of their windows or sessions, or their event times."""
PASSED = 4
"""Of them, those that a watermark at ``WATERMARK_US`` has reached. Null is never reached."""
WINDOW = Struct((Field("start", t.TIMESTAMP), Field("end", t.TIMESTAMP)))
COUNT = AggregateCall("n", "count", (), t.LONG)
Deadlines = tuple[int | None, ...]


@dataclass(frozen=True)
class Case:
    """``late``: how many of ``TIMES_US`` may be dropped."""

    build: Callable[[OperatorContext], Operator]
    batch: Callable[[Deadlines], Batch]
    late: int


def frame(schema: Schema, **columns: list[object]) -> pl.DataFrame:
    types = dict(polars_schema(schema))
    return pl.DataFrame(
        [pl.Series(name, values, dtype=_physical(types[name])).cast(types[name]) for name, values in columns.items()]
    )


def _physical(of: pl.DataType) -> pl.DataType:
    match of:
        case pl.Datetime():
            return pl.Int64()
        case pl.Struct(fields=fields):
            return pl.Struct({field.name: _physical(field.dtype) for field in fields})  # type: ignore[arg-type]
        case _:
            return of


def ending(times: Deadlines) -> list[object]:
    return [None if at is None else {"start": at - 1, "end": at} for at in times]


def numbers(times: Deadlines) -> list[object]:
    return [f"k{number}" for number, _ in enumerate(times)]


def aggregate(node: Aggregate, late: int) -> Case:
    partial = PartialAggregateOperator(PartialAggregate(aggregate=node, schema=partial_schema(node)))

    def batch(times: Deadlines) -> Batch:
        values = {
            "w": ending(times) if isinstance(node.input_schema[0].type, Struct) else list(times),
            "k": numbers(times),
            "v": [1] * len(times),
        }
        (only,) = partial.on_batch(
            Batch(frame(node.input_schema, **{field.name: values[field.name] for field in node.input_schema}))
        )
        assert isinstance(only, Batch)
        return only

    return Case(lambda context: AggregateOperator(node, context), batch, late)


def by_time() -> Aggregate:
    keys = (Field("w", t.TIMESTAMP), Field("k", t.STRING))
    return Aggregate(
        id=OperatorId("by-time"),
        keys=("w", "k"),
        calls=(COUNT,),
        event_time=EventTimeKey("w", None),
        mode=OutputMode.UPDATE,
        schema=(*keys, Field("n", t.LONG)),
        input_schema=keys,
    )


SESSION_ROWS = (Field("w", WINDOW, False), Field("k", t.STRING))


def sessions_of(mode: OutputMode, *, event_time: bool = True) -> SessionAggregate:
    return SessionAggregate(
        id=OperatorId("sessions"),
        keys=("k",),
        session="w",
        calls=(COUNT,),
        event_time=event_time,
        mode=mode,
        schema=(*SESSION_ROWS, Field("n", t.LONG)),
        input_schema=SESSION_ROWS,
    )


def sessions(mode: OutputMode, late: int, *, event_time: bool = True) -> Case:
    node = sessions_of(mode, event_time=event_time)

    def batch(times: Deadlines) -> Batch:
        known = tuple(at for at in times if at is not None)
        return Batch(frame(SESSION_ROWS, w=ending(known), k=numbers(known)))

    return Case(lambda context: SessionAggregateOperator(node, context), batch, late)


def deduplicate(*keys: str, late: int = PASSED, timed: bool = True, within: bool = False) -> Case:
    schema = (Field("k", t.STRING), Field("ts", t.TIMESTAMP))
    node = Deduplicate(
        id=OperatorId("deduplicate"),
        keys=keys,
        event_time=EventTimeKey("ts", None) if timed else None,
        within_watermark=within,
        delay_us=1_000_000 if within else 0,
        schema=schema,
    )
    return Case(
        lambda context: DeduplicateOperator(node, context),
        lambda times: Batch(frame(schema, k=numbers(times), ts=list(times))),
        late,
    )


def join(port: int) -> Case:
    node = within_a_second()
    side = node.left if port == LEFT else node.right

    def batch(times: Deadlines) -> Batch:
        key, ts = (field.name for field in side.schema)
        return Batch(frame(side.schema, **{key: list(range(len(times))), ts: list(times)}), port=port)

    return Case(lambda context: StreamJoinOperator(node, context), batch, PASSED)


def join_without_time() -> Case:
    """The right side is told by no watermark: its rows are never late."""
    node = within_a_second()
    node = replace(node, right=replace(node.right, event_time=None, expires=None))
    return Case(lambda context: StreamJoinOperator(node, context), join(RIGHT).batch, 0)


def processor(mode: TimeMode, late: int) -> Case:
    node = process(mode)
    return Case(
        lambda context: StatefulProcessOperator(node, context, load_tally),
        lambda times: Batch(frame(node.input_schema, k=numbers(times), at=list(times), word=["x"] * len(times))),
        late,
    )


CASES = {
    "windows, append": lambda: aggregate(windows(), PASSED),
    "windows, update": lambda: aggregate(windows(OutputMode.UPDATE), PASSED),
    "groups by event time": lambda: aggregate(by_time(), PASSED),
    "groups without event time": lambda: aggregate(
        running((Field("k", t.STRING),), COUNT, values=(Field("v", t.LONG),)), 0
    ),
    "sessions, append": lambda: sessions(OutputMode.APPEND, PASSED),
    "sessions, complete": lambda: sessions(OutputMode.COMPLETE, PASSED),
    "sessions without event time": lambda: sessions(OutputMode.APPEND, 0, event_time=False),
    "dropDuplicates": lambda: deduplicate("k", "ts"),
    "dropDuplicates, event time not among the keys": lambda: deduplicate("k"),
    "dropDuplicatesWithinWatermark": lambda: deduplicate("k", within=True),
    "dropDuplicates without event time": lambda: deduplicate("k", late=0, timed=False),
    "join, left side": lambda: join(LEFT),
    "join, right side": lambda: join(RIGHT),
    "join, a side without event time": join_without_time,
    "processor in event time": lambda: processor(TimeMode.EVENT, PASSED),
    "processor in processing time": lambda: processor(TimeMode.PROCESSING, 0),
    "processor without time": lambda: processor(TimeMode.NONE, 0),
}


def started(case: Case, *, index: int = 0, parallelism: int = 1, values: tuple[bytes, ...] = ()) -> Operator:
    groups = range_of(index, parallelism, GROUPS)
    restored = Restored(values=values)
    return case.build(
        OperatorContext(OperatorId("one"), SlotIndex(index), parallelism, GROUPS, groups, restored=restored)
    )


def snapshot(one: Operator) -> bytes:
    state = one.snapshot(CheckpointId(1))
    assert state is not None
    return state.value


@pytest.mark.parametrize("name", sorted(CASES))
def test_only_rows_whose_deadline_the_watermark_has_reached_are_dropped(name: str) -> None:
    case = CASES[name]()
    one = started(case)
    list(one.on_batch(case.batch(TIMES_US)))
    assert one.counters.late_rows == 0, "without a watermark nothing is late, also before 1970"
    list(one.on_watermark(WATERMARK_US))
    list(one.on_batch(case.batch(TIMES_US)))
    assert one.counters.late_rows == case.late
    assert one.counters.late_rows_restored == 0


@pytest.mark.parametrize("name", sorted(CASES))
@pytest.mark.parametrize("parallelism", [1, 3])
def test_dropped_rows_are_part_of_the_state(name: str, parallelism: int) -> None:
    """T26: what was counted behind the barrier is counted again, and what was counted before it is not lost."""
    case = CASES[name]()
    one = started(case)
    list(one.on_watermark(WATERMARK_US))
    list(one.on_batch(case.batch(TIMES_US)))
    value = snapshot(one)
    list(one.on_batch(case.batch(TIMES_US)))
    assert one.counters.late_rows == 2 * case.late
    again = [started(case, index=i, parallelism=parallelism, values=(value, value)) for i in range(parallelism)]
    assert sum(each.counters.late_rows for each in again) == 2 * case.late
    assert sum(each.counters.late_rows_restored for each in again) == 2 * case.late
    list(again[0].on_batch(case.batch(TIMES_US)))
    assert sum(each.counters.late_rows for each in again) == 3 * case.late
    assert sum(each.counters.late_rows_restored for each in again) == 2 * case.late


def test_a_document_from_before_late_rows_were_stored_counts_from_zero() -> None:
    case = CASES["dropDuplicates"]()
    value = msgspec.msgpack.encode(
        {"format": "horizon/1", "watermark_us": WATERMARK_US, "groups": [0, GROUPS], "closed": []}
    )
    one = started(case, values=(value,))
    list(one.on_batch(case.batch(TIMES_US)))
    assert (one.counters.late_rows, one.counters.late_rows_restored) == (PASSED, 0)
