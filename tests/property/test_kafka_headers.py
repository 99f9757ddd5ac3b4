"""Headers of records: as whole columns they become the bytes that a producer would write one by one, and come back as they were."""

from __future__ import annotations

import numpy as np
import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from tidegate.connectors.kafka.protocol.codec import SPARE_BYTES, signed_varint
from tidegate.connectors.kafka.protocol.compression import CODECS, Compression
from tidegate.connectors.kafka.protocol.headers import HEADERS, decoded, encoded
from tidegate.connectors.kafka.protocol.record_batch import Messages, record_batch
from tidegate.connectors.kafka.protocol.transactions import Handle
from tidegate.connectors.kafka.protocol.unpacking import Received
from tidegate.connectors.kafka.protocol.varints import varint_views, words_of
from tidegate.connectors.kafka.source.consumer import unpacked_rows

SIZES = st.sampled_from((0, 1, 4, 5, 11, 12, 13, 63, 64, 127, 128, 8_191, 8_192, 70_000))
CONTENT = st.builds(lambda size, fill: fill * size, SIZES, st.binary(min_size=1, max_size=1))
NAMES = st.text(max_size=20) | st.builds(lambda size: "ü" * size, SIZES)
LISTS = st.none() | st.lists(st.tuples(NAMES, st.none() | CONTENT), max_size=6)
Headers = list[tuple[str, bytes | None]] | None


def column(rows: list[Headers]) -> pl.Series:
    made = [None if row is None else [{"key": name, "value": content} for name, content in row] for row in rows]
    return pl.Series("headers", made, dtype=HEADERS)


def by_hand(row: Headers) -> bytes:
    found = signed_varint(len(row or ()))
    for name, content in row or ():
        data = name.encode()
        found += signed_varint(len(data)) + data
        found += signed_varint(-1) if content is None else signed_varint(len(content)) + content
    return found


@given(st.lists(LISTS, max_size=20), st.integers(0, 5))
def test_columns_become_the_bytes_of_a_producer_and_come_back(rows: list[Headers], skipped: int) -> None:
    """Also when the column is a part of another one."""
    some = column([[("skipped", b"x" * 30)]] * skipped + rows).slice(skipped)
    laid_down = encoded(some)
    assert laid_down.to_list() == [by_hand(row) for row in rows]
    data = np.frombuffer(b"before" + b"".join(laid_down.to_list()) + bytes(SPARE_BYTES), np.uint8)
    sizes = [len(one) for one in laid_down.to_list()]
    at = 6 + np.cumsum([0, *sizes])[:-1].astype(np.int64)
    found = decoded(data, words_of(data), at)
    assert found.dtype == HEADERS
    assert found.to_list() == [one or None for one in some.to_list()], "a message without headers has a null"


@given(
    st.lists(st.tuples(st.none() | CONTENT, st.none() | CONTENT, LISTS), min_size=1, max_size=20),
    st.sampled_from(sorted(CODECS)),
)
def test_batches_with_headers_come_back_whatever_the_codec(
    rows: list[tuple[bytes | None, bytes | None, Headers]], codec: str
) -> None:
    frame = pl.DataFrame(
        [
            pl.Series("key", [key for key, _, _ in rows], pl.Binary),
            pl.Series("value", [value for _, value, _ in rows], pl.Binary),
            column([headers for _, _, headers in rows]),
        ]
    )
    messages = Messages.of(frame, has_key=True, has_headers=True)
    batch = record_batch(messages, Handle("", 7, 0), 0, 1_700_000_000_000, Compression(CODECS[codec]))
    data = np.frombuffer(b"".join(bytes(part) for part in batch.parts) + bytes(SPARE_BYTES), np.uint8)
    assert len(data) == batch.size_bytes + SPARE_BYTES
    (part,) = unpacked_rows(Received(data, 0), "t-0")
    expected = [
        (key, value, [{"key": name, "value": content} for name, content in headers or ()] or None)
        for key, value, headers in rows
    ]
    assert part.frame(("key", "value", "headers"), "t", 0).rows() == expected


@given(st.lists(st.integers(-1, 2**31), max_size=50))
def test_numbers_are_the_varints_of_the_protocol(numbers: list[int]) -> None:
    views = varint_views(np.array(numbers, np.int64))
    data = views.astype("<u8").tobytes()
    for number, at in zip(numbers, range(0, len(data), 16), strict=True):
        width = int.from_bytes(data[at : at + 4], "little")
        assert data[at + 4 : at + 4 + width] == signed_varint(number)
