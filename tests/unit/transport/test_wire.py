from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import polars as pl
import pytest

from tidegate.model.elements import (
    Barrier,
    Batch,
    CancelCheckpoint,
    CheckpointKind,
    EndOfData,
    Idle,
    SourceStatus,
    Watermark,
)
from tidegate.model.errors import Bug, SlotLost
from tidegate.model.ids import Attempt, ChannelId, CheckpointId, SlotIndex
from tidegate.transport import wire

CHANNEL = ChannelId(3, SlotIndex(0), SlotIndex(7))


def over_the_wire(element, sequence=5):
    parts = [memoryview(bytes(part)) for part in wire.encode_element(Attempt(9), CHANNEL, sequence, element)]
    return wire.decode(parts)


@pytest.mark.parametrize(
    "element",
    [
        Watermark(-(1 << 62)),
        Watermark(1_700_000_000_000_000),
        Idle(),
        Barrier(CheckpointId(12), CheckpointKind.FINAL),
        Barrier(CheckpointId(1)),
        *(Barrier(CheckpointId(1), kind, unaligned=True) for kind in CheckpointKind),
        CancelCheckpoint(CheckpointId(4)),
        EndOfData(),
    ],
)
def test_an_element_arrives_as_it_was_sent_with_attempt_channel_and_sequence(element):
    assert over_the_wire(element) == wire.ElementFrame(Attempt(9), CHANNEL, 5, element)


ROWS = pl.DataFrame(
    {
        "long": [1, None, -(1 << 63)],
        "double": [0.5, float("inf"), None],
        "text": ["", "ä long text that does not fit into twelve bytes", None],
        "binary": [b"\x00", None, b"x" * 40],
        "flag": [True, None, False],
        "day": [date(2024, 2, 29), None, date(1, 1, 1)],
        "instant": [datetime(2024, 1, 1, tzinfo=UTC), None, datetime(1969, 1, 1, tzinfo=UTC)],
        "local": [datetime(2024, 1, 1), None, datetime(1969, 1, 1)],
        "duration": [timedelta(days=1), None, timedelta(microseconds=-1)],
        "decimal": [Decimal("1.50"), None, Decimal("-9.99")],
        "list": [[1, None], None, []],
        "struct": [{"a": 1, "b": "x"}, None, {"a": None, "b": None}],
        "nothing": [None, None, None],
    },
    schema_overrides={
        "instant": pl.Datetime("us", "UTC"),
        "local": pl.Datetime("us"),
        "duration": pl.Duration("us"),
        "decimal": pl.Decimal(10, 2),
        "nothing": pl.Null,
    },
)


@pytest.mark.parametrize("copies", [1, 4_000], ids=["small", "large enough for zero copy"])
def test_rows_of_every_type_arrive_unchanged(copies):
    rows = pl.concat([ROWS] * copies)
    frame = over_the_wire(Batch(rows))
    assert isinstance(frame, wire.ElementFrame) and isinstance(frame.element, Batch)
    assert frame.element.rows.schema == rows.schema
    assert frame.element.rows.equals(rows)


def test_rows_without_columns_keep_their_number():
    frame = over_the_wire(Batch(pl.DataFrame({"a": [1, 2, 3]}).drop("a")))
    assert isinstance(frame, wire.ElementFrame) and isinstance(frame.element, Batch)
    assert frame.element.rows.shape == (3, 0)


def test_a_filtered_batch_ships_only_the_strings_it_refers_to():
    rows = pl.DataFrame({"text": [f"{number:040d}" for number in range(10_000)]})
    whole, few = (
        sum(memoryview(part).nbytes for part in wire.encode_element(Attempt(1), CHANNEL, 0, Batch(batch)))
        for batch in (rows, rows.filter(pl.col("text").str.ends_with("00")))
    )
    assert few < whole / 20


def test_credit_comes_back_as_totals():
    parts = wire.encode_credit(Attempt(2), CHANNEL, 17, 1 << 40)
    assert wire.decode(parts) == wire.CreditFrame(Attempt(2), CHANNEL, 17, 1 << 40)


@pytest.mark.parametrize(
    "parts",
    [
        [],
        [b""],
        [b"GET / HTTP/1.1"],
        [b"\x09" + bytes(40)],
        [b"\x01" + bytes(40)],
        [b"\x01" + bytes(40), b"not arrow"],
        [b"\x02" + bytes(40), b"a watermark has no second part"],
        [b"\x01" + bytes(40), b"\x80\x04\x95 a pickle"],
    ],
)
def test_what_is_no_frame_of_ours_ends_the_attempt(parts):
    """T63: nothing that arrives is ever unpickled."""
    with pytest.raises(SlotLost):
        wire.decode(parts)


def test_a_damaged_batch_ends_the_attempt():
    header, body = wire.encode_element(Attempt(1), CHANNEL, 0, Batch(ROWS))
    with pytest.raises(SlotLost):
        wire.decode([header, bytes(body)[: len(bytes(body)) // 2]])


def test_a_source_status_never_enters_a_channel():
    with pytest.raises(Bug):
        wire.encode_element(Attempt(1), CHANNEL, 0, SourceStatus(frozenset(), False))
