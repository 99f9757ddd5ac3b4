"""The hash that chooses key groups: one value, one hash, on every machine, in every version.

Equal keys hash equally however they are represented: all integral widths alike, ``-0.0`` as ``0.0``, every NaN alike,
decimals by value whatever their scale, maps in any order. Stored state depends on these numbers: golden vectors pin
them, and changing one of them orphans every checkpoint ever taken.

A row's hash is folded over its plain columns, ``h = mix(h ^ bits(column))`` from 0, with splitmix64 as ``mix``. Structs count as
their fields, so a key hashes the same whole and taken apart.
"""

from __future__ import annotations

import numpy as np
import polars as pl
import polars_hash as plh
import pyarrow as pa
from numpy.typing import NDArray

from tidegate.model.errors import InvalidQuery
from tidegate.model.types import Array, Atomic, DataType, Decimal, Field, Map, Struct, simple_string

Hashes = NDArray[np.uint64]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_NULL = np.uint64(0x6A09E667F3BCC908)
_NAN = np.uint64(0x7FF8000000000000)
_BLOCK_ROWS = 1 << 15  # Of 8 bytes: the working set of one mixing pass stays in the cache.
_DECIMAL_SCALE_MAX = 38
_LOW_32 = np.uint64(0xFFFFFFFF)
_32 = np.uint64(32)


def hash_columns(df: pl.DataFrame, types: tuple[DataType, ...]) -> Hashes:
    """One hash per row over the columns of ``df``, in order; ``types`` are theirs. Without columns every hash is 0."""
    hashes = np.zeros(df.height, np.uint64)
    for column, of in zip(df.get_columns(), types, strict=True):
        _fold(hashes, column, of)
    return hashes


def _fold(hashes: Hashes, column: pl.Series, of: DataType) -> None:
    if isinstance(of, Struct):
        for field in of.fields:
            _fold(hashes, column.struct.field(field.name), field.type)
        return
    hashes ^= _bits(column, of)
    _mix(hashes)


def _mix(x: Hashes) -> None:
    """splitmix64, in place."""
    scratch = np.empty(min(len(x), _BLOCK_ROWS), np.uint64)
    for start in range(0, len(x), _BLOCK_ROWS):
        block = x[start : start + _BLOCK_ROWS]
        shifted = scratch[: len(block)]
        block += _GOLDEN
        for shift, factor in ((30, _MIX_1), (27, _MIX_2), (31, None)):
            np.right_shift(block, np.uint64(shift), out=shifted)
            np.bitwise_xor(block, shifted, out=block)
            if factor is not None:
                np.multiply(block, factor, out=block)


def _bits(column: pl.Series, of: DataType) -> Hashes:
    """64 bits per value, equal for equal values; a constant for null."""
    match of:
        case Atomic("string" | "binary"):
            name = column.name
            hashed = column.to_frame().select(plh.col(name).nchash.xxhash64()).to_series()  # pyright: ignore[reportAttributeAccessIssue]
            return hashed.fill_null(int(_NULL)).to_numpy()
        case Atomic("float" | "double"):
            return _with_nulls(column, _float_bits(column if column.null_count() == 0 else column.fill_null(0.0)))
        case Atomic("void"):
            return np.full(len(column), _NULL)
        case Atomic():
            whole = column.cast(pl.Int64)
            filled = whole if whole.null_count() == 0 else whole.fill_null(0)
            return _with_nulls(column, filled.to_numpy().view(np.uint64))
        case Decimal(_, scale):
            return _decimal_bits(column, scale)
        case Array(element):
            return _list_bits(column, element, ordered=True)
        case Map(key, value):
            return _list_bits(column, Struct((Field("key", key), Field("value", value))), ordered=False)
        case Struct():
            raise InvalidQuery(f"cannot hash {simple_string(of)} as one value", hint="hash its fields")


def _with_nulls(column: pl.Series, bits: Hashes) -> Hashes:
    return bits if column.null_count() == 0 else np.where(column.is_null().to_numpy(), _NULL, bits)


def _float_bits(column: pl.Series) -> Hashes:
    values = column.cast(pl.Float64).to_numpy()
    bits = np.where(values == 0.0, 0.0, values).view(np.uint64)
    return np.where(np.isnan(values), _NAN, bits)


def _decimal_bits(column: pl.Series, scale: int) -> Hashes:
    """``value × 10^38 mod 2^128``, mixed down to 64 bits: the same for 1.5 and 1.500."""
    array = column.cast(pl.Decimal(38, scale)).rechunk().to_arrow()
    assert isinstance(array, pa.Array)
    buffer = array.buffers()[1]
    words = np.frombuffer(buffer, np.uint64).reshape(-1, 2)[array.offset : array.offset + len(array)]
    low, high = words[:, 0].copy(), words[:, 1].copy()
    factor = 10 ** (_DECIMAL_SCALE_MAX - scale)
    factor_low, factor_high = np.uint64(factor & (2**64 - 1)), np.uint64(factor >> 64)
    scaled_high = high * factor_low + low * factor_high + _multiply_high(low, factor_low)
    bits = low * factor_low
    _mix(bits)
    bits ^= scaled_high
    return _with_nulls(column, bits)


def _multiply_high(x: Hashes, y: np.uint64) -> Hashes:
    """Upper 64 bits of the 128-bit product, from four 32-bit ones."""
    x_low, x_high, y_low, y_high = x & _LOW_32, x >> _32, y & _LOW_32, y >> _32
    middle = x_high * y_low + ((x_low * y_low) >> _32)
    other = x_low * y_high + (middle & _LOW_32)
    return x_high * y_high + (middle >> _32) + (other >> _32)


def _list_bits(column: pl.Series, element: DataType, *, ordered: bool) -> Hashes:
    """Sum of the elements' hashes, each salted with its position if order matters, and of the length."""
    lengths = column.list.len().fill_null(0).to_numpy().astype(np.int64)
    ends = np.cumsum(lengths)
    inner = column.drop_nulls()
    flat = inner.filter(inner.list.len() > 0).list.explode() if len(inner) else inner.list.explode().head(0)
    hashes = np.zeros(len(flat), np.uint64)
    if len(flat):
        _fold(hashes, flat, element)
        if ordered:
            positions = np.arange(len(flat), dtype=np.int64) - np.repeat(ends - lengths, lengths)
            hashes ^= positions.astype(np.uint64) * _GOLDEN
        _mix(hashes)
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(hashes)])
    bits = sums[ends] - sums[ends - lengths] + lengths.astype(np.uint64)
    return _with_nulls(column, bits)
