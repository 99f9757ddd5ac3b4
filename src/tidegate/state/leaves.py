"""Struct columns taken apart into plain ones and put together again.

Keyed state holds no structs: a window key becomes two integer columns, which compare and hash at full speed. Only a
struct that may itself be null needs one more leaf that says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import polars as pl

from tidegate.model.types import BOOLEAN, DataType, Field, Schema, Struct
from tidegate.state.frames import picked, renamed


@dataclass(frozen=True, slots=True)
class Leaf:
    """One plain column of a schema: ``path`` leads to it from the top; ``presence``: whether the struct at ``path`` is not null."""

    path: tuple[str, ...]
    type: DataType
    presence: bool = False


def leaves_of(schema: Schema) -> tuple[Leaf, ...]:
    return tuple(leaf for field in schema for leaf in _leaves(field, ()))


def _leaves(field: Field, above: tuple[str, ...]) -> tuple[Leaf, ...]:
    path = (*above, field.name)
    if not isinstance(field.type, Struct):
        return (Leaf(path, field.type),)
    inner = tuple(leaf for child in field.type.fields for leaf in _leaves(child, path))
    return (Leaf(path, BOOLEAN, presence=True), *inner) if field.nullable else inner


def leaf_expression(leaf: Leaf) -> pl.Expr:
    """The leaf, out of a frame that has the column ``leaf.path[0]``."""
    column = pl.col(leaf.path[0])
    for name in leaf.path[1:]:
        column = column.struct.field(name)
    return column.is_not_null() if leaf.presence else column


def take_apart(rows: pl.DataFrame, schema: Schema, prefix: str = "k") -> pl.DataFrame:
    """Columns ``k0 k1 …``, one per leaf."""
    if _is_plain(schema):
        return picked(rows, [field.name for field in schema], [f"{prefix}{i}" for i in range(len(schema))])
    return rows.select(leaf_expression(leaf).alias(f"{prefix}{i}") for i, leaf in enumerate(leaves_of(schema)))


def put_together(leaves: pl.DataFrame, schema: Schema, others: Sequence[str] = ()) -> pl.DataFrame:
    """The inverse of ``take_apart``: the columns of ``schema`` from columns in leaf order, whatever their names.

    ``others``: columns that follow the leaves and stay as they are.
    """
    if _is_plain(schema):
        return renamed(leaves, [*(field.name for field in schema), *others])
    names = iter(leaves.columns)
    return leaves.select(*(_assemble(field, names).alias(field.name) for field in schema), *others)


def _is_plain(schema: Schema) -> bool:
    """There is nothing to take apart; a schema without columns has no frame to pick from."""
    return bool(schema) and not any(isinstance(field.type, Struct) for field in schema)


def _assemble(field: Field, names: Iterator[str]) -> pl.Expr:
    if not isinstance(field.type, Struct):
        return pl.col(next(names))
    presence = pl.col(next(names)) if field.nullable else None
    whole = pl.struct(_assemble(child, names).alias(child.name) for child in field.type.fields)
    return whole if presence is None else pl.when(presence).then(whole)
