"""Calendar arithmetic on integers: builds dates from year, month and day without ever raising."""

from __future__ import annotations

import polars as pl

US_PER_SECOND = 1_000_000
US_PER_DAY = 86_400 * US_PER_SECOND
YEAR_MAX = 262_000
"""Polars' calendar ends a little later."""


def days_from_civil(year: pl.Expr, month: pl.Expr, day: pl.Expr) -> pl.Expr:
    """Days since 1970-01-01 in the proleptic Gregorian calendar; arguments are Int64 and already valid.

    Years begin in March, so that the leap day is the last of its year.
    """
    shifted = year - (month <= 2).cast(pl.Int64)
    era = shifted // 400
    year_of_era = shifted - era * 400
    day_of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    day_of_era = year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year
    return era * 146_097 + day_of_era - 719_468


def is_date(year: pl.Expr, month: pl.Expr, day: pl.Expr) -> pl.Expr:
    short = (day >= 1) & (day <= month_length(year, month))
    return month.is_between(1, 12) & short & year.is_between(-YEAR_MAX, YEAR_MAX)


def month_length(year: pl.Expr, month: pl.Expr) -> pl.Expr:
    leap = ((year % 4 == 0) & (year % 100 != 0)) | (year % 400 == 0)
    return pl.when(month == 2).then(28 + leap.cast(pl.Int64)).otherwise(30 + (month + month // 8) % 2)


def plus_months(date: pl.Expr, months: pl.Expr) -> tuple[pl.Expr, pl.Expr]:
    """Days since 1970 of a date that many months later, and whether the calendar still has it.

    A day that the month does not have becomes its last.
    """
    total = date.dt.year().cast(pl.Int64) * 12 + date.dt.month().cast(pl.Int64) - 1 + months.cast(pl.Int64)
    year, month = total // 12, total % 12 + 1
    inside = year.is_between(-YEAR_MAX, YEAR_MAX)
    day = pl.min_horizontal(date.dt.day().cast(pl.Int64), month_length(year, month))
    return days_from_civil(pl.when(inside).then(year).otherwise(1970), month, day), inside
