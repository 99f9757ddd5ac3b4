"""``to_number``: text read by a pattern of digits."""

from __future__ import annotations

import re

import polars as pl

from tidegate.model import types as t
from tidegate.model.types import Decimal
from tidegate.operators.expressions import number_text
from tidegate.operators.expressions.compiled import Built, Check, Checked
from tidegate.operators.expressions.registry import argument, arity, constants, function, takes
from tidegate.plan.expressions import Call

_PATTERN = re.compile(r"(9*|0+)(?:[.D](9*|0*))?", re.IGNORECASE)


def _known(call: Call) -> str | None:
    pattern = str(argument(call, 1))
    if not pattern or _PATTERN.fullmatch(pattern) is None:
        return f"{call.function} with the pattern {pattern!r} is not supported: only 9 or 0 and a decimal point are"
    return None


@function("to_number", "try_to_number", supports=arity(2, also=constants(1, also=takes(t.STRING, also=_known))))
def to_number(call: Call, text: pl.Expr, _pattern: pl.Expr) -> Built:
    """At most as many digits as nines, exactly as many as zeros; anything else is an error, or null for ``try_to_number``."""
    found = _PATTERN.fullmatch(str(argument(call, 1)))
    assert found is not None
    assert isinstance(call.type, Decimal)
    whole, fraction = found[1], found[2]
    digits = rf"\d{{{len(whole)}}}" if whole.startswith("0") else rf"\d{{0,{len(whole)}}}"
    tail = "" if fraction is None else rf"(?:\.\d{{0,{len(fraction)}}})?"
    text = text.str.replace_all(r"\s", "")
    legal = text.str.contains(rf"^{digits}{tail}$") & text.str.contains(r"\d")
    value = number_text.parse_decimal(pl.when(legal).then(text), call.type).value
    if call.function == "try_to_number":
        return value
    return Checked(value, (Check(~legal, "INVALID_FORMAT", always=True),))
