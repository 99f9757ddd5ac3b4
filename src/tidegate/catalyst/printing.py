"""Expressions of a plan as people write them, for messages and ``explain``."""

from __future__ import annotations

import datetime

from tidegate.model.types import simple_string
from tidegate.plan.expressions import Call, Case, Cast, Column, Expression, FieldOf, Lambda, Literal, MakeStruct

INFIX = {
    "add": "+",
    "subtract": "-",
    "multiply": "*",
    "divide": "/",
    "remainder": "%",
    "div": "div",
    "equalto": "=",
    "equalnullsafe": "<=>",
    "lessthan": "<",
    "lessthanorequal": "<=",
    "greaterthan": ">",
    "greaterthanorequal": ">=",
    "and": "AND",
    "or": "OR",
    "like": "LIKE",
    "rlike": "RLIKE",
    "timestampaddinterval": "+",
    "bitwiseand": "&",
    "bitwiseor": "|",
    "bitwisexor": "^",
}
_TEXT_MAX = 300


def user_name(column: str) -> str:
    """``price#3`` → ``price``."""
    name, mark, number = column.rpartition("#")
    return name if mark and number.isdigit() else column


def sql_text(of: Expression) -> str:
    """SQL that reads like the query; cut when it is long."""
    text = _text(of)
    return text if len(text) <= _TEXT_MAX else text[: _TEXT_MAX - 2] + " …"


def full_text(of: Expression) -> str:
    """The same without a limit; two expressions of equal text mean the same."""
    return _text(of)


def _text(of: Expression) -> str:
    match of:
        case Column(name):
            return user_name(name)
        case Literal(str(value)):
            return "'" + value.replace("'", "\\'") + "'"
        case Literal(datetime.timedelta() as value):
            return f"INTERVAL '{value}'"
        case Literal(value):
            return "NULL" if value is None else str(value)
        case Call(sql=sql) if sql:
            return sql
        case Call(function, (left, right)) if function in INFIX:
            return f"({_text(left)} {INFIX[function]} {_text(right)})"
        case Call("in", (value, *options)):
            return f"({_text(value)} IN ({', '.join(map(_text, options))}))"
        case Call("not", (child,)):
            return f"(NOT {_text(child)})"
        case Call("isnull" | "isnotnull" as function, (child,)):
            return f"({_text(child)} IS {'NOT ' if function == 'isnotnull' else ''}NULL)"
        case Call(function, args):
            return f"{function}({', '.join(map(_text, args))})"
        case Cast(child, type):
            return f"CAST({_text(child)} AS {simple_string(type).upper()})"
        case Case(branches, otherwise):
            whens = "".join(f" WHEN {_text(when)} THEN {_text(then)}" for when, then in branches)
            return f"CASE{whens}{'' if otherwise is None else ' ELSE ' + _text(otherwise)} END"
        case FieldOf(child, name):
            return f"{_text(child)}.{name}"
        case MakeStruct(fields):
            return f"named_struct({', '.join(f'{name!r}, {_text(value)}' for name, value in fields)})"
        case Lambda(parameters=parameters, body=body):
            return f"({', '.join(_text(one) for one in parameters)}) -> {_text(body)}"
