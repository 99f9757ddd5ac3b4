"""Places in bitmaps of 32,768 bits, as ``bitmap_construct_agg`` fills them, and codes of bytes that are computed value by value."""

from __future__ import annotations

import base64
import hashlib
import hmac as keyed_digest
from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl

from tidegate.model import types as t
from tidegate.operators.expressions.compiled import Built, Check, Checked
from tidegate.operators.expressions.decimals import java_quotient, java_remainder
from tidegate.operators.expressions.registry import argument, arity, constants, function, plain, takes
from tidegate.plan.expressions import Call

_BITS = 32_768
_HASHES = {"SHA-1": hashlib.sha1, "SHA-224": hashlib.sha224, "SHA-256": hashlib.sha256, "SHA-384": hashlib.sha384,
           "SHA-512": hashlib.sha512, "MD5": hashlib.md5}  # fmt: skip
_BASE32 = {letter: value for value, letter in enumerate("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567")}
_LONG = arity(1, also=takes(t.LONG))


def _int(value: int) -> pl.Expr:
    return pl.lit(value, dtype=pl.Int64)


@plain("bitmap_bit_position", "bitmapbitposition", supports=_LONG)
def bitmap_bit_position(value: pl.Expr) -> Built:
    """Which bit stands for the number in its bitmap."""
    return pl.when(value > 0).then((value - 1) % _BITS).otherwise(java_remainder(_int(0) - value, _int(_BITS)))


@plain("bitmap_bucket_number", "bitmapbucketnumber", supports=_LONG)
def bitmap_bucket_number(value: pl.Expr) -> Built:
    """Which bitmap holds the number."""
    return pl.when(value > 0).then((value - 1) // _BITS + 1).otherwise(java_quotient(value, _int(_BITS)))


@plain("bitmap_count", "bitmapcount", supports=arity(1, also=takes(t.BINARY)))
def bitmap_count(raw: pl.Expr) -> Built:
    """Bits that are set."""

    def run(column: pl.Series) -> pl.Series:
        filled = column.fill_null(b"")
        sizes = filled.bin.size().to_numpy().astype(np.int64)
        ones = np.unpackbits(np.frombuffer(b"".join(filled), np.uint8)).reshape(-1, 8).sum(axis=1)
        ends = np.cumsum(sizes)
        sums = np.concatenate(([0], np.cumsum(ones)))
        return pl.Series(sums[ends] - sums[ends - sizes], dtype=pl.Int64)

    return pl.when(raw.is_not_null()).then(raw.map_batches(run, return_dtype=pl.Int64, is_elementwise=True))


def _each(column: pl.Series, code: Callable[[Any], Any], dtype: pl.DataType) -> pl.Series:
    """Value by value in Python, so each only once per batch."""
    distinct = column.unique()
    answers = pl.Series([None if one is None else code(one) for one in distinct], dtype=dtype)
    known = pl.DataFrame({"value": distinct, "code": answers})
    return column.to_frame("value").join(known, on="value", how="left", nulls_equal=True, maintain_order="left")["code"]


@plain("to_base32", supports=arity(1, also=takes(t.BINARY)))
def to_base32(raw: pl.Expr) -> Built:
    def run(column: pl.Series) -> pl.Series:
        return _each(column, lambda one: base64.b32encode(one).decode(), pl.String())

    return raw.map_batches(run, return_dtype=pl.String, is_elementwise=True)


def _unbase32(text: str) -> bytes:
    """Other characters are passed over, padding may be missing, and bits that fill no byte are dropped."""
    letters = [letter for letter in text.partition("=")[0].upper() if letter in _BASE32]
    bits = sum(_BASE32[letter] << 5 * place for place, letter in enumerate(reversed(letters)))
    spare = len(letters) * 5 % 8
    return (bits >> spare).to_bytes(len(letters) * 5 // 8, "big")


@plain("from_base32", supports=arity(1, also=takes(t.STRING)))
def from_base32(text: pl.Expr) -> Built:
    def run(column: pl.Series) -> pl.Series:
        return _each(column, _unbase32, pl.Binary())

    return text.map_batches(run, return_dtype=pl.Binary, is_elementwise=True)


def _hash_known(call: Call) -> str | None:
    name = str(argument(call, 2)).upper()
    return None if name in _HASHES else f"hmac with {name} is not supported"


@function("hmac", supports=arity(3, also=constants(2, also=takes(t.BINARY, arguments=(0, 1), also=_hash_known))))
def hmac(call: Call, key: pl.Expr, message: pl.Expr, _name: pl.Expr) -> Built:
    """The digest of a message under a key."""
    algorithm = _HASHES[str(argument(call, 2)).upper()]

    def run(pairs: pl.Series) -> pl.Series:
        def code(pair: dict[str, bytes | None]) -> bytes | None:
            first, second = pair["key"], pair["message"]
            return None if first is None or second is None else keyed_digest.new(first, second, algorithm).digest()

        return _each(pairs, code, pl.Binary())

    digest = pl.struct(key=key, message=message).map_batches(run, return_dtype=pl.Binary, is_elementwise=True)
    empty = Check((key.bin.size() == 0) & message.is_not_null(), "INVALID_PARAMETER_VALUE", always=True)
    return Checked(digest, (empty,))
