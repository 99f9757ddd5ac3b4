"""Casts of arrays, maps and structs: element by element, or to the text that Spark prints."""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from tidegate.model import types as t
from tidegate.model.types import Array, DataType, Map, Struct
from tidegate.operators.columns import polars_type
from tidegate.operators.expressions import casts
from tidegate.operators.expressions.compiled import Built, Check, Checked, Compiled, enforce
from tidegate.plan.expressions import Cast, Column


def possible(of: DataType, to: DataType) -> bool:
    match of, to:
        case Array(a), Array(b):
            return casts.possible(a, b)
        case Map(key, value), Map(new_key, new_value):
            # Keys that become equal would be an error of their own.
            return key == new_key and casts.possible(value, new_value)
        case Struct(old), Struct(new):
            return len(old) == len(new) and all(casts.possible(a.type, b.type) for a, b in zip(old, new, strict=True))
        case Array(element), t.STRING:
            return casts.possible(element, t.STRING)
        case Map(key, value), t.STRING:
            return casts.possible(key, t.STRING) and casts.possible(value, t.STRING)
        case Struct(fields), t.STRING:
            return all(casts.possible(field.type, t.STRING) for field in fields)
        case _:
            return False


def build(cast: Cast, child: pl.Expr) -> Built:
    if cast.type == t.STRING:
        return _text(cast, child)
    match cast.child.type, cast.type:
        case Array(a), Array(b):
            element = _inner(cast, a, b, pl.element())
            return _listed(child, element, element.value)
        case Map(_, a), Map(_, b):
            value = _inner(cast, a, b, pl.element().struct.field("value"))
            entry = pl.struct(key=pl.element().struct.field("key"), value=value.value)
            return _listed(child, value, entry)
        case Struct(old), Struct(new):
            parts = [_inner(cast, a.type, b.type, child.struct.field(a.name)) for a, b in zip(old, new, strict=True)]
            named = [part.value.alias(field.name) for part, field in zip(parts, new, strict=True)]
            value = (
                pl.when(child.is_not_null())
                .then(pl.struct(named))
                .otherwise(pl.lit(None, dtype=polars_type(cast.type)))
            )
            return Checked(value, tuple(Check(g.condition, g.error) for part in parts for g in part.guards))
        case _:
            raise ValueError(cast)


def _inner(cast: Cast, of: DataType, to: DataType, value: pl.Expr) -> Compiled:
    """One element: its own errors become nulls in ``try_cast``, and not those of the whole."""
    inner = replace(cast, child=Column("element", of), type=to)
    return enforce(casts.build(inner, value), ansi=cast.ansi, sql=cast.sql)


def _listed(child: pl.Expr, element: Compiled, value: pl.Expr) -> Built:
    checks = tuple(Check(child.list.eval(guard.condition).list.any(), guard.error) for guard in element.guards)
    return Checked(child.list.eval(value), checks)


def _text(cast: Cast, child: pl.Expr) -> Built:
    """``[1, null]``, ``{a -> 1}``, ``{1, x}``."""
    null = pl.lit("null")
    match cast.child.type:
        case Array(element):
            inner = _inner(cast, element, t.STRING, pl.element())
            listed = _listed(child, inner, inner.value.fill_null(null))
            assert isinstance(listed, Checked)
            joined = pl.concat_str(pl.lit("["), listed.value.list.join(", "), pl.lit("]"))
            return Checked(pl.when(child.is_not_null()).then(joined), listed.checks)
        case Map(key, value):
            names = _inner(cast, key, t.STRING, pl.element().struct.field("key"))
            shown = _inner(cast, value, t.STRING, pl.element().struct.field("value"))
            both = Compiled(names.value, (*names.guards, *shown.guards))
            listed = _listed(child, both, pl.concat_str(names.value, pl.lit(" -> "), shown.value.fill_null(null)))
            assert isinstance(listed, Checked)
            joined = pl.concat_str(pl.lit("{"), listed.value.list.join(", "), pl.lit("}"))
            return Checked(pl.when(child.is_not_null()).then(joined), listed.checks)
        case Struct(fields):
            parts = [_inner(cast, field.type, t.STRING, child.struct.field(field.name)) for field in fields]
            joined = pl.concat_str([part.value.fill_null(null) for part in parts], separator=", ")
            text = pl.when(child.is_not_null()).then(pl.concat_str(pl.lit("{"), joined, pl.lit("}")))
            return Checked(text, tuple(Check(g.condition, g.error) for part in parts for g in part.guards))
        case _:
            raise ValueError(cast)
