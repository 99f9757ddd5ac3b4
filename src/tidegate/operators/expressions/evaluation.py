"""Compiled projections and predicates, applied to batches: one Polars ``select`` per batch, errors found in the same pass."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from tidegate.model import types as t
from tidegate.model.errors import Bug, DataError, InvalidQuery
from tidegate.model.types import Schema
from tidegate.operators.columns import polars_schema
from tidegate.operators.expressions.compiled import Compiled, Guard
from tidegate.operators.expressions.compiler import compile_expression, describe
from tidegate.plan.expressions import Column, Expression, Named, columns_of

_ERROR = "__error__"
_MASK = "__keep__"
_SHOWN_CHARACTERS_MAX = 200


class Projection:
    """Computes ``columns`` with exactly the names and types of ``schema``. Compiled once, applied to every batch."""

    def __init__(self, columns: Sequence[Named], schema: Schema) -> None:
        if [column.name for column in columns] != [field.name for field in schema]:
            raise Bug(f"a projection of {[c.name for c in columns]} cannot have the schema {[f.name for f in schema]}")
        compiled = [compile_expression(column.expression) for column in columns]
        self._guards = Guards(compiled, [column.expression for column in columns])
        self._names = [column.name for column in columns]
        self._types = polars_schema(schema)
        self._dtypes = list(self._types.values())
        self._values = [one.value.alias(name) for one, name in zip(compiled, self._names, strict=True)]
        if self._guards.condition is not None:
            self._values.append(self._guards.condition.any().alias(_ERROR))
        self._constant = not any(columns_of(column.expression) for column in columns)
        self._picked = _picked(columns)

    def apply(self, rows: pl.DataFrame) -> pl.DataFrame:
        """As many rows as came in. DataError if a row breaks a rule of ANSI SQL."""
        if not self._names:
            return pl.DataFrame(height=rows.height)
        if self._picked is not None:
            # Nothing to compute: no need to wake the query engine.
            return pl.DataFrame([rows.get_column(source).alias(name) for name, source in self._picked])
        if self._constant:
            result = rows.with_columns(self._values).select(v.meta.output_name() for v in self._values)
        else:
            result = rows.select(self._values)
        if self._guards.condition is not None:
            failed = result.drop_in_place(_ERROR)
            if failed.len() and failed[0]:
                self._guards.explain(rows)
        if result.dtypes != self._dtypes:
            wrong = {n: (result.schema[n], d) for n, d in self._types.items() if result.schema[n] != d}
            raise Bug(f"a projection produced other types than planned: {wrong}")
        return result


def _picked(columns: Sequence[Named]) -> list[tuple[str, str]] | None:
    """(new name, old name) if all expressions are plain columns."""
    pairs = [(column.name, column.expression.name) for column in columns if isinstance(column.expression, Column)]
    return pairs if pairs and len(pairs) == len(columns) else None


class Predicate:
    """Keeps the rows for which ``condition`` is true: not false, not null."""

    def __init__(self, condition: Expression) -> None:
        if condition.type not in (t.BOOLEAN, t.NULL):
            raise InvalidQuery(f"a filter needs a boolean condition, and {describe(condition)} is none")
        compiled = compile_expression(condition)
        self._guards = Guards([compiled], [condition])
        self._condition = compiled.value
        self._constant = not columns_of(condition)

    def apply(self, rows: pl.DataFrame) -> pl.DataFrame:
        if self._guards.condition is None and not self._constant:
            return rows.filter(self._condition)
        values = [self._condition.alias(_MASK)]
        if self._guards.condition is not None:
            values.append(self._guards.condition.any().alias(_ERROR))
        verdict = rows.select(values) if rows.width else rows.with_columns(values)
        if rows.height and _ERROR in verdict.columns and verdict.get_column(_ERROR)[0]:
            self._guards.explain(rows)
        keep = verdict.get_column(_MASK)
        if self._constant:
            return rows if keep.len() and keep[0] is True else rows.clear()
        return rows.filter(keep)


class Guards:
    """All guards of some expressions as one condition; taken apart again only when it was hit."""

    def __init__(self, compiled: Sequence[Compiled], expressions: Sequence[Expression]) -> None:
        self._all = _distinct([guard for one in compiled for guard in one.guards])
        self._inputs = sorted(frozenset().union(*(columns_of(expression) for expression in expressions)))
        self.condition: pl.Expr | None = None
        if len(self._all) == 1:
            self.condition = self._all[0].condition
        elif self._all:
            self.condition = pl.any_horizontal([guard.condition for guard in self._all])

    def explain(self, rows: pl.DataFrame) -> None:
        """Raises DataError for the first row in error."""
        for guard in self._all:
            hit = rows.with_columns(guard.condition.alias(_ERROR)).filter(pl.col(_ERROR)).head(1)
            if hit.height:
                raise _error(guard, {name: hit[name][0] for name in self._inputs})
        raise Bug("a guard fired and no row shows it")


def _distinct(guards: Sequence[Guard]) -> list[Guard]:
    """Window start and end, for instance, share their arithmetic: the same condition is evaluated once."""
    kept: list[Guard] = []
    for guard in guards:
        if not any(guard.error == other.error and guard.condition.meta.eq(other.condition) for other in kept):
            kept.append(guard)
    return kept


def _error(guard: Guard, row: dict[str, object]) -> DataError:
    values = ", ".join(f"{name.partition('#')[0]} = {value!r}" for name, value in row.items())
    if len(values) > _SHOWN_CHARACTERS_MAX:
        values = values[:_SHOWN_CHARACTERS_MAX] + "…"
    return DataError(
        f"[{guard.error}] {guard.sql}" + (f" for the row with {values}" if values else ""),
        hint=_HINTS.get(guard.error, "mend the data, or use the try_ form of the function to get null instead"),
    )


_HINTS = {
    "DIVIDE_BY_ZERO": "use try_divide to get null instead",
    "REMAINDER_BY_ZERO": "use try_mod to get null instead",
    "ARITHMETIC_OVERFLOW": "use the try_ form of the operator to get null, or cast the operands to a wider type",
    "CAST_INVALID_INPUT": "use try_cast to get null instead",
    "CAST_OVERFLOW": "use try_cast to get null instead",
    "NUMERIC_VALUE_OUT_OF_RANGE": "use the try_ form to get null, or cast to a decimal with more digits",
    "UNSUPPORTED_TIME_ZONE": "write the offset (+01:00) instead of the region's name",
}
