"""CSV lines as Spark understands them. Quotes never span lines; columns go by position, a header line is only skipped."""

from __future__ import annotations

import re

import numpy as np
import polars as pl

from tidegate.connectors.files.config import FileSourceConfig
from tidegate.connectors.files.parquet import corrupt
from tidegate.connectors.files.records import Lines, ParseLines
from tidegate.connectors.text_values import from_text
from tidegate.model import types as t
from tidegate.model.errors import DataError, InvalidQuery


def csv_parser(config: FileSourceConfig, stored: tuple[t.Field, ...], wanted: tuple[str, ...]) -> ParseLines:
    """``stored`` are all columns of a line, in order; ``wanted`` those of the query."""
    kinds = {field.name: field.type for field in stored}
    for name in wanted:
        if not isinstance(kinds[name], t.Atomic | t.Decimal) or kinds[name] == t.DAY_TIME_INTERVAL:
            raise InvalidQuery(
                f"column {name!r} of the csv source is a {t.simple_string(kinds[name])}, which CSV cannot hold",
                hint="declare it as string and parse it in the query",
            )
    values = [from_text(pl.col(name), kinds[name], config.zone).alias(name) for name in wanted]
    splitter = _CsvLines(config, tuple(kinds))

    def parse(lines: Lines) -> pl.DataFrame:
        texts = splitter.split(lines)
        rows = texts.select(values) if values else texts
        if config.fail_fast:
            _refuse_misfits(texts, rows, lines.where)
        return rows

    return parse


class _CsvLines:
    """Splits lines into text columns. The common case, in which quotes are simple or absent, is left to Polars."""

    def __init__(self, config: FileSourceConfig, names: tuple[str, ...]) -> None:
        self._config = config
        self._names = names
        q, e, s = (re.escape(c) for c in (config.quote, config.escape, config.separator))
        body = f"(?:[^{q}]|{q}{q})*" if config.quote == config.escape else f"(?:[^{q}{e}]|{e}.)*" if e else f"[^{q}]*"
        self._quoted = re.compile(f"{q}({body}){q}(?={s}|$)") if q else None
        self._unescape = re.compile(f"{e}([{q}{e}])") if q and e else None

    def split(self, lines: Lines) -> pl.DataFrame:
        block = lines.text
        if lines.first and self._config.header:
            block = re.sub(rb"\A(?:[ \t]*\n)*[^\n]*\n", b"", block, count=1)
        # Looking for the rare blank line with plain searches first: they are fifty times faster than the expression.
        if block.startswith((b"\n", b" ", b"\t")) or any(mark in block for mark in (b"\n\n", b"\n ", b"\n\t")):
            block = re.sub(rb"(?m)^[ \t]*\n", b"", block)
        if not block:
            return pl.DataFrame(schema=dict.fromkeys(self._names, pl.String))
        frame = self._split_slowly(block) if self._is_tricky(block) else self._split_fast(block, lines.where)
        null = self._config.null_value
        return frame.with_columns(pl.when(pl.col(pl.String) != null).then(pl.col(pl.String)))

    def _is_tricky(self, block: bytes) -> bool:
        """Lines on which Spark's parser and the standard differ: escapes, quotes inside of a field, quotes that stay open."""
        quote, escape = self._config.quote.encode(), self._config.escape.encode()
        if not quote or quote not in block:
            return False
        if escape and escape != quote and escape in block:
            return True
        buffer = np.frombuffer(b"\n" + block, dtype=np.uint8)  # Every quote has a neighbour on both sides.
        at = np.flatnonzero(buffer == ord(quote))
        edges = (self._config.separator + "\n" + (self._config.quote if escape == quote else "")).encode()
        is_edge = np.isin(np.arange(256), np.frombuffer(edges, dtype=np.uint8))
        if not (is_edge[buffer[at - 1]] | is_edge[buffer[at + 1]]).all():
            return True
        starts = np.flatnonzero(buffer == ord("\n"))[:-1]
        return bool((np.add.reduceat((buffer == ord(quote)).astype(np.int64), starts) % 2).any())

    def _split_fast(self, block: bytes, where: str) -> pl.DataFrame:
        # Polars counts the columns of the first line: give it one that has them all.
        model = self._config.separator.join("x" * len(self._names)).encode() + b"\n"
        try:
            return pl.read_csv(
                model + block,
                has_header=False,
                separator=self._config.separator,
                quote_char=self._config.quote or None,
                schema=dict.fromkeys(self._names, pl.String),
                truncate_ragged_lines=True,
                encoding="utf8-lossy",
            ).slice(1)
        except pl.exceptions.PolarsError as error:
            raise corrupt(f"the CSV lines after {where}", error) from error

    def _split_slowly(self, block: bytes) -> pl.DataFrame:
        """Line by line: slower, but exactly Spark's rules for escapes and for quotes in odd places."""
        width = len(self._names)
        rows = [self._fields(line)[:width] for line in block.decode("utf-8", errors="replace").split("\n")[:-1]]
        columns = zip(*(row + [None] * (width - len(row)) for row in rows), strict=True)
        return pl.DataFrame(
            {name: pl.Series(name, column, dtype=pl.String) for name, column in zip(self._names, columns, strict=True)}
        )

    def _fields(self, line: str) -> list[str | None]:
        separator, fields, at = self._config.separator, [], 0
        while True:
            quoted = self._quoted.match(line, at) if self._quoted else None
            if quoted:
                fields.append(self._unescape.sub(r"\1", quoted[1]) if self._unescape else quoted[1])
                end = quoted.end()
            elif self._quoted and line.startswith(self._config.quote, at) and self._config.quote not in line[at + 1 :]:
                fields.append(line[at + 1 :])  # Never closed: the rest of the line is the value.
                end = len(line)
            else:
                end = line.find(separator, at)
                end = len(line) if end < 0 else end
                fields.append(line[at:end] or None)
            if end >= len(line):
                return fields
            at = end + 1


def _refuse_misfits(texts: pl.DataFrame, rows: pl.DataFrame, where: str) -> None:
    for name in rows.columns:
        bad = texts.filter(texts[name].is_not_null() & rows[name].is_null())
        if bad.height:
            raise DataError(
                f"{bad[name][0]!r} in the CSV lines after {where} is no {rows.schema[name]} (column {name!r})",
                hint="correct the file, or set mode to PERMISSIVE to read such values as null",
            )
