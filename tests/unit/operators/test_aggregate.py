"""The second phase: when groups open, close, leave and come back."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal as D

import polars as pl
import pytest

from tidegate.model import types as t
from tidegate.model.elements import WATERMARK_MAX_US, Batch
from tidegate.model.errors import CorruptSnapshot, DataError
from tidegate.model.ids import CheckpointId, OperatorId, SlotIndex
from tidegate.model.output_mode import OutputMode
from tidegate.model.snapshot import ChunkHandle
from tidegate.model.types import DataType, Decimal, Field, Struct
from tidegate.operators import pieces
from tidegate.operators.aggregate import AggregateOperator
from tidegate.operators.columns import polars_schema
from tidegate.operators.partial_aggregate import PartialAggregateOperator, partial_schema
from tidegate.operators.protocol import NewChunk, OperatorContext, OperatorState, Restored, RestoredChunk
from tidegate.plan.relational import Aggregate, AggregateCall, EventTimeKey, PartialAggregate
from tidegate.state.hashing import hash_columns
from tidegate.state.keygroups import key_groups, range_of

WINDOW = Struct((Field("start", t.TIMESTAMP, False), Field("end", t.TIMESTAMP, False)))
SUM = AggregateCall("total", "sum", ("v",), t.LONG, (t.LONG,), sql="sum(v)")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SECOND_US = 1_000_000


def windows(mode: OutputMode = OutputMode.APPEND) -> Aggregate:
    keys = (Field("w", WINDOW, False), Field("k", t.STRING))
    return Aggregate(
        id=OperatorId("windows"),
        keys=("w", "k"),
        calls=(SUM,),
        event_time=EventTimeKey("w", "end"),
        mode=mode,
        schema=(*keys, Field("total", t.LONG)),
        input_schema=(*keys, Field("v", t.LONG)),
    )


def running(keys: tuple[Field, ...], *calls: AggregateCall, values: tuple[Field, ...]) -> Aggregate:
    schema = (*keys, *(Field(call.name, call.type) for call in calls))
    names = tuple(key.name for key in keys)
    return Aggregate(
        id=OperatorId("running"),
        keys=names,
        calls=calls,
        event_time=None,
        mode=OutputMode.UPDATE,
        schema=schema,
        input_schema=(*keys, *values),
    )


class Subtask:
    def __init__(self, node: Aggregate, restored: Restored | None = None, index: int = 0, parallelism: int = 1) -> None:
        self.node = node
        groups = range_of(index, parallelism, 128)
        context = OperatorContext(node.id, SlotIndex(index), parallelism, 128, groups, restored or Restored())
        self.partial = PartialAggregateOperator(PartialAggregate(aggregate=node, schema=partial_schema(node)))
        self.final = AggregateOperator(node, context)

    def rows(self, *rows: tuple) -> list[tuple]:
        frame = pl.DataFrame(rows, schema=polars_schema(self.node.input_schema), orient="row")
        return [row for part in self.partial.on_batch(Batch(frame)) for row in taken(self.final.on_batch(part))]

    def watermark(self, seconds: float) -> list[tuple]:
        return taken(self.final.on_watermark(int(seconds * SECOND_US)))


def taken(outputs) -> list[tuple]:
    return [row for out in outputs for row in out.rows.rows()]


def window(start_s: int) -> dict[str, datetime]:
    start = EPOCH + timedelta(seconds=start_s)
    return {"start": start, "end": start + timedelta(seconds=10)}


def restored(*states: OperatorState) -> Restored:
    chunks = [chunk for state in states for chunk in state.chunks]
    assert all(isinstance(chunk, NewChunk) for chunk in chunks)
    return Restored(
        chunks=tuple(
            RestoredChunk(ChunkHandle(name="c", groups=c.groups, rows=c.rows.height, size_bytes=0, checksum=0), c.rows)
            for c in chunks
            if isinstance(c, NewChunk)
        ),
        values=tuple(state.value for state in states),
    )


def test_a_group_leaves_once_when_the_watermark_reaches_its_end() -> None:
    subtask = Subtask(windows())
    assert subtask.rows((window(0), "a", 1), (window(0), "a", 2), (window(10), "a", 5)) == []
    assert subtask.watermark(9.999999) == []
    assert subtask.watermark(10) == [(window(0), "a", 3)]
    assert subtask.watermark(10) == []
    assert subtask.final.counters.state_rows == 1


def test_a_closed_group_never_opens_again() -> None:
    subtask = Subtask(windows())
    subtask.rows((window(0), "a", 1))
    subtask.watermark(10)
    assert subtask.rows((window(0), "a", 7), (window(0), "b", 7), (window(10), "a", 1)) == []
    assert subtask.final.counters.late_rows == 2
    assert subtask.watermark(20) == [(window(10), "a", 1)]


@pytest.mark.parametrize("call", [SUM, AggregateCall("n", "count", (), t.LONG)])
def test_late_rows_are_rows_of_the_input_though_the_first_phase_made_one_of_them(call: AggregateCall) -> None:
    """Whether or not a call counts rows anyway."""
    node = replace(windows(), calls=(call,), schema=(*windows().schema[:2], Field(call.name, t.LONG)))
    subtask = Subtask(node)
    subtask.watermark(10)
    subtask.rows(*[(window(0), "a", 1)] * 5, *[(window(0), "b", 1)] * 2, (window(10), "a", 1))
    assert subtask.final.counters.late_rows == 7
    assert [row[:2] for row in subtask.watermark(20)] == [(window(10), "a")]


def test_the_watermark_never_goes_back() -> None:
    subtask = Subtask(windows())
    subtask.watermark(30)
    subtask.watermark(5)
    subtask.rows((window(10), "a", 1))
    assert subtask.final.counters.late_rows == 1


def test_draining_closes_everything() -> None:
    subtask = Subtask(windows())
    subtask.rows((window(0), "a", 1), (window(10**6), None, 2))
    assert sorted(taken(subtask.final.on_watermark(WATERMARK_MAX_US)), key=str) == sorted(
        [(window(0), "a", 1), (window(10**6), None, 2)], key=str
    )
    assert subtask.final.counters.state_rows == 0


def test_closed_groups_leave_in_bounded_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "PIECE_ROWS", 100)
    subtask = Subtask(windows())
    subtask.rows(*((window(0), str(i), i) for i in range(250)))
    outputs = subtask.final.on_watermark(10 * SECOND_US)
    assert [out.rows.height for out in outputs] == [100, 100, 50]


def test_after_a_restore_closed_windows_stay_closed_and_open_ones_go_on() -> None:
    """T26: no second firing, late rows still late, nothing fires early."""
    before = Subtask(windows())
    before.rows((window(0), "a", 1), (window(10), "a", 2))
    stored = before.final.snapshot(CheckpointId(1))
    chunk = restored(stored).chunks[0]
    before.final.on_stored(CheckpointId(1), (chunk.handle,))
    before.final.on_completed(CheckpointId(1))
    before.watermark(10)
    second = before.final.snapshot(CheckpointId(2))

    # The chunk of checkpoint 1 still holds the window that closed since: the watermark says that it is gone.
    kept = tuple(chunk for handle in second.chunks if handle == chunk.handle)
    new = restored(OperatorState(tuple(c for c in second.chunks if isinstance(c, NewChunk)), second.value))
    after = Subtask(windows(), Restored(chunks=(*kept, *new.chunks), values=(second.value,)))
    assert after.watermark(10) == []
    assert after.rows((window(0), "a", 9)) == []
    assert after.final.counters.late_rows == 1
    after.rows((window(10), "a", 3))
    assert after.watermark(20) == [(window(10), "a", 5)]


@pytest.mark.parametrize(("old", "new"), [(1, 3), (3, 2), (2, 2)])
def test_rescaling_keeps_every_group_once(old: int, new: int) -> None:
    rows = [(window(0), f"k{i}", i) for i in range(200)]
    keys = pl.DataFrame(rows, schema=polars_schema(windows().input_schema), orient="row").select("w", "k")
    groups = key_groups(hash_columns(keys, (WINDOW, t.STRING)), 128).tolist()
    olds = [Subtask(windows(), index=i, parallelism=old) for i in range(old)]
    for i, subtask in enumerate(olds):
        subtask.rows(*(row for row, group in zip(rows, groups, strict=True) if group in range_of(i, old, 128)))
    states = restored(*(subtask.final.snapshot(CheckpointId(1)) for subtask in olds))
    news = [Subtask(windows(), states, i, new) for i in range(new)]
    assert sum(subtask.final.counters.state_rows for subtask in news) == 200
    out = [row for subtask in news for row in subtask.watermark(10)]
    assert sorted(out, key=str) == sorted(rows, key=str)


def test_groups_their_owner_had_not_closed_survive_a_faster_neighbour() -> None:
    slow, fast = Subtask(windows(), index=0, parallelism=2), Subtask(windows(), index=1, parallelism=2)
    slow.rows((window(0), "a", 1))
    fast.watermark(10)
    both = restored(slow.final.snapshot(CheckpointId(1)), fast.final.snapshot(CheckpointId(1)))
    merged = Subtask(windows(), both)
    survivors = merged.final.counters.state_rows
    assert len(merged.watermark(10)) == survivors
    assert merged.rows((window(0), "z", 1)) == []


def test_a_damaged_value_is_refused() -> None:
    with pytest.raises(CorruptSnapshot, match="watermark"):
        Subtask(windows(), Restored(values=(b"\x80\x04K",)))


def test_update_mode_sends_each_changed_group_and_evicts_silently() -> None:
    subtask = Subtask(windows(OutputMode.UPDATE))
    assert subtask.rows((window(0), "a", 1), (window(0), "b", 1), (window(0), "a", 1))[0][2] in (1, 2)
    assert subtask.rows((window(0), "a", 5)) == [(window(0), "a", 7)]
    assert subtask.watermark(10) == []
    assert subtask.final.counters.state_rows == 0
    assert subtask.rows((window(0), "a", 1)) == []


def test_coalesced_batches_with_the_same_key_twice_count_twice() -> None:
    subtask = Subtask(running((Field("k", t.LONG),), SUM, values=(Field("v", t.LONG),)))
    frame = pl.DataFrame({"k": [1, 2], "v": [10, 20]})
    (part,) = subtask.partial.on_batch(Batch(frame))
    twice = part.with_rows(pl.concat([part.rows, part.rows]))
    assert sorted(taken(subtask.final.on_batch(twice))) == [(1, 20), (2, 40)]
    assert sorted(taken(subtask.final.on_batch(twice))) == [(1, 40), (2, 80)]


def test_a_global_aggregate_has_one_group() -> None:
    count = AggregateCall("n", "count", (), t.LONG)
    node = running((), count, SUM, values=(Field("v", t.LONG),))
    subtask = Subtask(node)
    assert subtask.rows((1,), (2,)) == [(2, 3)]
    assert subtask.rows((None,)) == [(3, 3)]
    again = Subtask(node, restored(subtask.final.snapshot(CheckpointId(1))))
    assert again.rows((4,)) == [(4, 7)]


def test_without_calls_the_keys_themselves_are_the_result() -> None:
    """``SELECT DISTINCT k`` is an aggregate without functions."""
    node = running((Field("k", t.STRING),), values=())
    subtask = Subtask(node)
    assert sorted(subtask.rows(("a",), ("b",), ("a",))) == [("a",), ("b",)]
    again = Subtask(node, restored(subtask.final.snapshot(CheckpointId(1))))
    assert again.final.counters.state_rows == 2
    assert again.rows(("b",)) == [("b",)]
    assert again.final.counters.state_rows == 2


def test_float_keys_are_normalised_and_null_is_a_key() -> None:
    subtask = Subtask(running((Field("k", t.DOUBLE),), SUM, values=(Field("v", t.LONG),)))
    subtask.rows((-0.0, 1), (math.nan, 1), (None, 1))
    out = subtask.rows((0.0, 1), (math.nan, 1), (None, 1), (-0.0, 1))
    assert sorted(total for _, total in out) == [2, 2, 3]
    assert [math.copysign(1, key) for key, _ in out if key == 0] == [1]


def test_a_nullable_struct_key_comes_back_as_it_was() -> None:
    key = Field("p", Struct((Field("x", t.LONG), Field("y", t.STRING))))
    subtask = Subtask(running((key,), SUM, values=(Field("v", t.LONG),)))
    subtask.rows((None, 1), ({"x": None, "y": None}, 10), ({"x": 1, "y": "a"}, 100))
    out = subtask.rows((None, 1), ({"x": None, "y": None}, 10), ({"x": 1, "y": "a"}, 100))
    assert sorted(out, key=lambda row: row[1]) == [(None, 2), ({"x": None, "y": None}, 20), ({"x": 1, "y": "a"}, 200)]


def test_array_keys_compare_by_content() -> None:
    subtask = Subtask(running((Field("k", t.Array(t.DOUBLE)),), SUM, values=(Field("v", t.LONG),)))
    subtask.rows(([1.0, -0.0], 1), (None, 1), ([], 1))
    assert sorted(subtask.rows(([1.0, 0.0], 1), (None, 1), ([], 1)), key=str) == sorted(
        [([1.0, 0.0], 2), (None, 2), ([], 2)], key=str
    )


def single(of: DataType, function: str, result: DataType, **options) -> Subtask:
    call = AggregateCall("r", function, ("v",), result, (of,), sql=f"{function}(v)", **options)
    return Subtask(running((), call, values=(Field("v", of),)))


@pytest.mark.parametrize("cut", [(2,), (1, 1)], ids=["in one batch", "across batches"])
def test_a_long_sum_that_overflows_is_an_error(cut: tuple[int, ...]) -> None:
    subtask = single(t.LONG, "sum", t.LONG)
    with pytest.raises(DataError, match=r"ARITHMETIC_OVERFLOW.*sum\(v\)"):
        for size in cut:
            subtask.rows(*[(2**62,)] * size)


def test_without_ansi_a_long_sum_wraps_around() -> None:
    subtask = single(t.LONG, "sum", t.LONG, ansi=False)
    subtask.rows((2**63 - 1,))
    assert subtask.rows((1,)) == [(-(2**63),)]


def test_large_sums_that_fit_are_exact() -> None:
    subtask = single(t.LONG, "sum", t.LONG)
    assert subtask.rows((2**63 - 1,), (-(2**63),), (2**62,)) == [(2**62 - 1,)]


def test_a_decimal_sum_that_outgrows_its_precision_is_an_error() -> None:
    subtask = single(Decimal(38, 0), "sum", Decimal(38, 0))
    huge = D(9 * 10**37)
    subtask.rows((huge,))
    with pytest.raises(DataError, match="ARITHMETIC_OVERFLOW"):
        subtask.rows((huge,))


def test_a_decimal_average_rounds_half_up_on_both_sides_of_zero() -> None:
    for sign in (1, -1):
        subtask = single(Decimal(10, 0), "avg", Decimal(14, 4))
        rows = [(D(sign),), (D(0),), (D(0),)]
        assert subtask.rows(*rows) == [(D("0.3333") * sign,)]
        assert subtask.rows((D(sign),)) == [(D("0.5000") * sign,)]
    tie = single(Decimal(10, 0), "avg", Decimal(14, 4))
    assert tie.rows(*[(D(1),)] * 1, *[(D(0),)] * 31) == [(D("0.0313"),)]


def test_a_very_large_decimal_average_is_exact() -> None:
    subtask = single(Decimal(38, 4), "avg", Decimal(38, 8))
    large = D("123456789012345678901234567890.1234")
    assert subtask.rows((large,), (large,)) == [(large,)]


def test_intervals_can_be_summed() -> None:
    subtask = single(t.DAY_TIME_INTERVAL, "sum", t.DAY_TIME_INTERVAL)
    assert subtask.rows((timedelta(hours=1),), (timedelta(hours=2),), (None,)) == [(timedelta(hours=3),)]


def by(function: str) -> Subtask:
    call = AggregateCall("r", function, ("v", "o"), t.STRING, (t.STRING, t.DOUBLE))
    return Subtask(running((), call, values=(Field("v", t.STRING), Field("o", t.DOUBLE))))


def test_max_by_puts_nan_above_all_numbers_and_ignores_null_orders() -> None:
    subtask = by("max_by")
    assert subtask.rows(("a", 1.0), ("b", None)) == [("a",)]
    assert subtask.rows(("c", math.nan), ("d", 1e300)) == [("c",)]
    assert subtask.rows(("e", 5.0)) == [("c",)]


def test_min_by_may_choose_a_null_value() -> None:
    subtask = by("min_by")
    assert subtask.rows(("a", 1.0)) == [("a",)]
    assert subtask.rows((None, 0.0)) == [(None,)]
    assert subtask.rows(("x", None)) == [(None,)]


def test_a_filter_that_nothing_passes_leaves_the_group_empty() -> None:
    call = AggregateCall("r", "sum", ("v",), t.LONG, (t.LONG,), filter="f")
    subtask = Subtask(running((), call, values=(Field("v", t.LONG), Field("f", t.BOOLEAN))))
    assert subtask.rows((1, False), (2, None)) == [(None,)]
    assert subtask.rows((3, True)) == [(3,)]
