"""Expressions of a plan: engine-neutral values with Spark's meaning. ``operators/expressions`` compiles them to Polars.

A function is named by Spark's own SQL name in lower case (``add``, ``concat``, ``date_trunc``); every node knows its
result type, so nothing below ``catalyst/`` infers types again.
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from tidegate.model.types import DataType

Scalar: TypeAlias = (
    None
    | bool
    | int
    | float
    | str
    | bytes
    | decimal.Decimal
    | datetime.date
    | datetime.datetime
    | datetime.timedelta
    | tuple["Scalar", ...]
    | dict[str, "Scalar"]
)


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the input, by its unique name in the plan."""

    name: str
    type: DataType


@dataclass(frozen=True, slots=True)
class Literal:
    value: Scalar
    type: DataType


@dataclass(frozen=True, slots=True)
class Call:
    """``function(args)``; ``ansi``: errors where Spark's ANSI mode raises, null where ``try_*`` and legacy mode give null."""

    function: str
    args: tuple[Expression, ...]
    type: DataType
    ansi: bool = True
    zone: str = "UTC"
    """Session time zone for functions that need one."""
    sql: str = ""
    """The expression as Spark prints it, for error messages."""


@dataclass(frozen=True, slots=True)
class Cast:
    child: Expression
    type: DataType
    ansi: bool = True
    """False: ``try_cast`` or legacy mode, null instead of an error."""
    zone: str = "UTC"
    sql: str = ""


@dataclass(frozen=True, slots=True)
class Case:
    """``CASE WHEN``/``if``/``coalesce``-like choice: errors of a branch count only for the rows that take it."""

    branches: tuple[tuple[Expression, Expression], ...]
    otherwise: Expression | None
    type: DataType


@dataclass(frozen=True, slots=True)
class FieldOf:
    """``child.name`` of a struct."""

    child: Expression
    name: str
    type: DataType


@dataclass(frozen=True, slots=True)
class MakeStruct:
    """``named_struct``."""

    fields: tuple[tuple[str, Expression], ...]
    type: DataType


@dataclass(frozen=True, slots=True)
class Lambda:
    """``x -> x + price``, an argument of a higher-order function. Inside ``body`` the parameters are columns like any other."""

    parameters: tuple[Column, ...]
    body: Expression

    @property
    def type(self) -> DataType:
        return self.body.type


Expression: TypeAlias = Column | Literal | Call | Cast | Case | FieldOf | MakeStruct | Lambda


@dataclass(frozen=True, slots=True)
class Named:
    """An output column and how to compute it."""

    name: str
    expression: Expression


def children(of: Expression) -> tuple[Expression, ...]:
    match of:
        case Column() | Literal():
            return ()
        case Call(args=args):
            return args
        case Cast(child=child) | FieldOf(child=child):
            return (child,)
        case Case(branches=branches, otherwise=otherwise):
            flat = tuple(part for branch in branches for part in branch)
            return flat if otherwise is None else (*flat, otherwise)
        case MakeStruct(fields=fields):
            return tuple(expression for _, expression in fields)
        case Lambda(body=body):
            return (body,)


def walk(of: Expression) -> Iterator[Expression]:
    """The expression and everything below it, parents first."""
    yield of
    for child in children(of):
        yield from walk(child)


def columns_of(of: Expression) -> frozenset[str]:
    """The columns of the input that the value depends on."""
    match of:
        case Column(name=name):
            return frozenset((name,))
        case Lambda(parameters=parameters, body=body):
            return columns_of(body) - {one.name for one in parameters}
        case _:
            return frozenset[str]().union(*map(columns_of, children(of)))
