"""Dates and timestamps as text: what CAST reads and writes, and the common patterns of ``date_format``."""

from __future__ import annotations

import re
from dataclasses import dataclass

import polars as pl

from tidegate.model.errors import InvalidQuery
from tidegate.operators.expressions import zones
from tidegate.operators.expressions.civil import US_PER_DAY, US_PER_SECOND, days_from_civil, is_date

BLANKS = "".join(map(chr, range(0x21))) + "\x7f"
"""What Spark trims before it reads a value: blanks and ASCII control characters."""

_DATE = r"(?s)^([+-]?\d{4,7})(?:-(\d{1,2})(?:-(\d{1,2})(?:[ T].*)?)?)?$"
_ZONE = r" ?(Z|UTC|GMT|UT|(?:UTC|GMT|UT)?[+-]\d{1,2}(?::\d{1,2}){0,2}|[+-]\d{4}|[+-]\d{6}|[A-Za-z][A-Za-z_]*/[A-Za-z_/+0-9-]+|[A-Z]{3,5})"
_TIMESTAMP = (
    r"^([+-]?\d{4,6})(?:-(\d{1,2})(?:-(\d{1,2})(?:[ T](\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d*))?)?"
    rf"(?:{_ZONE})?)?)?)?$"
)


@dataclass(frozen=True, slots=True)
class ParsedTimestamp:
    value: pl.Expr
    """Null where the text is no timestamp."""
    foreign_zone: pl.Expr
    """True where the text names a region (``Europe/Paris``) as its zone: valid in Spark, not read here."""


def _number(groups: pl.Expr, index: int, default: int) -> pl.Expr:
    return groups.struct.field(str(index)).cast(pl.Int64, strict=False).fill_null(default)


def parse_date(text: pl.Expr) -> pl.Expr:
    """``yyyy``, ``yyyy-[m]m``, ``yyyy-[m]m-[d]d`` and whatever follows a blank or T; null for anything else."""
    groups = text.str.strip_chars(BLANKS).str.extract_groups(_DATE)
    year, month, day = (_number(groups, index, 1) for index in (1, 2, 3))
    valid = groups.struct.field("1").is_not_null() & is_date(year, month, day)
    return pl.when(valid).then(days_from_civil(year, month, day)).otherwise(None).cast(pl.Int32).cast(pl.Date)


def parse_timestamp(text: pl.Expr, zone: str | None) -> ParsedTimestamp:
    """ISO timestamps; ``zone`` is the session's, or None for timestamps without one (a zone in the text is then ignored)."""
    groups = text.str.strip_chars(BLANKS).str.extract_groups(_TIMESTAMP)
    year, month, day = (_number(groups, index, 1) for index in (1, 2, 3))
    hour, minute, second = (_number(groups, index, 0) for index in (4, 5, 6))
    fraction = groups.struct.field("7").str.pad_end(6, "0").str.slice(0, 6).cast(pl.Int64, strict=False).fill_null(0)
    valid = (
        groups.struct.field("1").is_not_null()
        & is_date(year, month, day)
        & hour.is_between(0, 23)
        & minute.is_between(0, 59)
        & second.is_between(0, 59)
    )
    of_day_us = ((hour * 60 + minute) * 60 + second) * US_PER_SECOND + fraction
    local_us = pl.when(valid).then(days_from_civil(year, month, day) * US_PER_DAY + of_day_us).otherwise(None)
    local = local_us.cast(zones.LOCAL)
    suffix = groups.struct.field("8")
    if zone is None:
        return ParsedTimestamp(local, pl.lit(False))
    offset_us, foreign = _offset_us(suffix)
    instant = (
        pl.when(suffix.is_null())
        .then(zones.to_instant(local, zone))
        .otherwise((local_us - offset_us).cast(zones.INSTANT))
    )
    return ParsedTimestamp(instant, valid & foreign)


def _offset_us(suffix: pl.Expr) -> tuple[pl.Expr, pl.Expr]:
    """Microseconds east of UTC, null for an impossible offset; and whether the suffix names a region instead."""
    parts = suffix.str.extract_groups(r"^(?:UTC|GMT|UT)?([+-])(\d{1,2}):?(\d{1,2})?:?(\d{1,2})?$")
    hours, minutes, seconds = (_number(parts, index, 0) for index in (2, 3, 4))
    size = (hours * 3600 + minutes * 60 + seconds) * US_PER_SECOND
    legal = (size <= 18 * 3600 * US_PER_SECOND) & (minutes <= 59) & (seconds <= 59)
    sign = parts.struct.field("1")
    utc = suffix.is_in(["Z", "UTC", "GMT", "UT"])
    offset = (
        pl.when(utc)
        .then(0)
        .when(legal & (sign == "+"))
        .then(size)
        .when(legal & (sign == "-"))
        .then(-size)
        .otherwise(None)
    )
    return offset, suffix.is_not_null() & ~utc & sign.is_null()


def print_timestamp(local: pl.Expr) -> pl.Expr:
    """``2024-02-29 12:30:00.25``: the fraction without trailing zeros."""
    return local.dt.to_string("%Y-%m-%d %H:%M:%S%.6f").str.strip_chars_end("0").str.strip_chars_end(".")


def print_date(date: pl.Expr) -> pl.Expr:
    return date.dt.to_string("%Y-%m-%d")


# -- Java's DateTimeFormatter patterns ----------------------------------------------------------------------------------

_PRINTED = {
    "yyyy": "%Y", "uuuu": "%Y", "yy": "%y", "y": "%-Y", "MM": "%m", "M": "%-m", "MMM": "%b", "MMMM": "%B",
    "dd": "%d", "d": "%-d", "DDD": "%j", "D": "%-j", "E": "%a", "EE": "%a", "EEE": "%a", "EEEE": "%A",
    "HH": "%H", "H": "%-H", "hh": "%I", "h": "%-I", "mm": "%M", "m": "%-M", "ss": "%S", "s": "%-S", "a": "%p",
    "SSS": "%3f", "SSSSSS": "%6f", "SSSSSSSSS": "%9f",
}  # fmt: skip
_PARSED = {
    "yyyy": ("year", r"(\d{4})"), "MM": ("month", r"(\d{2})"), "M": ("month", r"(\d{1,2})"), "dd": ("day", r"(\d{2})"),
    "d": ("day", r"(\d{1,2})"), "HH": ("hour", r"(\d{2})"), "H": ("hour", r"(\d{1,2})"), "mm": ("minute", r"(\d{2})"),
    "m": ("minute", r"(\d{1,2})"), "ss": ("second", r"(\d{2})"), "s": ("second", r"(\d{1,2})"),
    "SSS": ("fraction", r"(\d{3})"), "SSSSSS": ("fraction", r"(\d{6})"),
}  # fmt: skip
_TOKEN = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|([^A-Za-z'])")


def _tokens(pattern: str) -> list[tuple[str, bool]]:
    """Pieces of a Java pattern: (text, is it a field)."""
    pieces: list[tuple[str, bool]] = []
    end = 0
    for match in _TOKEN.finditer(pattern):
        if match.start() != end or ((match.group(3) or "") in "[]{}#" and match.group(3)):
            break
        end = match.end()
        if match.group(2):
            pieces.append((match.group(0), True))
        else:
            pieces.append(((match.group(1) or match.group(3) or "'").replace("''", "'"), False))
    if end != len(pattern):
        raise InvalidQuery(f"the date pattern {pattern!r} is not supported")
    return pieces


def printer(pattern: str) -> str:
    """The strftime format of a Java pattern; InvalidQuery for fields we do not print exactly as Java does."""
    out = ""
    for text, is_field in _tokens(pattern):
        if is_field and text not in _PRINTED:
            raise InvalidQuery(f"the field {text!r} of the date pattern {pattern!r} is not supported")
        out += _PRINTED[text] if is_field else text.replace("%", "%%")
    return out


def parser(pattern: str) -> tuple[str, dict[str, int]]:
    """A regular expression for a Java pattern, and which group holds which field."""
    regex, fields = "^", {}
    for text, is_field in _tokens(pattern):
        if not is_field:
            regex += re.escape(text)
            continue
        name, group = _PARSED.get(text, ("", ""))
        if not name or name in fields:
            raise InvalidQuery(f"reading the field {text!r} of the date pattern {pattern!r} is not supported")
        fields[name] = len(fields) + 1
        regex += group
    return regex + "$", fields


def reason_against(pattern: str, *, parsing: bool = False) -> str | None:
    try:
        parser(pattern) if parsing else printer(pattern)
    except InvalidQuery as refusal:
        return refusal.message
    return None


def parse_by_pattern(text: pl.Expr, pattern: str) -> pl.Expr:
    """Local timestamps written in a Java pattern; null for text that does not follow it."""
    regex, fields = parser(pattern)
    groups = text.str.extract_groups(regex)
    part = {
        name: _number(groups, fields[name], default) if name in fields else pl.lit(default, dtype=pl.Int64)
        for name, default in (("year", 1970), ("month", 1), ("day", 1), ("hour", 0), ("minute", 0), ("second", 0))
    }
    fraction = pl.lit(0, dtype=pl.Int64)
    if "fraction" in fields:
        fraction = groups.struct.field(str(fields["fraction"])).str.pad_end(6, "0").cast(pl.Int64, strict=False)
    date = (part["year"], part["month"], part["day"])
    valid = groups.struct.field("1").is_not_null() & is_date(*date)
    valid = valid & (part["hour"] <= 23) & (part["minute"] <= 59) & (part["second"] <= 59)
    of_day_us = ((part["hour"] * 60 + part["minute"]) * 60 + part["second"]) * US_PER_SECOND + fraction
    local_us = days_from_civil(*date) * US_PER_DAY + of_day_us
    return pl.when(valid).then(local_us).otherwise(None).cast(zones.LOCAL)
