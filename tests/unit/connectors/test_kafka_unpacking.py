"""Record batches taken apart into columns: whatever a producer may have written comes out as it was."""

from __future__ import annotations

import random

import google_crc32c
import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.connectors.kafka_batches import (
    APPEND_TIME,
    COMMIT_MARKER,
    CONTROL,
    CREATED_MS,
    TRANSACTIONAL,
    Batch,
    Message,
    received,
)

from tidegate.connectors.kafka.client.stream import Stream
from tidegate.connectors.kafka.protocol import records as records_module
from tidegate.connectors.kafka.protocol.codec import SPARE_BYTES, MalformedAnswer, signed_varint
from tidegate.connectors.kafka.protocol.fetching import Aborted
from tidegate.connectors.kafka.protocol.unpacking import Received, extent, joined
from tidegate.connectors.kafka.protocol.varints import varints, words_of
from tidegate.connectors.kafka.source.consumer import unpacked_rows
from tidegate.model.errors import InvalidQuery, Unavailable

WIDTHS = (0, 1, 2, 5, 11, 12, 13, 55, 63, 64, 127, 128, 8_191, 8_192, 20_000)


def rows(one: Received, columns: tuple[str, ...] = ("key", "value")) -> list[tuple[object, ...]]:
    return [row for part in unpacked_rows(one, "t-0") for row in part.frame(columns, "t", 0).rows()]


def some_bytes(chance: random.Random, kind: str) -> bytes | None:
    if chance.random() < 0.1:
        return None
    size = chance.choice(WIDTHS)
    match kind:
        case "text":
            return bytes(chance.choices(b"abc {}\n\x7f\xc3\xa4", k=size))
        case "zeros":
            return bytes(chance.choices(b"\0\x0c\x20", k=size))
        case _:
            return chance.randbytes(size)


@pytest.mark.parametrize("codec", [0, 1, 2, 3, 4])
@pytest.mark.parametrize("kind", ["text", "binary", "zeros"])
def test_whatever_was_written_comes_out(kind: str, codec: int, seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(10):
        batches, written, offset = list[Batch](), list[Message](), chance.choice((0, 77, 2**40))
        start = offset
        for _ in range(chance.choice((1, 1, 2, 7))):
            some = [(some_bytes(chance, kind), some_bytes(chance, kind)) for _ in range(chance.choice((1, 3, 70)))]
            batches.append(Batch(some, offset, codec if chance.random() < 0.7 else 0))
            written += some
            offset += len(some)
        found = rows(received(*batches, offset=start), ("key", "value", "offset"))
        assert [one[:2] for one in found] == written
        assert [one[2] for one in found] == list(range(start, offset))


def test_text_is_found_without_following_it_record_by_record(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*arguments: object) -> np.ndarray:
        raise AssertionError("it was followed")

    monkeypatch.setattr(records_module, "_followed", never)
    chance = random.Random(5)
    texts = [(b"key-%d" % n, b"x" * chance.randrange(4, 30_000)) for n in range(200)]
    assert rows(received(Batch(texts), Batch(texts, 200))) == texts * 2
    empty = [(b"", b"some text")] * 90
    assert rows(received(Batch(empty), Batch([(None, None)] * 90, 90))) == [*empty, *[(None, None)] * 90]


@pytest.mark.parametrize("headers", [b"\x02\x02h\x04vv", b"\x02\x02h\x06\0\x20\0"])
def test_headers_that_nobody_wants_are_passed(headers: bytes) -> None:
    some = [(b"k%d" % n, b"v" * n) for n in range(150)]
    assert rows(received(Batch(some, headers=headers))) == some


def test_attributes_that_mean_something_one_day_do_not_hide_a_record() -> None:
    some = [(b"k", b"v%d" % n) for n in range(100)]
    assert rows(received(Batch(some, record_attributes=b"\x05"))) == some


def test_columns_beside_key_and_value() -> None:
    columns = ("topic", "timestamp", "offset", "timestampType", "partition")
    created = rows(received(Batch([(b"a", b"b")] * 2, 5), offset=5), columns)
    assert [(one[0], one[2], one[3], one[4]) for one in created] == [("t", 5, 0, 0), ("t", 6, 0, 0)]
    assert [one[1].timestamp() * 1_000 for one in created] == [CREATED_MS, CREATED_MS + 1]  # pyright: ignore[reportAttributeAccessIssue]
    (appended,) = rows(received(Batch([(b"a", b"b")], attributes=APPEND_TIME)), columns)
    assert appended[3] == 1 and appended[1].timestamp() * 1_000 == CREATED_MS + 9  # pyright: ignore[reportAttributeAccessIssue]
    assert rows(received(Batch([(b"a", b"b")] * 3)), ()) == [()] * 3
    assert rows(received(Batch([(b"a", b"b")] * 2)), ("topic",)) == [("t",), ("t",)]


def test_what_was_not_asked_for_and_gaps_of_compaction_are_passed() -> None:
    some = [(None, b"%d" % n) for n in range(4)]
    batch = Batch(some, 10, deltas=(0, 3, 4, 9))
    assert rows(received(batch, offset=13), ("offset", "value")) == [(13, b"1"), (14, b"2"), (19, b"3")]
    assert rows(received(batch, offset=20)) == []
    assert extent(received(batch).data, len(batch.encode()))[1:] == (20, 3)


def test_nothing_of_aborted_transactions_and_no_marker_is_seen() -> None:
    """A producer's next transaction counts again, others' rows always do."""
    ours, theirs = 7, 8
    one = received(
        Batch([(None, b"kept")], 0, TRANSACTIONAL, ours),
        Batch([COMMIT_MARKER], 1, TRANSACTIONAL | CONTROL, ours),
        Batch([(None, b"aborted")], 2, TRANSACTIONAL, ours),
        Batch([(None, b"theirs")], 3, TRANSACTIONAL, theirs),
        Batch([(None, b"aborted, too")], 4, TRANSACTIONAL, ours),
        Batch([COMMIT_MARKER], 5, TRANSACTIONAL | CONTROL, ours),
        Batch([(None, b"kept again")], 6, TRANSACTIONAL, ours),
        Batch([(None, b"plain")], 7, 0, ours),
        aborted=(Aborted(ours, 2),),
    )
    assert [value for _, value in rows(one)] == [b"kept", b"theirs", b"kept again", b"plain"]
    uncommitted = Received(one.data, 0)
    assert len(rows(uncommitted)) == 6


def test_parts_that_are_joined_are_read_as_one() -> None:
    parts = [received(Batch([(None, b"%d" % n)], n, TRANSACTIONAL, n % 2), offset=n) for n in range(5)]
    parts[2] = Received(parts[2].data, 2, (Aborted(0, 2),))
    assert [value for _, value in rows(joined(parts))] == [b"0", b"1", b"3"]
    assert joined(parts[:1]) is parts[0]


def test_a_batch_that_was_cut_off_is_left_for_the_next_answer() -> None:
    first, second = Batch([(None, b"a")] * 3).encode(), Batch([(None, b"b")], 3).encode()
    for size in (len(first), len(first) + 5, len(first) + 61, len(first) + len(second) - 1):
        cut = np.frombuffer(bytearray((first + second)[:size] + bytes(SPARE_BYTES)), np.uint8)
        assert extent(cut, size)[:2] == (len(first), 3)
    assert extent(cut[:40], 24)[0] == 0


def test_a_damaged_batch_is_an_error_and_no_row() -> None:
    data = received(Batch([(b"k", b"value")] * 20)).data
    for at in (25, 61, 70, len(data) - SPARE_BYTES - 2):
        damaged = data.copy()
        damaged[at] ^= 1
        with pytest.raises(Unavailable, match="t-0 is damaged: its checksum"):
            rows(Received(damaged, 0))


def test_a_batch_that_says_it_has_more_than_there_is_is_an_error() -> None:
    whole = bytearray(Batch([(b"k", b"v")] * 3).encode())
    whole[57:61] = (5).to_bytes(4, "big")
    whole[17:21] = google_crc32c.value(bytes(whole[21:])).to_bytes(4, "big")
    with pytest.raises(MalformedAnswer, match="fewer than it says"):
        rows(Received(np.frombuffer(whole + bytes(SPARE_BYTES), np.uint8), 0))


def test_formats_of_other_times_are_named() -> None:
    old = received(Batch([(b"k", b"v")], magic=1))
    with pytest.raises(InvalidQuery, match=r"format 1, of Kafka before 0\.11"):
        extent(old.data, old.size_bytes)
    with pytest.raises(Unavailable, match="format 3, which is not known"):
        extent(received(Batch([(b"k", b"v")], magic=3)).data, old.size_bytes)


@given(st.lists(st.integers(-(2**54), 2**54), min_size=1, max_size=50))
def test_varints_of_any_size(numbers: list[int]) -> None:
    coded = [signed_varint(number) for number in numbers]
    ends = np.cumsum([len(one) for one in coded])
    data = np.frombuffer(b"".join(coded) + bytes(SPARE_BYTES), np.uint8)
    found, behind = varints(words_of(data), ends - [len(one) for one in coded])
    assert found.tolist() == numbers
    assert behind.tolist() == ends.tolist()


def test_a_varint_without_an_end_is_an_error() -> None:
    with pytest.raises(MalformedAnswer):
        varints(words_of(np.full(30, 0xFF, np.uint8)), np.zeros(1, np.int64))


def test_a_frame_keeps_the_bytes_it_points_to() -> None:
    frames = [part.frame(("value",), "t", 0) for part in unpacked_rows(received(Batch([(None, b"x" * 50)] * 9)), "t-0")]
    assert pl.concat(frames)["value"].to_list() == [b"x" * 50] * 9


def test_an_end_is_not_seen_before_the_rows_that_lead_to_it() -> None:
    """The thread that fetches is ahead of the reader: a reader that found nothing a moment ago would take the end for its position."""
    stream = Stream(("t", 0))
    stream.begin(0)
    assert stream.take() is None
    assert stream.end == -1
    stream.arrived(received(Batch([(None, b"a")])), 1, 0)
    stream.found_end, stream.found_loss = 1, "gone"
    assert (stream.end, stream.lost) == (-1, "")
    assert stream.take() is not None
    assert (stream.end, stream.lost) == (-1, "")
    assert stream.take() is None
    assert (stream.end, stream.lost) == (1, "gone")
    stream.begin(5)
    assert (stream.end, stream.lost, stream.take(), stream.end) == (-1, "", None, -1)


def test_small_answers_are_taken_together() -> None:
    stream = Stream(("t", 0))
    stream.begin(0)
    one = received(Batch([(None, b"a")]))
    for n in range(5):
        stream.arrived(one, n + 1, 0)
    assert stream.take() is one
    assert len(list(stream.take_more(3 * one.size_bytes))) == 2
    assert stream.received_bytes == 2 * one.size_bytes
