"""Text as a length of time, ``1 minute 30 seconds``: what a session window with a gap per row is computed from."""

from __future__ import annotations

import re

import polars as pl

from tidegate.model import types as t
from tidegate.operators.expressions.compiled import Built, Check, Checked
from tidegate.operators.expressions.registry import arity, plain, takes

_US = {
    "week": 604_800_000_000,
    "day": 86_400_000_000,
    "hour": 3_600_000_000,
    "minute": 60_000_000,
    "second": 1_000_000,
    "millisecond": 1_000,
    "microsecond": 1,
}
_MONTHS = ("year", "month")
_PART = rf"([+-]?)\s*(\d*)(?:\.(\d{{1,9}}))?\s+({'|'.join((*_US, *_MONTHS))})s?"
_PARTS = re.compile(_PART, re.IGNORECASE)
_WHOLE = re.compile(rf"\s*(?:interval\s+)?{_PART}(?:\s+{_PART})*\s*", re.IGNORECASE)
_HAS_MONTHS = -(1 << 63)


@plain("calendar_interval", supports=arity(1, also=takes(t.STRING)))
def calendar_interval(text: pl.Expr) -> Built:
    """``cast(text AS interval)``. Null for what is no interval, as in Spark; years and months have no fixed length and are an error."""
    length = text.map_batches(_lengths, return_dtype=pl.Int64, is_elementwise=True)
    check = Check(length == _HAS_MONTHS, "INTERVAL_WITH_MONTHS", always=True)
    return Checked(length.cast(pl.Duration("us")), (check,))


def _lengths(texts: pl.Series) -> pl.Series:
    """Value by value in Python, so each only once per batch: there are few different ones."""
    distinct = texts.unique()
    lengths = pl.Series([None if one is None else _microseconds(one) for one in distinct], dtype=pl.Int64)
    answers = pl.DataFrame({"text": distinct, "length": lengths})
    return texts.to_frame("text").join(answers, on="text", how="left", nulls_equal=True, maintain_order="left")[
        "length"
    ]


def _microseconds(text: str) -> int | None:
    if not _WHOLE.fullmatch(text):
        return None
    total = 0
    for sign, whole, fraction, unit in _PARTS.findall(text):
        name = unit.lower()
        if (not whole and not fraction) or (fraction and name != "second"):
            return None
        if name in _MONTHS:
            return _HAS_MONTHS
        length = int(whole or 0) * _US[name] + int((fraction or "").ljust(6, "0")[:6] or 0)
        total += -length if sign == "-" else length
    return total if abs(total) < 1 << 62 else None
