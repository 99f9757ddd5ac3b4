"""A chunk in pieces has the bytes and the checksum of the whole, however it is cut."""

from __future__ import annotations

import zlib

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from tidegate.state.codec import encode, encode_chunk
from tidegate.state.encoded import Encoded, combined


@given(st.binary(max_size=64), st.binary(max_size=3_000))
def test_the_checksum_of_two_texts_follows_from_their_own(first: bytes, second: bytes) -> None:
    assert combined(zlib.crc32(first), zlib.crc32(second), len(second)) == zlib.crc32(first + second)


@given(st.lists(st.binary(max_size=40), max_size=8), st.integers(1, 50))
def test_parts_are_the_same_bytes_in_equal_sizes(pieces: list[bytes], part_bytes: int) -> None:
    data = Encoded.of(*pieces).after(b"header")
    parts = list(data.parts(part_bytes))
    assert b"".join(parts) == data.joined() == b"header" + b"".join(pieces)
    assert all(len(part) == part_bytes for part in parts[:-1])
    assert all(0 < len(part) <= part_bytes for part in parts)
    assert (data.size_bytes, data.checksum) == (len(data.joined()), zlib.crc32(data.joined()))


def test_columns_of_fixed_width_are_not_copied() -> None:
    rows = pl.DataFrame({"x": pl.int_range(1_000, eager=True).hash()})
    data = encode(rows)
    assert data.joined() == encode_chunk(rows)
    shown = [piece.obj.address for piece in data.pieces if isinstance(piece, memoryview)]
    assert rows["x"].to_arrow().buffers()[1].address in shown
