"""Bytes that may or may not be text."""

from __future__ import annotations

import polars as pl

from tidegate.operators.expressions.compiled import Check


def text_of(raw: pl.Expr) -> pl.Expr:
    """The bytes read as UTF-8; null where they are not. Polars would fail for the whole column."""
    return raw.map_batches(_texts, return_dtype=pl.String, is_elementwise=True)


def malformed(raw: pl.Expr, text: pl.Expr, error: str, *, always: bool = False) -> Check:
    return Check(raw.is_not_null() & text.is_null(), error, always=always)


def _texts(raw: pl.Series) -> pl.Series:
    """Halves that fail are halved again: cheap as long as few values are bad."""
    try:
        return raw.cast(pl.String)
    except pl.exceptions.ComputeError:
        if len(raw) == 1:
            return pl.Series(raw.name, [None], dtype=pl.String)
        middle = len(raw) // 2
        return pl.concat([_texts(raw[:middle]), _texts(raw[middle:])])
