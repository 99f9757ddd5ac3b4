"""Trigonometry beyond sine and cosine, hyperbolic functions, and other mathematics of doubles. NaN and infinities as in Java."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import polars as pl

from tidegate.model import types as t
from tidegate.operators.expressions.compiled import Built
from tidegate.operators.expressions.registry import arity, plain, takes

_DOUBLE = arity(1, also=takes(t.DOUBLE))
_DOUBLES = arity(2, also=takes(t.DOUBLE))
_FACTORIALS = pl.Series([math.factorial(n) for n in range(21)], dtype=pl.Int64)
"""As many as fit 64 bits."""

Floats = npt.NDArray[np.float64]


def by_numpy(x: pl.Expr, run: Callable[[Floats], Floats]) -> pl.Expr:
    """A NumPy function of doubles; null stays null."""

    def values(numbers: pl.Series) -> pl.Series:
        with np.errstate(all="ignore"):
            return pl.Series(run(numbers.fill_null(0.0).to_numpy()), dtype=pl.Float64)

    return pl.when(x.is_not_null()).then(x.map_batches(values, return_dtype=pl.Float64, is_elementwise=True))


def by_numpy_of_two(x: pl.Expr, y: pl.Expr, run: Callable[[Floats, Floats], Floats]) -> pl.Expr:
    def values(pairs: pl.Series) -> pl.Series:
        left, right = (pairs.struct.field(name).fill_null(0.0).to_numpy() for name in ("x", "y"))
        with np.errstate(all="ignore"):
            return pl.Series(run(left, right), dtype=pl.Float64)

    value = pl.struct(x=x, y=y).map_batches(values, return_dtype=pl.Float64, is_elementwise=True)
    return pl.when(x.is_not_null() & y.is_not_null()).then(value)


@plain("expm1", supports=_DOUBLE)
def expm1(x: pl.Expr) -> Built:
    """Polars has none, and ``exp(x) - 1`` loses its digits near zero."""
    return by_numpy(x, np.expm1)


@plain("sinh", supports=_DOUBLE)
def sinh(x: pl.Expr) -> Built:
    return x.sinh()


@plain("cosh", supports=_DOUBLE)
def cosh(x: pl.Expr) -> Built:
    return x.cosh()


@plain("tanh", supports=_DOUBLE)
def tanh(x: pl.Expr) -> Built:
    return x.tanh()


@plain("asinh", supports=_DOUBLE)
def asinh(x: pl.Expr) -> Built:
    return by_numpy(x, np.arcsinh)


@plain("acosh", supports=_DOUBLE)
def acosh(x: pl.Expr) -> Built:
    return by_numpy(x, lambda v: np.log(v + np.sqrt(v * v - 1.0)))


@plain("atanh", supports=_DOUBLE)
def atanh(x: pl.Expr) -> Built:
    return by_numpy(x, lambda v: 0.5 * (np.log1p(v) - np.log1p(-v)))


@plain("cot", supports=_DOUBLE)
def cot(x: pl.Expr) -> Built:
    return by_numpy(x, lambda v: 1.0 / np.tan(v))


@plain("csc", supports=_DOUBLE)
def csc(x: pl.Expr) -> Built:
    return by_numpy(x, lambda v: 1.0 / np.sin(v))


@plain("sec", supports=_DOUBLE)
def sec(x: pl.Expr) -> Built:
    return by_numpy(x, lambda v: 1.0 / np.cos(v))


@plain("atan2", supports=_DOUBLES)
def atan2(y: pl.Expr, x: pl.Expr) -> Built:
    """Adding 0.0 makes one zero of two, as Spark does."""
    return by_numpy_of_two(y, x, lambda a, b: np.arctan2(a + 0.0, b + 0.0))


@plain("hypot", supports=_DOUBLES)
def hypot(x: pl.Expr, y: pl.Expr) -> Built:
    return by_numpy_of_two(x, y, np.hypot)


@plain("rint", supports=_DOUBLE)
def rint(x: pl.Expr) -> Built:
    """To the nearest integer, ties to the even one."""
    return by_numpy(x, np.rint)


@plain("factorial", supports=arity(1, also=takes(t.INTEGER)))
def factorial(n: pl.Expr) -> Built:
    """Null below 0 and above 20."""
    inside = n.is_between(0, 20)
    return pl.when(inside).then(pl.lit(_FACTORIALS).gather(pl.when(inside).then(n).otherwise(0)))


@plain("width_bucket", "widthbucket", supports=arity(4, also=takes(t.DOUBLE, arguments=(0, 1, 2))))
def width_bucket(x: pl.Expr, low: pl.Expr, high: pl.Expr, buckets: pl.Expr) -> Built:
    """Which of ``buckets`` equal parts of low…high the value falls into; 0 before the first, one more than the last behind it."""
    count = buckets.cast(pl.Float64)
    usable = (buckets > 0) & (buckets < 2**63 - 1) & x.is_not_nan() & low.is_finite() & high.is_finite() & (low != high)
    rising = high > low
    before = pl.when(rising).then(x < low).otherwise(x > low)
    behind = pl.when(rising).then(x >= high).otherwise(x <= high)
    share = pl.when(rising).then(count * (x - low) / (high - low)).otherwise(count * (low - x) / (low - high))
    inner = share.fill_nan(0.0).cast(pl.Int64, wrap_numerical=True) + 1
    zero = pl.lit(0, dtype=pl.Int64)
    return pl.when(usable).then(pl.when(before).then(zero).when(behind).then(buckets + 1).otherwise(inner))
