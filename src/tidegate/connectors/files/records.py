"""JSON, CSV and text files: one record per line, so that any byte after a line end is a position."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import msgspec
import polars as pl

from tidegate.connectors.files.config import FileSourceConfig
from tidegate.connectors.files.lines import LineBlocks, to_newlines
from tidegate.connectors.files.parquet import behind_the_end, corrupt, with_constants
from tidegate.connectors.files.splits import LinePosition, SourceFile, decode_position
from tidegate.connectors.rows import RowShape
from tidegate.connectors.text_values import from_json, json_type
from tidegate.model import types as t
from tidegate.model.errors import InvalidQuery
from tidegate.ports.source import SplitReader


@dataclass(frozen=True, slots=True)
class Lines:
    """Whole lines, each ended by ``\n``. ``where`` says for messages after which row they stand."""

    text: bytes
    first: bool
    """They begin the file."""
    where: str


ParseLines: TypeAlias = Callable[[Lines], pl.DataFrame]
"""Columns under the source's names."""


class LineReader(SplitReader):
    """Position: the byte at which the next line starts. Nothing is decoded ahead of what is handed out."""

    def __init__(
        self,
        file: SourceFile,
        shape: RowShape,
        constants: dict[str, pl.Series],
        parse: ParseLines,
        position: bytes | None,
    ) -> None:
        at = LinePosition() if position is None else decode_position(position, LinePosition)
        self._name = file.name
        self._shape = shape
        self._constants = constants
        self._parse = parse
        self._row = at.row
        self._blocks = LineBlocks(file.path, at.offset)
        if self._blocks.starts_behind_end:
            self._blocks.close()
            raise behind_the_end(file.name, f"byte {at.offset}")

    def read(self, rows_max: int, now_ms: int) -> pl.DataFrame | None:
        while True:  # A block may hold blank lines or a header only.
            first, where = self._blocks.offset == 0, self.describe()
            try:
                block = self._blocks.take(rows_max)
            except (OSError, EOFError) as error:
                raise corrupt(self._name, error) from error
            if block is None:
                return None
            frame = self._parse(Lines(to_newlines(block), first, where))
            self._row += frame.height
            if frame.height:
                return self._shape.rows(with_constants(frame, self._constants), where)

    @property
    def position(self) -> bytes:
        return msgspec.msgpack.encode(LinePosition(offset=self._blocks.offset, row=self._row))

    @property
    def finished(self) -> bool:
        return self._blocks.finished

    def describe(self) -> str:
        return f"{self._name} row {self._row}"

    def close(self) -> None:
        self._blocks.close()


def text_parser(column: str) -> ParseLines:
    """Every line is a value; bytes that are not UTF-8 become U+FFFD, as in Spark."""

    def parse(lines: Lines) -> pl.DataFrame:
        whole = pl.Series(column, [lines.text[:-1].decode("utf-8", errors="replace")], dtype=pl.String)
        return whole.str.split("\n").explode(empty_as_null=False).to_frame()

    return parse


def json_parser(config: FileSourceConfig, fields: tuple[t.Field, ...]) -> ParseLines:
    """Permissive: a value of another type is null, a line that is not JSON is a row of nulls. FAILFAST: either is an error."""
    for field in fields:
        _refuse_unreadable(field.type, field.name)
    schema = {field.name: json_type(field.type) for field in fields}
    values = [from_json(pl.col(field.name), field.type, config.zone).alias(field.name) for field in fields]
    # A line must count even if no column of it is wanted, and it must still be JSON.
    read_schema = schema or {"": pl.Null()}

    floats = [field.name for field in fields if field.type in t.FRACTIONAL]

    def read(lines: Lines, as_types: dict[str, pl.DataType]) -> pl.DataFrame:
        try:
            return pl.read_ndjson(lines.text, schema=as_types, ignore_errors=not config.fail_fast)
        except pl.exceptions.PolarsError as error:
            if config.fail_fast:
                raise corrupt(f"the JSON lines after {lines.where}", error) from error
            return _parse_around_malformed(lines.text, as_types)

    def parse(lines: Lines) -> pl.DataFrame:
        frame = read(lines, read_schema)
        if floats and any(mark in lines.text for mark in _NOT_FINITE_MARKS):
            words = read(lines, dict.fromkeys(floats, pl.String()))
            frame = frame.with_columns(
                _not_finite(words[name]).zip_with(frame[name].is_null(), frame[name]) for name in floats
            )
        return frame.select(values) if values else frame

    return parse


_NOT_FINITE_MARKS = (b'NaN"', b'Infinity"', b'INF"')
_NOT_FINITE = {
    "NaN": float("nan"),
    **dict.fromkeys(("Infinity", "+Infinity", "INF", "+INF"), float("inf")),
    **dict.fromkeys(("-Infinity", "-INF"), float("-inf")),
}


def _not_finite(words: pl.Series) -> pl.Series:
    """The only strings that Spark takes for numbers: what it writes itself where JSON has no number."""
    return words.replace_strict(_NOT_FINITE, default=None, return_dtype=pl.Float64)


def _parse_around_malformed(block: bytes, schema: dict[str, pl.DataType]) -> pl.DataFrame:
    """Halves the block until the malformed lines stand alone: n of them cost n log(lines) calls, not one call per line."""
    lines = block.splitlines(keepends=True)
    if len(lines) == 1:
        return pl.DataFrame({name: [None] for name in schema}, schema=schema)
    parts: list[pl.DataFrame] = []
    for half in (lines[: len(lines) // 2], lines[len(lines) // 2 :]):
        joined = b"".join(half)
        try:
            parts.append(pl.read_ndjson(joined, schema=schema, ignore_errors=True))
        except pl.exceptions.PolarsError:
            parts.append(_parse_around_malformed(joined, schema))
    return pl.concat(parts)


def _refuse_unreadable(kind: t.DataType, column: str) -> None:
    match kind:
        case t.Map() | t.Atomic("interval day to second"):
            raise InvalidQuery(
                f"column {column!r} of the json source is a {t.simple_string(kind)}, which cannot be read from JSON yet",
                hint="declare it as string and take it apart with from_json or get_json_object in the query",
            )
        case t.Array(element):
            _refuse_unreadable(element, column)
        case t.Struct(fields):
            for field in fields:
                _refuse_unreadable(field.type, f"{column}.{field.name}")
        case _:
            return
