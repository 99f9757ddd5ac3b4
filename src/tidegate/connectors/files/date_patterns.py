"""Java's patterns for dates and times (``yyyy-MM-dd'T'HH:mm:ss.SSSXXX``), which Spark's options use, printed by Polars."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeAlias

import polars as pl

from tidegate.model.errors import InvalidQuery

Print: TypeAlias = Callable[[pl.Expr], pl.Expr]
"""A date or time column → text. Null stays null."""

_PART = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|.", re.DOTALL)
_DIRECTIVES = {
    "yyyy": "%Y", "uuuu": "%Y", "y": "%Y", "u": "%Y", "yy": "%y", "uu": "%y",
    "MM": "%m", "M": "%-m", "LL": "%m", "L": "%-m", "MMM": "%b", "LLL": "%b", "MMMM": "%B", "LLLL": "%B",
    "dd": "%d", "d": "%-d", "DDD": "%j", "E": "%a", "EE": "%a", "EEE": "%a", "EEEE": "%A", "a": "%p",
    "HH": "%H", "H": "%-H", "hh": "%I", "h": "%-I", "mm": "%M", "m": "%-M", "ss": "%S", "s": "%-S",
    "Z": "%z", "xx": "%z", "xxx": "%:z",
}  # fmt: skip
_OFFSET_OR_Z = {"XX": "%z", "XXX": "%:z"}
_ZERO = re.escape("+00") + ":?00"


def printer(pattern: str, option: str) -> Print:
    """Raises InvalidQuery for letters that are not understood, naming ``option``."""
    pieces = [_piece(found, pattern, option) for found in _PART.finditer(pattern) if found[0] not in ("[", "]")]

    def print_all(column: pl.Expr) -> pl.Expr:
        return pl.concat_str([piece(column) for piece in pieces])

    return print_all


def _piece(found: re.Match[str], pattern: str, option: str) -> Print:
    """Optional sections (``[ ]``) are always printed, as Java does when there is something to print."""
    part = found[0]
    if found[1] is not None:
        return _literal(found[1].replace("''", "'") or "'")
    if found[2] is None:
        return _literal(part)
    if part in _DIRECTIVES:
        return _formatted(_DIRECTIVES[part])
    if part in _OFFSET_OR_Z:
        return lambda column: column.dt.strftime(_OFFSET_OR_Z[part]).str.replace(f"^{_ZERO}$", "Z")
    if set(part) == {"S"} and len(part) <= 9:
        return lambda column: column.dt.strftime("%9f").str.slice(0, len(part))
    raise InvalidQuery(
        f"option {option!r} is {pattern!r}: {part!r} is not supported",
        hint="use y M d D E a H h m s S X x Z and quoted text, or print the column in the query with date_format",
    )


def _formatted(directive: str) -> Print:
    return lambda column: column.dt.strftime(directive)


def _literal(text: str) -> Print:
    # Depends on the column, so that it is null where the column is and as long as it.
    return lambda column: pl.when(column.is_not_null()).then(pl.lit(text))
