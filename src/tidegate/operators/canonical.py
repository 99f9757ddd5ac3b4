"""One representation per value, as Spark's NormalizeFloatingNumbers: what is equal in SQL is equal in bits."""

from __future__ import annotations

import polars as pl

from tidegate.model.types import FRACTIONAL, Array, DataType, Struct
from tidegate.operators.columns import polars_type


def normalised(expression: pl.Expr, of: DataType) -> pl.Expr:
    """0.0 for -0.0, one NaN; also inside arrays and structs."""
    match of:
        case _ if of in FRACTIONAL:
            zero, nan = pl.lit(0.0, polars_type(of)), pl.lit(float("nan"), polars_type(of))
            return pl.when(expression == 0).then(zero).when(expression.is_nan()).then(nan).otherwise(expression)
        case Array(element) if has_floats(element):
            return expression.list.eval(normalised(pl.element(), element))
        case Struct(fields) if has_floats(of):
            parts = [normalised(expression.struct.field(f.name), f.type).alias(f.name) for f in fields]
            return pl.when(expression.is_not_null()).then(pl.struct(parts))
        case _:
            return expression


def has_floats(of: DataType) -> bool:
    match of:
        case Array(element):
            return has_floats(element)
        case Struct(fields):
            return any(has_floats(field.type) for field in fields)
        case _:
            return of in FRACTIONAL
