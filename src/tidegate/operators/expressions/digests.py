"""Digests, checksums and encodings of bytes."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import polars as pl
import polars_hash  # noqa: F401  registers the namespaces ``nchash`` and ``chash``

from tidegate.model import types as t
from tidegate.model.types import simple_string
from tidegate.operators.expressions import murmur
from tidegate.operators.expressions.compiled import Built
from tidegate.operators.expressions.registry import argument, arity, constants, function, optional, plain, takes
from tidegate.operators.expressions.xxhash import hash_columns, hashable
from tidegate.plan.expressions import Call, Literal

HashColumns: TypeAlias = Callable[[list[pl.Series], list[t.DataType], int], pl.Series]
"""Columns, their types, the seed."""
_BYTES = takes(t.BINARY, arguments=(0,))
_LINE = 76
"""Characters per line of base64 in mails."""
_HEX_OF_BYTE = np.array([b"%02X" % byte for byte in range(256)], dtype="S2")


@plain("md5", supports=arity(1, also=_BYTES))
def md5(value: pl.Expr) -> Built:
    return value.nchash.md5()  # pyright: ignore[reportAttributeAccessIssue]


@plain("sha1", "sha", supports=arity(1, also=_BYTES))
def sha1(value: pl.Expr) -> Built:
    return value.nchash.sha1()  # pyright: ignore[reportAttributeAccessIssue]


@function("sha2", supports=arity(2, also=constants(1, also=_BYTES)))
def sha2(call: Call, value: pl.Expr, _: pl.Expr) -> Built:
    """0 means 256; a length that does not exist gives null."""
    digests = value.chash  # pyright: ignore[reportAttributeAccessIssue]
    match argument(call, 1):
        case 224:
            return digests.sha2_224()
        case 0 | 256:
            return digests.sha2_256()
        case 384:
            return digests.sha2_384()
        case 512:
            return digests.sha2_512()
        case _:
            return pl.when(value.is_null()).then(None).otherwise(pl.lit(None, dtype=pl.String))


@plain("crc32", supports=arity(1, also=_BYTES))
def crc32(value: pl.Expr) -> Built:
    return value.map_batches(_crc32, return_dtype=pl.Int64, is_elementwise=True)


def _crc32(raw: pl.Series) -> pl.Series:
    """Value by value in Python, so each only once per batch."""
    distinct = raw.unique()
    sums = pl.Series([None if one is None else zlib.crc32(one) for one in distinct], dtype=pl.Int64)
    answers = pl.DataFrame({"raw": distinct, "sum": sums})
    return raw.to_frame("raw").join(answers, on="raw", how="left", nulls_equal=True, maintain_order="left")["sum"]


@function("hex", supports=arity(1, also=takes(t.STRING, t.BINARY, t.LONG)))
def hexadecimal(call: Call, value: pl.Expr) -> Built:
    match call.args[0].type:
        case t.STRING:
            return value.str.encode("hex").str.to_uppercase()
        case t.BINARY:
            return value.bin.encode("hex").str.to_uppercase()
        case _:
            digits = value.map_batches(_hex_of_longs, return_dtype=pl.String, is_elementwise=True)
            short = digits.str.strip_chars_start("0")
            return pl.when(value == 0).then(pl.lit("0")).when(value.is_not_null()).then(short).otherwise(None)


def _hex_of_longs(numbers: pl.Series) -> pl.Series:
    """16 digits each, negative numbers as the 64 bits they are."""
    raw = numbers.fill_null(0).to_numpy().astype(">i8").view(np.uint8).reshape(-1, 8)
    return pl.Series(_HEX_OF_BYTE[raw].view("S16").ravel().astype("U16"), dtype=pl.String)


@function("base64", supports=arity(1, 2, also=constants(1, also=_BYTES)))
def base64(call: Call, value: pl.Expr, *_: pl.Expr) -> Built:
    """The second argument is Spark's setting: whether lines are broken as in mails."""
    text = value.bin.encode("base64")
    if not optional(call, 1, False):
        return text
    return text.str.replace_all(f"(.{{{_LINE}}})", "${1}\r\n").str.strip_suffix("\r\n")


def _hash_supported(call: Call) -> str | None:
    *columns, seed = call.args
    if not columns or not isinstance(seed, Literal):
        return f"{call.function} without columns is not supported"
    strange = next((column.type for column in columns if not hashable(column.type)), None)
    return None if strange is None else f"{call.function} is not supported for {simple_string(strange)}"


def _hashed(call: Call, args: tuple[pl.Expr, ...], hashes: HashColumns, kind: pl.DataType) -> pl.Expr:
    """The last argument is the seed."""
    types = [column.type for column in call.args[:-1]]
    names = [f"c{number}" for number in range(len(types))]
    seed = argument(call, len(types))
    assert isinstance(seed, int)

    def run(rows: pl.Series) -> pl.Series:
        return hashes([rows.struct.field(name) for name in names], types, seed)

    columns = pl.struct([column.alias(name) for name, column in zip(names, args[:-1], strict=True)])
    return columns.map_batches(run, return_dtype=kind, is_elementwise=True)


@function("xxhash64", supports=_hash_supported, null_skips=False)
def xxhash64(call: Call, *args: pl.Expr) -> Built:
    return _hashed(call, args, hash_columns, pl.Int64())


@function("hash", "murmur3hash", supports=_hash_supported, null_skips=False)
def murmur3(call: Call, *args: pl.Expr) -> Built:
    return _hashed(call, args, murmur.hash_columns, pl.Int32())
