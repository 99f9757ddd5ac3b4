"""Murmur3 of columns, bit for bit as Spark's ``hash``: each column is hashed with the hash of those before it as seed."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import polars as pl

from tidegate.model.types import Atomic, DataType

Words = npt.NDArray[np.uint32]

_C1, _C2 = np.uint32(0xCC9E2D51), np.uint32(0x1B873593)
_WORD_BYTES = 4
_LONGS = frozenset({"bigint", "timestamp", "timestamp_ntz", "interval day to second", "double"})


def hash_columns(columns: list[pl.Series], types: list[DataType], seed: int) -> pl.Series:
    """One hash per row; a null leaves the hash of the columns before it as it is."""
    hashes = np.full(len(columns[0]), np.int32(seed)).view(np.uint32)
    for column, of in zip(columns, types, strict=True):
        hashed = _hash(column, of, hashes)
        hashes = np.where(column.is_null().to_numpy(), hashes, hashed) if column.null_count() else hashed
    return pl.Series(hashes.view(np.int32))


def _hash(column: pl.Series, of: DataType, seeds: Words) -> Words:
    match of:
        case Atomic("string" | "binary"):
            return _hash_bytes(column, seeds)
        case Atomic("float"):
            return _finished(_mixed(seeds, _canonical(column, np.float32).view(np.uint32)), _WORD_BYTES)
        case Atomic("double"):
            return _hash_long(_canonical(column, np.float64).view(np.uint64), seeds)
        case Atomic(name) if name not in _LONGS:
            values = column.to_physical().cast(pl.Int32).fill_null(0).to_numpy()
            return _finished(_mixed(seeds, np.ascontiguousarray(values).view(np.uint32)), _WORD_BYTES)
        case _:
            values = column.to_physical().cast(pl.Int64).fill_null(0).to_numpy()
            return _hash_long(np.ascontiguousarray(values).view(np.uint64), seeds)


def _canonical(column: pl.Series, dtype: type[np.floating]) -> npt.NDArray[np.floating]:
    """One zero and one NaN."""
    values = column.fill_null(0.0).to_numpy().astype(dtype)
    return np.where(np.isnan(values), dtype("nan"), np.where(values == 0.0, dtype(0.0), values))


def _hash_long(values: npt.NDArray[np.uint64], seeds: Words) -> Words:
    low, high = values.astype(np.uint32), (values >> np.uint64(32)).astype(np.uint32)
    return _finished(_mixed(_mixed(seeds, low), high), 2 * _WORD_BYTES)


def _rotated(x: Words, bits: int) -> Words:
    return (x << np.uint32(bits)) | (x >> np.uint32(32 - bits))


def _mixed(hashes: Words, word: Words) -> Words:
    with np.errstate(over="ignore"):
        return _rotated(hashes ^ (_rotated(word * _C1, 15) * _C2), 13) * np.uint32(5) + np.uint32(0xE6546B64)


def _finished(hashes: Words, length: int | Words) -> Words:
    with np.errstate(over="ignore"):
        x = hashes ^ (np.uint32(length) if isinstance(length, int) else length)
        x = (x ^ (x >> np.uint32(16))) * np.uint32(0x85EBCA6B)
        x = (x ^ (x >> np.uint32(13))) * np.uint32(0xC2B2AE35)
        return x ^ (x >> np.uint32(16))


def _hash_bytes(column: pl.Series, seeds: Words) -> Words:
    """Words of four bytes, then what is left byte by byte (with its sign): a step per place, for all rows that reach it."""
    raw = column.cast(pl.Binary).fill_null(b"")
    lengths = raw.bin.size().to_numpy().astype(np.int64)
    starts = np.cumsum(lengths) - lengths
    joined = np.frombuffer(b"".join([*raw, bytes(_WORD_BYTES)]), np.uint8)
    hashes = seeds.copy()
    words = lengths // _WORD_BYTES
    for step in range(int(words.max(initial=0))):
        rows = np.flatnonzero(words > step)
        places = starts[rows] + step * _WORD_BYTES
        hashes[rows] = _mixed(hashes[rows], joined[places[:, None] + np.arange(_WORD_BYTES)].view("<u4").ravel())
    for step in range(_WORD_BYTES - 1):
        rows = np.flatnonzero(lengths - words * _WORD_BYTES > step)
        bytes_ = joined[starts[rows] + words[rows] * _WORD_BYTES + step].view(np.int8).astype(np.int32)
        hashes[rows] = _mixed(hashes[rows], bytes_.view(np.uint32))
    return _finished(hashes, lengths.astype(np.uint32))
