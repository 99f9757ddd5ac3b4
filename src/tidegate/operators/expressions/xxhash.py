"""XXH64 of columns, bit for bit as Spark's ``xxhash64``: each column is hashed with the hash of those before it as seed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import polars as pl
import polars_hash  # noqa: F401  registers the namespaces ``nchash`` and ``chash``

from tidegate.model.types import Atomic, DataType, Decimal

Words = npt.NDArray[np.uint64]

_PRIME_1 = np.uint64(0x9E3779B185EBCA87)
_PRIME_2 = np.uint64(0xC2B2AE3D27D4EB4F)
_PRIME_3 = np.uint64(0x165667B19E3779F9)
_PRIME_4 = np.uint64(0x85EBCA77C2B2AE63)
_PRIME_5 = np.uint64(0x27D4EB2F165667C5)
_STRIPE_BYTES = 32
_LONG_DECIMAL_DIGITS = 18
_INTS = frozenset({"boolean", "tinyint", "smallint", "int", "date", "float"})
_LONGS = frozenset({"bigint", "timestamp", "timestamp_ntz", "interval day to second", "double"})


def hashable(of: DataType) -> bool:
    match of:
        case Atomic(name):
            return name in _INTS or name in _LONGS or name in ("string", "binary")
        case Decimal(precision):
            return precision <= _LONG_DECIMAL_DIGITS
        case _:
            return False


def hash_columns(columns: list[pl.Series], types: list[DataType], seed: int) -> pl.Series:
    """One hash per row; a null leaves the hash of the columns before it as it is."""
    hashes = np.full(len(columns[0]), np.int64(seed)).view(np.uint64)
    for number, (column, of) in enumerate(zip(columns, types, strict=True)):
        hashed = _seeded(column, seed) if number == 0 and _is_bytes(of) else _hash(column, of, hashes)
        hashes = np.where(column.is_null().to_numpy(), hashes, hashed) if column.null_count() else hashed
    return pl.Series(hashes.view(np.int64))


def _is_bytes(of: DataType) -> bool:
    return isinstance(of, Atomic) and of.name in ("string", "binary")


def _seeded(column: pl.Series, seed: int) -> Words:
    """Every row has the same seed: the library does it."""
    hashed = column.to_frame("x").select(pl.col("x").nchash.xxhash64(seed=seed))  # pyright: ignore[reportAttributeAccessIssue]
    return hashed.to_series().fill_null(0).to_numpy()


def _hash(column: pl.Series, of: DataType, seeds: Words) -> Words:
    match of:
        case Atomic("string" | "binary"):
            return _hash_bytes(column, seeds)
        case Atomic("float"):
            bits = _canonical(column, np.float32).view(np.uint32)
            return _hash_int(bits.astype(np.uint64), seeds)
        case Atomic("double"):
            return _hash_long(_canonical(column, np.float64).view(np.uint64), seeds)
        case Atomic(name) if name in _INTS:
            values = column.to_physical().cast(pl.Int32).fill_null(0).to_numpy()
            return _hash_int(values.view(np.uint32).astype(np.uint64), seeds)
        case _:
            return _hash_long(column.to_physical().cast(pl.Int64).fill_null(0).to_numpy().view(np.uint64), seeds)


def _canonical(column: pl.Series, dtype: type[np.floating]) -> npt.NDArray[np.floating]:
    """One zero and one NaN, as Java's ``floatToIntBits`` and Spark's own rule for -0.0 have them."""
    values = column.fill_null(0.0).to_numpy().astype(dtype)
    return np.where(np.isnan(values), dtype("nan"), np.where(values == 0.0, dtype(0.0), values))


def _rotated(x: Words, bits: int) -> Words:
    return (x << np.uint64(bits)) | (x >> np.uint64(64 - bits))


def _avalanche(x: Words) -> Words:
    x = (x ^ (x >> np.uint64(33))) * _PRIME_2
    x = (x ^ (x >> np.uint64(29))) * _PRIME_3
    return x ^ (x >> np.uint64(32))


def _hash_int(values: Words, seeds: Words) -> Words:
    return _avalanche(_with_int(seeds + _PRIME_5 + np.uint64(4), values))


def _hash_long(values: Words, seeds: Words) -> Words:
    return _avalanche(_with_word(seeds + _PRIME_5 + np.uint64(8), values))


def _round(lane: Words, word: Words) -> Words:
    return _rotated(lane + word * _PRIME_2, 31) * _PRIME_1


def _with_word(x: Words, word: Words) -> Words:
    return _rotated(x ^ _round(np.zeros_like(word), word), 27) * _PRIME_1 + _PRIME_4


def _with_int(x: Words, value: Words) -> Words:
    return _rotated(x ^ (value * _PRIME_1), 23) * _PRIME_2 + _PRIME_3


def _with_byte(x: Words, value: Words) -> Words:
    return _rotated(x ^ (value * _PRIME_5), 11) * _PRIME_1


def _hash_bytes(column: pl.Series, seeds: Words) -> Words:
    """All rows go through the text together, step by step; those that have ended stand aside."""
    raw = column.cast(pl.Binary).fill_null(b"")
    lengths = raw.bin.size().to_numpy().astype(np.int64)
    at = np.cumsum(lengths) - lengths
    # Eight more bytes, so that a word may be read at every place.
    joined = np.frombuffer(b"".join([*raw, bytes(8)]), np.uint8)
    ends = at + lengths
    hashes = _stripes(joined, at, lengths, seeds) + lengths.astype(np.uint64)
    at += lengths // _STRIPE_BYTES * _STRIPE_BYTES
    steps: tuple[tuple[int, type[np.unsignedinteger], Callable[[Words, Words], Words]], ...] = (
        (8, np.uint64, _with_word),
        (4, np.uint32, _with_int),
        (1, np.uint8, _with_byte),
    )
    for width, dtype, mix in steps:
        while len(rows := np.flatnonzero(at + width <= ends)):
            hashes[rows] = mix(hashes[rows], _read(joined, at[rows], dtype))
            at[rows] += width
    return _avalanche(hashes)


def _stripes(
    joined: npt.NDArray[np.uint8], at: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64], seeds: Words
) -> Words:
    """What texts of 32 bytes and more begin with: four lanes, one word of each stripe to each."""
    hashes = seeds + _PRIME_5
    long = np.flatnonzero(lengths >= _STRIPE_BYTES)
    if not len(long):
        return hashes
    of = seeds[long]
    lanes = [of + _PRIME_1 + _PRIME_2, of + _PRIME_2, of.copy(), of - _PRIME_1]
    stripes = lengths[long] // _STRIPE_BYTES
    for stripe in range(int(stripes.max())):
        rows = np.flatnonzero(stripes > stripe)
        for number, lane in enumerate(lanes):
            places = at[long[rows]] + stripe * _STRIPE_BYTES + number * 8
            lane[rows] = _round(lane[rows], _read(joined, places, np.uint64))
    merged = _rotated(lanes[0], 1) + _rotated(lanes[1], 7) + _rotated(lanes[2], 12) + _rotated(lanes[3], 18)
    for lane in lanes:
        merged = (merged ^ _round(np.zeros_like(lane), lane)) * _PRIME_1 + _PRIME_4
    hashes[long] = merged
    return hashes


def _read(joined: npt.NDArray[np.uint8], places: npt.NDArray[np.int64], dtype: type[np.unsignedinteger]) -> Words:
    """Little-endian words at any place."""
    width = np.dtype(dtype).itemsize
    return joined[places[:, None] + np.arange(width)].view(f"<u{width}").ravel().astype(np.uint64)
