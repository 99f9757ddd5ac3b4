"""JSON as Spark's parser reads it, one text at a time: for the few texts of a batch that the columnar readers do not take.

Spark takes more than the standard: it stops reading behind the first value, keeps the digits of numbers, and finds NaN.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from typing import Any, TypeAlias

from tidegate.model import types as t
from tidegate.model.types import Array, DataType, Map, Struct
from tidegate.operators.expressions.bounds import type_bounds

_BLANK = " \t\r\n"
_NOT_FINITE = {
    "NaN": math.nan,
    "+INF": math.inf,
    "INF": math.inf,
    "Infinity": math.inf,
    "+Infinity": math.inf,
    "-INF": -math.inf,
    "-Infinity": -math.inf,
}


@dataclass(frozen=True, slots=True)
class Number:
    """A number as it is written."""

    text: str
    whole: bool


@dataclass(frozen=True, slots=True)
class Object:
    """Members in order; a name may occur twice."""

    members: tuple[tuple[str, Value], ...]


Value: TypeAlias = None | bool | str | Number | Object | list[Any]


class Malformed(Exception):
    """The text is no JSON."""


def _number(text: str) -> Number:
    return Number(text, whole=False)


_READER = json.JSONDecoder(
    object_pairs_hook=lambda pairs: Object(tuple(pairs)),
    parse_float=_number,
    parse_int=lambda text: Number(text, whole=True),
    parse_constant=_number,
    strict=True,
)


def parse(text: str) -> Value:
    """The first value of the text; what follows it is not read."""
    try:
        return _READER.raw_decode(text.lstrip(_BLANK))[0]
    except (ValueError, RecursionError):
        raise Malformed from None


def dump(value: Value) -> str:
    """Without blanks, numbers as Java writes them."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return _escaped(value)
        case Number(text, whole):
            return text if whole else java_double(float(text))
        case Object(members):
            return "{" + ",".join(f"{_escaped(name)}:{dump(one)}" for name, one in members) + "}"
        case list():
            return "[" + ",".join(map(dump, value)) + "]"


def _escaped(text: str) -> str:
    """Jackson writes characters outside of the first plane as two escapes when it copies a value."""
    return re.sub(r"[\U00010000-\U0010FFFF]", _surrogates, quoted(text))


def _surrogates(found: re.Match[str]) -> str:
    raw = found[0].encode("utf-16-be")
    return f"\\u{raw[:2].hex().upper()}\\u{raw[2:].hex().upper()}"


def quoted(text: str) -> str:
    return re.sub(
        r"\\u00[0-9a-f]{2}", lambda found: found[0].upper().replace("\\U", "\\u"), json.dumps(text, ensure_ascii=False)
    )


def java_double(value: float) -> str:
    """``Double.toString``."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    mantissa, _, written = repr(value).partition("e")
    sign, plain = ("-", mantissa[1:]) if mantissa.startswith("-") else ("", mantissa)
    whole, _, fraction = plain.partition(".")
    fraction = "" if fraction == "0" else fraction
    shift = int(written or 0)
    if whole != "0":
        exponent, digits = shift + len(whole) - 1, (whole + fraction)
    else:
        stripped = fraction.lstrip("0")
        exponent, digits = shift - (len(fraction) - len(stripped)) - 1, stripped
    digits = digits.rstrip("0") or "0"
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{exponent}"


def converted(value: Value, to: DataType) -> Any:
    """The value as a column of this type holds it; None where it does not fit. Temporal types stay text."""
    match to, value:
        case _, None:
            return None
        case t.STRING, str():
            return value
        case t.STRING, _:
            return dump(value)
        case t.BOOLEAN, bool():
            return value
        case t.Atomic(), Number(text, True) if to in t.INTEGRAL:
            low, high = type_bounds(to)
            return int(text) if low <= int(text) <= high else None
        case ((t.FLOAT | t.DOUBLE), Number(text)):
            return float(text)
        case ((t.FLOAT | t.DOUBLE), str()):
            return _NOT_FINITE.get(value)
        case ((t.DATE | t.TIMESTAMP | t.TIMESTAMP_NTZ), str()):
            return value
        case Struct(fields), Object(members):
            known = dict(members)
            return {field.name: converted(known.get(field.name), field.type) for field in fields}
        case Array(element), list():
            items = [converted(item, element) for item in value]
            broken = any(item is not None and one is None for item, one in zip(value, items, strict=True))
            return None if broken else items
        case Map(_, element), Object(members):
            return [{"key": name, "value": converted(one, element)} for name, one in dict(members).items()]
        case _:
            return None


def converted_root(value: Value, to: DataType) -> Any:
    """As ``converted``; where an array of structs is wanted, one object counts as an array of itself."""
    if isinstance(to, Array) and isinstance(to.element, Struct) and isinstance(value, Object):
        return [converted(value, to.element)]
    return converted(value, to)


def at_path(value: Value, path: tuple[str | int, ...]) -> Value:
    """What stands at a path of names and indexes; the first of members with the same name."""
    for step in path:
        match step, value:
            case str(), Object(members):
                value = next((one for name, one in members if name == step), None)
            case int(), list() if step < len(value):
                value = value[step]
            case _:
                return None
    return value
