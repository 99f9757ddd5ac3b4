"""What an expression compiles to: a Polars expression for the value, and guards that find the rows in error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import polars as pl


@dataclass(frozen=True, slots=True)
class Guard:
    """``condition`` is true exactly for the rows on which Spark would raise ``error``; null counts as false."""

    condition: pl.Expr
    error: str
    """Spark's error class, e.g. ``DIVIDE_BY_ZERO``."""
    sql: str

    def only_if(self, taken: pl.Expr) -> Guard:
        """The same guard for a branch: it counts only where ``taken`` is true."""
        return replace(self, condition=taken & self.condition)


@dataclass(frozen=True, slots=True)
class Compiled:
    """``value`` never raises by itself, so it may be evaluated for rows whose branch is not taken."""

    value: pl.Expr
    guards: tuple[Guard, ...] = ()

    def guards_if(self, taken: pl.Expr) -> tuple[Guard, ...]:
        return tuple(guard.only_if(taken) for guard in self.guards)


@dataclass(frozen=True, slots=True)
class Check:
    """A rule of one function: where ``condition`` is true ANSI mode raises ``error`` and ``try_*`` gives null."""

    condition: pl.Expr
    error: str
    always: bool = False
    """Raise in ``try_*`` too: Spark has an answer here and we have not."""


@dataclass(frozen=True, slots=True)
class Checked:
    """Result of a function's builder when some inputs are errors. ``value`` is arbitrary where a check fires."""

    value: pl.Expr
    checks: tuple[Check, ...]


Built = pl.Expr | Checked


def enforce(built: Built, *, ansi: bool, sql: str, inherited: Sequence[Guard] = ()) -> Compiled:
    """Checks become guards (ANSI) or nulls (``try_*``, legacy)."""
    if isinstance(built, pl.Expr):
        return Compiled(built, tuple(inherited))
    raising = tuple(Guard(check.condition, check.error, sql) for check in built.checks if ansi or check.always)
    value = built.value
    if not ansi:
        for check in built.checks:
            if not check.always:
                value = pl.when(check.condition.fill_null(False)).then(None).otherwise(value)
    return Compiled(value, (*inherited, *raising))
