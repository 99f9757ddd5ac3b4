"""What a computed column means, in words that do not depend on how the plan numbers its columns."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping

from tidegate.model.types import simple_string
from tidegate.plan.expressions import (
    Call,
    Case,
    Cast,
    Column,
    Expression,
    FieldOf,
    Lambda,
    Literal,
    MakeStruct,
    walk,
)
from tidegate.plan.keyed import Deduplicate, SessionAggregate, StatefulProcess, StreamJoin
from tidegate.plan.relational import Aggregate, Expand, Keyed, Plan, Project

GENERATED = ("_groupingexpression", "_key", "_input", "_filter")
"""Names that nobody chose: Spark's, and those of the translation. Such a column is known by its expression alone."""

_WORDS_MAX = 120
_INFIX = {
    "add": "+",
    "subtract": "-",
    "multiply": "*",
    "divide": "/",
    "remainder": "%",
    "equalto": "=",
    "lessthan": "<",
    "lessthanorequal": "<=",
    "greaterthan": ">",
    "greaterthanorequal": ">=",
    "and": "and",
    "or": "or",
}
_TO_MICROSECONDS = "precisetimestampconversion"


def plain(name: str) -> str:
    """A column's name without its number in the plan: a projection added elsewhere changes the number and not the meaning."""
    return name.rpartition("#")[0] or name


def meanings_of(node: Keyed) -> tuple[tuple[str, str], ...]:
    """Columns that ``node`` reads and whose name does not say what they are: time windows, and computed columns without
    a name of the user's. A column that the user named means what its name says, however it is computed."""
    made = dict(_definitions(node))
    read = dict.fromkeys(_inputs_of(node))
    return tuple(
        (name, text) for name in read if name in made and (text := _meaning(name, _origin(name, made))) is not None
    )


def _origin(name: str, made: Mapping[str, Expression]) -> Expression:
    """How a column is computed, seen through projections that only give it another number."""
    of = made[name]
    while isinstance(of, Column) and of.name in made and plain(of.name) == plain(name):
        of = made[of.name]
    return of


def words(of: Expression) -> str:
    """The whole expression, never cut: a change at its end is a change."""
    match of:
        case Column(name=name):
            return plain(name)
        case Literal(value=value):
            return "null" if value is None else repr(value)
        case Call(function=function, args=(left, right)) if function in _INFIX:
            return f"({words(left)} {_INFIX[function]} {words(right)})"
        case Call(function=function, args=args):
            return f"{function}({', '.join(map(words, args))})"
        case Cast(child=child, type=kind):
            return f"cast({words(child)} as {simple_string(kind)})"
        case Case(branches=branches, otherwise=otherwise):
            parts = [f"when {words(condition)} then {words(value)}" for condition, value in branches]
            return f"case {' '.join(parts)}{f' else {words(otherwise)}' if otherwise is not None else ''} end"
        case FieldOf(child=child, name=name):
            return f"{words(child)}.{name}"
        case MakeStruct(fields=fields):
            return f"struct({', '.join(f'{words(value)} as {name}' for name, value in fields)})"
        case Lambda(parameters=parameters, body=body):
            return f"({', '.join(words(one) for one in parameters)}) -> {words(body)}"


def duration(of_us: int) -> str:
    for unit_us, unit in ((86_400_000_000, "d"), (3_600_000_000, "h"), (60_000_000, "min"), (1_000_000, "s")):
        if of_us % unit_us == 0:
            return f"{of_us // unit_us} {unit}"
    return f"{of_us / 1_000:g} ms"


def _inputs_of(node: Keyed) -> Iterator[str]:
    match node:
        case Deduplicate(keys=keys) | StatefulProcess(keys=keys):
            yield from keys
        case StreamJoin(left=left, right=right):
            yield from (*left.keys, *right.keys)
        case Aggregate(keys=keys, calls=calls):
            yield from (*keys, *(column for call in calls for column in call.reads))
        case SessionAggregate(keys=keys, session=session, calls=calls):
            yield from (*keys, session, *(column for call in calls for column in call.reads))


def _definitions(plan: Plan) -> Iterator[tuple[str, Expression]]:
    """Every computed column below ``plan``; names are unique in a plan, so where it is made does not matter."""
    for child in plan.inputs:
        yield from _definitions(child)
        match child:
            case Project(columns=columns):
                yield from (
                    (c.name, c.expression) for c in columns if c.expression != Column(c.name, c.expression.type)
                )
            case Expand(projections=(first, *_), schema=schema):
                yield from ((column.name, value) for column, value in zip(schema, first, strict=True))
            case _:
                pass


def _meaning(name: str, of: Expression) -> str | None:
    if (window := _window(of)) is not None:
        return window
    if plain(name) not in GENERATED:
        return None
    text = words(of)
    if len(text) <= _WORDS_MAX:
        return text
    return f"{text[:_WORDS_MAX]}… ({hashlib.sha256(text.encode()).hexdigest()[:12]})"


def _window(of: Expression) -> str | None:
    """``window()`` as Spark's analyser writes it out: start = time − (time − offset) mod slide, end = start + length."""
    match of:
        case MakeStruct(
            fields=(
                ("start", Call(function=from_us, args=(start,))),
                ("end", Call(args=(Call(function="add", args=(same, Literal(value=int() as length_us))),))),
            )
        ) if from_us == _TO_MICROSECONDS and same == start:
            pass
        case _:
            return None
    for node in walk(start):
        match node:
            case Call(
                function="remainder",
                args=(
                    Call(function="subtract", args=(Call(args=(time,)), Literal(value=int() as offset_us))),
                    Literal(value=int() as slide_us),
                ),
            ):
                every = f" every {duration(slide_us)}" if slide_us != length_us else ""
                offset = f" from {duration(offset_us)}" if offset_us else ""
                return f"window of {duration(length_us)}{every}{offset} over {words(time)}"
            case _:
                pass
    return None
