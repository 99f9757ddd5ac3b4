"""Options of the formats that are text (json, csv, text), with Spark's names and defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import polars as pl

from tidegate.connectors.files.date_patterns import printer
from tidegate.connectors.options import Options
from tidegate.model.errors import InvalidQuery

TEXT_CODECS = {"none": "", "uncompressed": "", "gzip": ".gz", "bzip2": ".bz2"}
"""Compression → what is added to the name, which is how readers know."""

DEFAULT_EMPTY_VALUE = '""'

_MICROSECONDS = "%Y-%m-%dT%H:%M:%S%.6f"


@dataclass(frozen=True, slots=True, kw_only=True)
class TextOptions:
    """How values become text. Without a pattern an instant is ISO 8601 in UTC, with microseconds: nothing is lost."""

    compression: str
    line_separator: str = "\n"
    zone: str = "UTC"
    """For ``timestampFormat``."""
    patterns: Mapping[str, str] = field(default_factory=dict)
    """``dateFormat``, ``timestampFormat``, ``timestampNTZFormat``, where they are set."""
    ignore_null_fields: bool = True
    """JSON: a null is left out, as in Spark."""
    separator: str = ","
    quote: str = '"'
    escape: str = "\\"
    null_value: str = ""
    empty_value: str = DEFAULT_EMPTY_VALUE
    header: bool = False
    quote_all: bool = False
    escape_quotes: bool = True
    """A value with a quote in it is quoted."""

    def date(self, column: pl.Expr) -> pl.Expr:
        return self._print("dateFormat", column.cast(pl.Datetime("us")), column.dt.strftime("%Y-%m-%d"))

    def instant(self, column: pl.Expr) -> pl.Expr:
        local = column.dt.convert_time_zone(self.zone)
        return self._print("timestampFormat", local, column.dt.strftime(_MICROSECONDS) + "Z")

    def wall_time(self, column: pl.Expr) -> pl.Expr:
        return self._print("timestampNTZFormat", column, column.dt.strftime(_MICROSECONDS))

    def _print(self, option: str, column: pl.Expr, otherwise: pl.Expr) -> pl.Expr:
        pattern = self.patterns.get(option)
        return otherwise if pattern is None else printer(pattern, option)(column)


def parse_text_options(form: str, options: Options, zone: str) -> TextOptions:
    """Validates everything, patterns included."""
    compression = options.choice("compression", "none", tuple(TEXT_CODECS))
    _refuse_encodings(options)
    line_separator = options.text("lineSep", "\n") or ""
    if not line_separator:
        raise options.invalid("lineSep", line_separator, "at least one character")
    if form == "text":
        return TextOptions(compression=compression, line_separator=line_separator)
    options.refuse("locale", hint="names of months and days are English; print them in the query with date_format")
    patterns = {
        name: text
        for name in ("dateFormat", "timestampFormat", "timestampNTZFormat")
        if (text := options.text(name)) is not None
    }
    for name, pattern in patterns.items():
        printer(pattern, name)
    common = TextOptions(compression=compression, line_separator=line_separator, zone=zone, patterns=patterns)
    return _parse_json(options, common) if form == "json" else _parse_csv(options, common)


def _refuse_encodings(options: Options) -> None:
    for name in ("encoding", "charset"):
        encoding = options.text(name, "UTF-8") or "UTF-8"
        if encoding.upper().replace("-", "") != "UTF8":
            raise options.invalid(name, encoding, "UTF-8")


def _parse_json(options: Options, common: TextOptions) -> TextOptions:
    options.refuse(
        "pretty", "writeNonAsciiCharacterAsCodePoint", hint="one object per line, in UTF-8, is what is written"
    )
    return replace(common, ignore_null_fields=options.flag("ignoreNullFields", True))


def _parse_csv(options: Options, common: TextOptions) -> TextOptions:
    options.refuse("charToEscapeQuoteEscaping", hint="only Spark's default is built: leave it out")
    # Spaces around a value are kept, in quotes: every reader gets back what was written.
    options.ignore("ignoreLeadingWhiteSpace", "ignoreTrailingWhiteSpace")
    separator = options.character("sep", options.character("delimiter", ","))
    quote, escape = options.character("quote", '"'), options.character("escape", "\\")
    if not (separator and quote and escape):
        raise InvalidQuery("sep, quote and escape of the csv sink must not be empty", hint="leave them out")
    return replace(
        common,
        separator=separator,
        quote=quote,
        escape=escape,
        null_value=options.text("nullValue", "") or "",
        empty_value=options.text("emptyValue", DEFAULT_EMPTY_VALUE) or "",
        header=options.flag("header"),
        quote_all=options.flag("quoteAll"),
        escape_quotes=options.flag("escapeQuotes", True),
    )
