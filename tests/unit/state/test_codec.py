"""Chunks as bytes: what comes back equals what went in, or an error names the chunk."""

from __future__ import annotations

import pickle
import struct
import zlib

import polars as pl
import pyarrow as pa
import pytest
from tests.unit.state.test_hashing import COLUMNS

from tidegate.model.errors import CorruptSnapshot
from tidegate.state.codec import decode_chunk, encode_chunk

ROWS = pl.DataFrame({"kg": pl.Series([1, 2], dtype=pl.UInt32), "k0": ["a", None], "v0": [[1, None], []]})


@pytest.mark.parametrize("name", sorted(COLUMNS))
def test_every_type_comes_back_as_it_was(name: str) -> None:
    rows = pl.DataFrame({"k0": COLUMNS[name][1]})
    back = decode_chunk(encode_chunk(rows), "c")
    assert back.schema == rows.schema
    assert back.equals(rows, null_equal=True)


@pytest.mark.parametrize(
    "values",
    [
        [0, 255],
        [0, 256],
        [-(2**63), -(2**63) + 65_535],
        [2**63 - 2**32, 2**63 - 1],
        [-(2**63), 2**63 - 1],
        [None, None],
        [None, 7],
        [5],
    ],
)
@pytest.mark.parametrize("dtype", [pl.Int64, pl.Datetime("us"), pl.Datetime("us", "UTC"), pl.Duration("us")])
def test_short_integers_come_back_whole(values: list[int | None], dtype: pl.DataType) -> None:
    rows = pl.DataFrame({"v0": pl.Series(values, dtype=pl.Int64).cast(dtype)})
    back = decode_chunk(encode_chunk(rows), "c")
    assert back.schema == rows.schema
    assert back.equals(rows, null_equal=True)


def test_a_narrow_range_takes_few_bytes() -> None:
    rows = pl.DataFrame({"k0": pl.Series(range(10**12, 10**12 + 60_000), dtype=pl.Int64)})
    assert len(encode_chunk(rows)) < 60_000 * 2 + 1_000


def test_an_empty_chunk_keeps_its_columns() -> None:
    assert decode_chunk(encode_chunk(ROWS.clear()), "c").schema == ROWS.schema


def test_equal_rows_encode_equally() -> None:
    assert encode_chunk(ROWS) == encode_chunk(ROWS.clone())


def test_damage_anywhere_is_noticed_and_named() -> None:
    """T13."""
    whole = encode_chunk(ROWS)
    for at in range(len(whole)):
        if at in (6, 7):
            continue  # Reserved, not read.
        broken = whole[:at] + bytes([whole[at] ^ 0x40]) + whole[at + 1 :]
        with pytest.raises(CorruptSnapshot, match="aggregate-1/000002-00000-000007-0"):
            decode_chunk(broken, "aggregate-1/000002-00000-000007-0")


@pytest.mark.parametrize("length", [0, 3, 19, 20, 100, -1])
def test_a_truncated_chunk_is_refused(length: int) -> None:
    """T13."""
    with pytest.raises(CorruptSnapshot, match="chunk-9 is damaged"):
        decode_chunk(encode_chunk(ROWS)[:length], "chunk-9")


def test_a_newer_format_is_refused_with_the_way_out() -> None:
    whole = bytearray(encode_chunk(ROWS))
    whole[4] = 9
    with pytest.raises(CorruptSnapshot, match="has format 9") as error:
        decode_chunk(bytes(whole), "c")
    assert "newer" in error.value.hint


class Bomb:
    fired = False

    def __reduce__(self):
        return exec, ("import tests.unit.state.test_codec as m; m.Bomb.fired = True",)


def framed(body: bytes) -> bytes:
    return struct.pack("<4sHHIQ", b"TGCK", 1, 0, zlib.crc32(body), len(body)) + body


def test_decoding_runs_no_code() -> None:
    """T63: neither a bare pickle nor one hidden in the metadata of Arrow data."""
    bomb = pickle.dumps(Bomb())
    with pytest.raises(CorruptSnapshot):
        decode_chunk(framed(bomb), "c")
    metadata = {b"ARROW:extension:name": b"arrow.py_extension_type", b"ARROW:extension:metadata": bomb, b"pandas": bomb}
    table = pa.table({"k0": [1]}, schema=pa.schema([pa.field("k0", pa.int64(), metadata=metadata)]))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    with pytest.raises(CorruptSnapshot, match="extension types"):
        decode_chunk(framed(sink.getvalue().to_pybytes()), "c")
    assert not Bomb.fired
