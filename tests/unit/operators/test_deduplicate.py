"""Deduplication: which rows pass, when keys are forgotten, how much is kept."""

from __future__ import annotations

import math
from dataclasses import replace

import polars as pl
import pytest

from tidegate.model import types as t
from tidegate.model.elements import WATERMARK_MAX_US, Batch
from tidegate.model.errors import CorruptSnapshot
from tidegate.model.ids import CheckpointId, OperatorId, SlotIndex
from tidegate.model.snapshot import ChunkHandle
from tidegate.model.types import Array, DataType, Field, Struct
from tidegate.operators.columns import polars_schema
from tidegate.operators.deduplicate import DeduplicateOperator
from tidegate.operators.partial_deduplicate import PartialDeduplicateOperator
from tidegate.operators.protocol import NewChunk, OperatorContext, OperatorState, Restored, RestoredChunk
from tidegate.plan.keyed import Deduplicate, PartialDeduplicate
from tidegate.plan.relational import EventTimeKey
from tidegate.state.hashing import hash_columns
from tidegate.state.keygroups import key_groups, range_of

SECOND_US = 1_000_000
ROWS = (Field("k", t.LONG), Field("v", t.STRING), Field("ts", t.TIMESTAMP_NTZ))
PLAIN = Deduplicate(id=OperatorId("d"), keys=("k",), event_time=None, schema=ROWS)
BY_TIME = replace(PLAIN, keys=("k", "ts"), event_time=EventTimeKey("ts", None))
WITHIN = replace(PLAIN, event_time=EventTimeKey("ts", None), within_watermark=True, delay_us=10 * SECOND_US)


def operator(
    node: Deduplicate, restored: Restored | None = None, index: int = 0, parallelism: int = 1
) -> DeduplicateOperator:
    groups = range_of(index, parallelism, 16)
    return DeduplicateOperator(
        node, OperatorContext(node.id, SlotIndex(index), parallelism, 16, groups, restored or Restored())
    )


def frame(node: Deduplicate, *rows: tuple) -> pl.DataFrame:
    timed = [
        tuple(value * SECOND_US if name.name == "ts" else value for value, name in zip(row, node.schema, strict=True))
        for row in rows
    ]
    types = polars_schema(node.schema)
    loose = {name: pl.Int64() if name == "ts" else dtype for name, dtype in types.items()}
    return pl.DataFrame(timed, schema=loose, orient="row").cast(dict(types))  # type: ignore[arg-type]


def feed(on: DeduplicateOperator, node: Deduplicate, *rows: tuple) -> list:
    """The second column of what passes."""
    return [value for out in on.on_batch(Batch(frame(node, *rows))) for value in out.rows.to_series(1).to_list()]


def restored(*states: OperatorState) -> Restored:
    chunks = [chunk for state in states for chunk in state.chunks]
    assert all(isinstance(chunk, NewChunk) for chunk in chunks)
    handles = [ChunkHandle(name="c", groups=c.groups, rows=c.rows.height, size_bytes=0, checksum=0) for c in chunks]
    return Restored(
        tuple(RestoredChunk(handle, chunk.rows) for handle, chunk in zip(handles, chunks, strict=True)),
        tuple(state.value for state in states),
    )


def test_the_first_row_of_a_key_passes_and_null_is_a_key() -> None:
    on = operator(PLAIN)
    assert feed(on, PLAIN, (1, "a", 0), (None, "b", 0), (1, "c", 0)) == ["a", "b"]
    assert feed(on, PLAIN, (None, "d", 0), (2, "e", 0), (1, "f", 0)) == ["e"]
    assert on.counters.state_rows == 2 + 1


def test_rows_keep_their_order_and_all_their_columns() -> None:
    on = operator(PLAIN)
    (out,) = on.on_batch(Batch(frame(PLAIN, (3, "a", 1), (1, "b", 2), (3, "c", 3), (2, "d", 4)), origin=7))
    assert out.origin == 7
    assert out.rows.schema == polars_schema(ROWS)
    assert out.rows.get_column("v").to_list() == ["a", "b", "d"]


def test_a_batch_of_repeats_gives_no_batch() -> None:
    on = operator(PLAIN)
    feed(on, PLAIN, (1, "a", 0))
    assert not list(on.on_batch(Batch(frame(PLAIN, (1, "b", 0)))))


@pytest.mark.parametrize(
    ("of", "values", "kept"),
    [
        (t.DOUBLE, [0.0, -0.0, math.nan, -math.nan, None, None], 3),
        (Array(t.STRING), [["a"], ["a"], [], None, [None], ["a", None]], 5),
        (
            Struct((Field("x", t.INTEGER), Field("y", t.STRING))),
            [{"x": 1, "y": None}, {"x": None, "y": None}, None, None],
            3,
        ),
        (t.BINARY, [b"", b"\0", b"", None], 3),
    ],
    ids=["double", "array", "struct", "binary"],
)
def test_keys_compare_as_in_spark(of: DataType, values: list, kept: int) -> None:
    node = replace(PLAIN, schema=(Field("k", of), Field("v", t.LONG)))
    on = operator(node)
    assert len(feed(on, node, *((value, number) for number, value in enumerate(values)))) == kept
    assert feed(on, node, *((value, number) for number, value in enumerate(values))) == []


def test_a_late_row_is_dropped_and_counted_even_if_its_key_is_new() -> None:
    on = operator(BY_TIME)
    list(on.on_watermark(10 * SECOND_US))
    assert feed(on, BY_TIME, (1, "late", 10), (1, "on time", 11), (2, "x", 12)) == [
        "on time",
        "x",
    ]
    assert on.counters.late_rows == 1


def test_keys_whose_time_has_passed_are_forgotten() -> None:
    on = operator(BY_TIME)
    feed(on, BY_TIME, *((number, "a", number) for number in range(100)))
    list(on.on_watermark(89 * SECOND_US))
    assert on.counters.state_rows == 10
    list(on.on_watermark(WATERMARK_MAX_US))
    assert on.counters.state_rows == 0


def test_without_the_event_time_among_the_keys_nothing_is_forgotten_and_late_rows_are_dropped() -> None:
    node = replace(PLAIN, event_time=EventTimeKey("ts", None))
    on = operator(node)
    assert feed(on, node, (1, "a", 5)) == ["a"]
    list(on.on_watermark(100 * SECOND_US))
    assert feed(on, node, (2, "late", 99), (1, "again", 101), (2, "on time", 101)) == ["on time"]
    assert (on.counters.state_rows, on.counters.late_rows) == (2, 1)


def test_within_the_watermark_a_key_may_come_again_after_its_delay() -> None:
    on = operator(WITHIN)
    assert feed(on, WITHIN, (1, "first", 5), (1, "repeat", 6)) == ["first"]
    list(on.on_watermark(14 * SECOND_US))
    assert feed(on, WITHIN, (1, "still a repeat", 30)) == []
    list(on.on_watermark(15 * SECOND_US))
    assert feed(on, WITHIN, (1, "new again", 31), (1, "repeat", 32)) == ["new again"]


def test_a_key_that_expired_passes_before_anybody_looked_for_expired_keys() -> None:
    """Looking at all keys is put off; what a row may do is not."""
    on = operator(WITHIN)
    feed(on, WITHIN, *((number, "a", 1_000) for number in range(1_000)))
    list(on.on_watermark(20 * SECOND_US))
    feed(on, WITHIN, (5_000, "b", 30))
    list(on.on_watermark(40 * SECOND_US))
    assert feed(on, WITHIN, (5_000, "c", 50)) == ["c"]


@pytest.mark.parametrize("node", [BY_TIME, WITHIN], ids=["by time", "within the watermark"])
def test_a_key_forgotten_before_the_barrier_is_not_restored(node: Deduplicate) -> None:
    before = operator(node)
    feed(before, node, (1, "a", 1), (2, "b", 50))
    first = before.snapshot(CheckpointId(1))
    list(before.on_watermark(30 * SECOND_US))
    value = before.snapshot(CheckpointId(2)).value
    after = operator(node, replace(restored(first), values=(value,)))
    assert after.counters.state_rows == 1
    assert feed(after, node, (2, "again", 50)) == []


@pytest.mark.parametrize(("old", "new"), [(1, 3), (3, 1), (2, 5), (4, 3)])
def test_rescaling_keeps_every_key_once(old: int, new: int) -> None:
    rows = [(number, "a", 1) for number in range(200)]
    groups = key_groups(hash_columns(frame(PLAIN, *rows).select("k"), (t.LONG,)), 16)

    def of(subtask: int, parallelism: int) -> list[tuple]:
        mine = range_of(subtask, parallelism, 16)
        return [row for row, group in zip(rows, groups, strict=True) if mine.start <= group < mine.stop]

    before = [operator(PLAIN, index=index, parallelism=old) for index in range(old)]
    for index, on in enumerate(before):
        feed(on, PLAIN, *of(index, old))
    state = restored(*(on.snapshot(CheckpointId(1)) for on in before))
    after = [operator(PLAIN, state, index, new) for index in range(new)]
    assert sum(on.counters.state_rows for on in after) == 200
    assert all(feed(on, PLAIN, *of(index, new)) == [] for index, on in enumerate(after))


def test_what_a_faster_neighbour_had_forgotten_stays_late_after_a_rescale() -> None:
    """Barriers that overtake rows find subtasks at different watermarks."""
    slow, fast = (operator(BY_TIME, index=index, parallelism=2) for index in range(2))
    list(fast.on_watermark(50 * SECOND_US))
    merged = operator(BY_TIME, restored(slow.snapshot(CheckpointId(1)), fast.snapshot(CheckpointId(1))))
    rows = [(number, str(number), 40) for number in range(100)]
    keys = frame(BY_TIME, *rows).select("k", "ts")
    owner = key_groups(hash_columns(keys, (t.LONG, t.TIMESTAMP_NTZ)), 16) >= range_of(1, 2, 16).start
    passed = feed(merged, BY_TIME, *rows)
    assert passed == [str(number) for number, late in enumerate(owner) if not late]
    assert merged.counters.late_rows == int(owner.sum()) > 0


def test_a_damaged_value_is_refused() -> None:
    with pytest.raises(CorruptSnapshot):
        operator(PLAIN, Restored(values=(b"\x80\x04K",)))


@pytest.mark.parametrize("node", [BY_TIME, WITHIN], ids=["by time", "within the watermark"])
def test_state_stays_flat_over_ten_minutes_of_stream_time(node: Deduplicate) -> None:
    """A thousand new keys a second, each of them three times, watermark 10 s behind."""
    on = operator(node)
    passed, sizes = 0, []
    for second in range(600):
        rows = [(second * 1_000 + number, "a", second) for number in range(1_000)]
        passed += len(feed(on, node, *rows, *rows, *rows[:500]))
        list(on.on_watermark((second - 10) * SECOND_US))
        sizes.append((on.counters.state_rows, on.counters.state_bytes))
    assert passed == 600_000
    warm, rest = sizes[30:60], sizes[60:]
    assert max(rows for rows, _ in rest) <= 1.1 * max(rows for rows, _ in warm) <= 1.1 * 25_000
    assert max(size for _, size in rest) <= 1.5 * max(size for _, size in warm)


def test_the_first_phase_drops_repeats_within_a_batch_only() -> None:
    phase = PartialDeduplicateOperator(PartialDeduplicate(deduplicate=PLAIN, schema=ROWS))

    def through(*rows: tuple) -> list:
        (out,) = phase.on_batch(Batch(frame(PLAIN, *rows), origin=3))
        assert out.origin == 3
        return out.rows.get_column("v").to_list()

    assert through((1, "a", 0), (1, "b", 0), (None, "c", 0), (None, "d", 0)) == ["a", "c"]
    assert through((1, "e", 0)) == ["e"]


def test_the_first_phase_stops_looking_where_keys_do_not_repeat_and_tries_again_later() -> None:
    phase = PartialDeduplicateOperator(PartialDeduplicate(deduplicate=PLAIN, schema=ROWS))
    distinct = [(number, "a", 0) for number in range(100)]
    repeated = [(1, "a", 0)] * 100

    def height(rows: list[tuple]) -> int:
        return next(iter(phase.on_batch(Batch(frame(PLAIN, *rows))))).rows.height

    assert height(distinct) == 100
    heights = [height(repeated) for _ in range(40)]
    assert heights[0] == 100 and heights[-1] == 1
