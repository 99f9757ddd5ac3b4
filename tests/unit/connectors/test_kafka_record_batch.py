"""Record batches made of columns, read back byte by byte as the protocol says."""

from __future__ import annotations

import ctypes
import random

import google_crc32c
import numpy as np
import polars as pl
import pytest
from confluent_kafka import cimpl  # pyright: ignore[reportAttributeAccessIssue]
from hypothesis import given
from hypothesis import strategies as st

from tidegate.connectors.kafka.protocol.codec import Reader
from tidegate.connectors.kafka.protocol.partitioner import MANY_WORDS, STICKY_ROWS, Partitioner, by_key, partitions_of
from tidegate.connectors.kafka.protocol.record_batch import (
    HEAD_BYTES,
    LARGE_BYTES,
    Messages,
    RecordBatch,
    record_batch,
    sequence_after,
    together,
)
from tidegate.connectors.kafka.protocol.transactions import Handle

Message = tuple[bytes | None, bytes | None]
WIDTHS = (0, 1, 2, 11, 12, 13, 55, 63, 64, 65, 127, 128, 8_191, 8_192, 8_200, 16_384, 100_000)
"""Around the lengths at which a view or a varint changes its form."""


def messages_of(pairs: list[Message]) -> Messages:
    frame = pl.DataFrame(pairs, schema={"key": pl.Binary, "value": pl.Binary}, orient="row")
    return Messages.of(frame, has_key=True)


def signed(reader: Reader) -> int:
    coded = reader.varint()
    return coded >> 1 if not coded & 1 else -(coded >> 1) - 1


def field(reader: Reader) -> bytes | None:
    length = signed(reader)
    return None if length == -1 else reader.take(length)


def read_back(batch: RecordBatch) -> list[Message]:
    data = b"".join(bytes(part) for part in batch.parts)
    assert len(data) == batch.size_bytes
    reader = Reader(data)
    assert reader.int64() == 0
    assert reader.int32() == len(data) - 12
    assert reader.int32() == -1
    assert reader.int8() == 2
    assert int.from_bytes(reader.take(4), "big") == google_crc32c.value(data[21:])
    assert reader.int16() == 0x10, "part of a transaction, not compressed"
    assert reader.int32() == batch.count - 1
    assert (reader.int64(), reader.int64()) == (1_700_000_000_000, 1_700_000_000_000)
    assert (reader.int64(), reader.int16(), reader.int32()) == (4_000_000_000, 7, batch.sequence)
    found: list[Message] = []
    count = reader.int32()
    for number in range(count):
        record = Reader(reader.take(signed(reader)))
        assert (record.int8(), signed(record), signed(record)) == (0, 0, number)
        found.append((field(record), field(record)))
        assert signed(record) == 0, "headers"
        with pytest.raises(Exception, match="wanted"):
            record.take(1)
    with pytest.raises(Exception, match="wanted"):
        reader.take(1)
    return found


def made(messages: Messages) -> RecordBatch:
    return record_batch(messages, Handle("id", 4_000_000_000, 7), 123, 1_700_000_000_000)


@given(st.lists(st.tuples(*[st.none() | st.sampled_from(WIDTHS[:-1])] * 2), min_size=1, max_size=30), st.randoms())
def test_what_is_written_is_read(lengths: list[tuple[int | None, int | None]], chance: random.Random) -> None:
    pairs: list[Message] = [
        (None if key is None else chance.randbytes(key), None if value is None else chance.randbytes(value))
        for key, value in lengths
    ]
    assert read_back(made(messages_of(pairs))) == pairs


def test_numbers_within_a_batch_may_have_one_two_or_three_bytes() -> None:
    pairs: list[Message] = [(b"%d" % n, b"") for n in range(20_000)]
    assert read_back(made(messages_of(pairs))) == pairs


@given(st.lists(st.lists(st.sampled_from(WIDTHS[:9]), min_size=1, max_size=8), min_size=1, max_size=5), st.randoms())
def test_messages_of_several_frames_go_into_one_batch(frames: list[list[int]], chance: random.Random) -> None:
    """Each has buffers of its own, in which its views point."""
    parts: list[list[Message]] = [
        [(chance.randbytes(width), chance.randbytes(width + 5)) for width in widths] for widths in frames
    ]
    merged = together([messages_of(part) for part in parts])
    pairs = [pair for part in parts for pair in part]
    assert read_back(made(merged)) == pairs
    order = np.array(chance.sample(range(len(pairs)), len(pairs)))
    assert read_back(made(merged.take(order))) == [pairs[n] for n in order]
    assert read_back(made(merged.slice(len(pairs) // 2))) == pairs[len(pairs) // 2 :]


def test_slices_of_frames_and_frames_of_several_chunks_are_as_good() -> None:
    pairs: list[Message] = [(b"k" * (n % 20), None if n % 7 == 0 else b"v" * n) for n in range(100)]
    frame = pl.DataFrame(pairs, schema={"key": pl.Binary, "value": pl.Binary}, orient="row")
    several = pl.concat([frame.slice(10, 5), frame.slice(50, 50)], rechunk=False)
    assert read_back(made(Messages.of(several, has_key=True))) == pairs[10:15] + pairs[50:]
    assert read_back(made(Messages.of(several, has_key=False))) == [(None, v) for _, v in pairs[10:15] + pairs[50:]]


def test_a_column_of_very_many_buffers_is_as_good() -> None:
    parts = [
        pl.DataFrame({"key": [b"%d" % n, None], "value": [b"long enough not to be inline %d" % n] * 2})
        for n in range(200)
    ]
    frame = pl.concat(parts, rechunk=True)
    messages = Messages.of(frame, has_key=True)
    assert len(messages.buffers) < 200
    assert read_back(made(messages)) == list(frame.iter_rows())


def test_text_is_written_as_utf_8() -> None:
    frame = pl.DataFrame({"key": ["grün", "", None], "value": ["ein ganz langer Text – 漢字 – ✓", "é", ""]})
    found = read_back(made(Messages.of(frame, has_key=True)))
    assert found == [("grün".encode(), frame["value"][0].encode()), (b"", "é".encode()), (None, b"")]


@pytest.mark.parametrize("length", [LARGE_BYTES - 1, LARGE_BYTES, 5_000_000])
def test_a_large_message_goes_alone(length: int) -> None:
    for pair in ((b"key", b"x" * length), (b"x" * length, None), (None, b"x" * length)):
        batch = made(messages_of([pair]))
        assert read_back(batch) == [pair]
        assert batch.size_bytes > HEAD_BYTES + length


def test_sequences_begin_again_after_the_largest_number() -> None:
    assert sequence_after(0, 10) == 10
    assert sequence_after(2**31 - 3, 5) == 2


def partition_by_librdkafka(key: bytes, count: int) -> int:
    """The oracle: its own partitioner, out of the library that confluent_kafka has loaded."""
    library = ctypes.PyDLL(cimpl.__file__)
    function = library.rd_kafka_msg_partitioner_murmur2
    function.restype = ctypes.c_int32
    function.argtypes = (
        ctypes.c_void_p,
        ctypes.c_char_p,
        ctypes.c_size_t,
        ctypes.c_int32,
        ctypes.c_void_p,
        ctypes.c_void_p,
    )
    return function(None, key, len(key), count, None, None)


@pytest.mark.parametrize("keys", [1, 5_000])
def test_a_key_has_the_partition_that_librdkafka_chooses(keys: int) -> None:
    """Also the few that are much longer than the others."""
    chance = random.Random(7)
    long = 4 * MANY_WORDS
    lengths = [*range(40), long - 1, long, long + 1, long + 7, 5_000]
    for count in (1, 2, 3, 7, 1_000):
        made = [chance.randbytes(chance.choice(lengths)) for _ in range(keys)]
        expected = [partition_by_librdkafka(key, count) for key in made]
        assert by_key(pl.Series(made, dtype=pl.Binary), count).tolist() == expected
        assert by_key(pl.Series(made, dtype=pl.Binary).slice(100, 50), count).tolist() == expected[100:150]
    one = chance.randbytes(100_001)
    assert by_key(pl.Series([one], dtype=pl.Binary), 1_000).tolist() == [partition_by_librdkafka(one, 1_000)]


def test_other_partitioners_are_those_of_librdkafka_with_their_names() -> None:
    rows = pl.DataFrame({"key": [None, b"", b"k"] * STICKY_ROWS}, schema={"key": pl.Binary})
    led = np.array([1, 3])

    def chosen(by: Partitioner) -> np.ndarray:
        return partitions_of(rows, 5, led, has_key=True, has_partition=False, by=by)

    by_murmur2 = chosen(Partitioner.MURMUR2)
    assert by_murmur2.tolist() == [*by_key(rows["key"].head(3), 5)] * STICKY_ROWS
    assert by_murmur2[0] == by_murmur2[1], "null goes where empty goes"
    assert set(chosen(Partitioner.RANDOM).tolist()) == {1, 3}


def test_rows_without_a_key_go_together_and_only_where_somebody_leads() -> None:
    rows = pl.DataFrame({"key": [None] * (3 * STICKY_ROWS)}, schema={"key": pl.Binary})
    chosen = partitions_of(rows, 4, np.array([1, 3]), has_key=True, has_partition=False)
    runs = chosen.reshape(3, STICKY_ROWS)
    assert (runs == runs[:, :1]).all()
    assert runs[0, 0] != runs[1, 0]
    assert set(chosen.tolist()) == {1, 3}


def test_a_partition_that_a_row_names_is_taken() -> None:
    rows = pl.DataFrame({"partition": [5, None, -1, 0]}, schema={"partition": pl.Int32})
    chosen = partitions_of(rows, 6, np.array([2]), has_key=False, has_partition=True)
    assert chosen.tolist() == [5, 2, 2, 0]
