"""Functions that read JSON. Whole batches go through a columnar reader; texts it does not take are read one by one."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.json as pa_json

from tidegate.model import types as t
from tidegate.model.types import Array, DataType, Decimal, Field, Map, Struct, simple_string
from tidegate.operators.columns import arrow_type, polars_type
from tidegate.operators.expressions import casts, json_text
from tidegate.operators.expressions.compiled import Built
from tidegate.operators.expressions.registry import argument, arity, constants, function, plain, takes
from tidegate.operators.expressions.staged import staged
from tidegate.plan.expressions import Call, Cast, Column

_BLANK = " \t\r\n"
_STEP = re.compile(r"\.([A-Za-z_][A-Za-z0-9_ -]*)|\['([^'\]]*)'\]|\[(\d+)\]")
_TEMPORAL = (t.DATE, t.TIMESTAMP, t.TIMESTAMP_NTZ)


def each(texts: pl.Series, read: Callable[[json_text.Value], Any], dtype: pl.DataType) -> pl.Series:
    """Text by text, each different one once; null for what is no JSON."""

    def one(text: str | None) -> Any:
        try:
            return None if text is None or not text.strip(_BLANK) else read(json_text.parse(text))
        except json_text.Malformed:
            return None

    distinct = texts.unique()
    answers = pl.DataFrame({"text": distinct, "value": pl.Series([one(text) for text in distinct], dtype=dtype)})
    joined = texts.to_frame("text").join(answers, on="text", how="left", nulls_equal=True, maintain_order="left")
    return joined["value"]


# -- paths --------------------------------------------------------------------------------------------------------------


def path_of(text: str) -> tuple[str | int, ...] | None:
    """The steps of ``$.a['b'][0]``; None for wildcards and anything else."""
    if not text.startswith("$"):
        return None
    steps: list[str | int] = []
    at = 1
    while at < len(text):
        found = _STEP.match(text, at)
        if found is None:
            return None
        name, bracketed, index = found.groups()
        steps.append(int(index) if index is not None else name if name is not None else bracketed)
        at = found.end()
    return tuple(steps)


def _path_known(call: Call) -> str | None:
    path = str(argument(call, 1))
    return None if path_of(path) is not None else f"{call.function} with the path {path!r} is not supported"


@function(
    "get_json_object", "getjsonobject", supports=arity(2, also=constants(1, also=takes(t.STRING, also=_path_known)))
)
def get_json_object(call: Call, text: pl.Expr, _path: pl.Expr) -> Built:
    """Strings without their quotes, anything else as JSON; null if it is not there, or is null."""
    path = path_of(str(argument(call, 1)))
    assert path is not None
    return text.map_batches(lambda column: _at_path(column, path), return_dtype=pl.String, is_elementwise=True)


def _at_path(column: pl.Series, path: tuple[str | int, ...]) -> pl.Series:
    """Polars finds most; numbers with many digits or exponents, repeated names and loose syntax are read with care."""
    frame = column.to_frame("text")
    found = _matched(column, path)
    if found is None:
        return each(column, lambda value: _shown(value, path), pl.String())
    names = [name for name in path if isinstance(name, str)]
    doubtful = pl.col("found").str.contains(r"\d[eE][+-]?\d|\d{16}|^null$|(?s)^[\[{].*[\x{10000}-\x{10FFFF}]")
    if names:
        last = re.escape(f'"{names[-1]}"')
        doubtful = doubtful | (pl.col("found").is_null() & pl.col("text").str.contains(names[-1], literal=True))
        doubtful = doubtful | (pl.col("text").str.count_matches(last) > 1)
    else:
        doubtful = doubtful | pl.col("found").is_null()
    frame = frame.with_columns(found=found).with_columns(doubtful=doubtful.fill_null(False))
    if not frame["doubtful"].any():
        return frame["found"]
    careful = each(
        frame.select(pl.when("doubtful").then("text")).to_series(),
        lambda value: _shown(value, path),
        pl.String(),
    )
    return (
        frame.with_columns(careful=careful).select(pl.when("doubtful").then("careful").otherwise("found")).to_series()
    )


def _matched(column: pl.Series, path: tuple[str | int, ...]) -> pl.Series | None:
    steps = "".join(f"[{step}]" if isinstance(step, int) else f"['{step}']" for step in path)
    try:
        return column.str.json_path_match(f"${steps}")
    except pl.exceptions.PolarsError:
        return None


def _shown(root: json_text.Value, path: tuple[str | int, ...]) -> str | None:
    value = json_text.at_path(root, path)
    if isinstance(value, str):
        return value
    if value is None and path and isinstance(place := path[-1], int):
        # An element that is null is shown, a member that is null is not.
        around = json_text.at_path(root, path[:-1])
        return "null" if isinstance(around, list) and place < len(around) else None
    return json_text.dump(value) if value is not None or not path else None


@plain("json_array_length", "lengthofjsonarray", supports=arity(1, also=takes(t.STRING)))
def json_array_length(text: pl.Expr) -> Built:
    """Null for anything but an array."""

    def length(value: json_text.Value) -> int | None:
        return len(value) if isinstance(value, list) else None

    return text.map_batches(lambda column: each(column, length, pl.Int32()), return_dtype=pl.Int32, is_elementwise=True)


@plain("json_object_keys", "jsonobjectkeys", supports=arity(1, also=takes(t.STRING)))
def json_object_keys(text: pl.Expr) -> Built:
    """Null for anything but an object."""
    dtype = pl.List(pl.String)

    def keys(value: json_text.Value) -> list[str] | None:
        return [name for name, _ in value.members] if isinstance(value, json_text.Object) else None

    return text.map_batches(lambda column: each(column, keys, dtype), return_dtype=dtype, is_elementwise=True)


# -- from_json ----------------------------------------------------------------------------------------------------------


def _readable(of: DataType, *, inside: bool = False) -> str | None:
    """Why a column of this type cannot be read from JSON, or None."""
    match of:
        case Struct(fields):
            return next((why for field in fields if (why := _readable(field.type, inside=inside)) is not None), None)
        case Array(element):
            return _readable(element, inside=True)
        case Map(key, value):
            return "maps with keys other than strings" if key != t.STRING else _readable(value, inside=True)
        case Decimal() | t.BINARY | t.DAY_TIME_INTERVAL | t.YEAR_MONTH_INTERVAL | t.NULL:
            return simple_string(of)
        case _ if inside and of in _TEMPORAL:
            return f"{simple_string(of)} in an array or a map"
        case _:
            return None


def _schema_known(call: Call) -> str | None:
    if not isinstance(call.type, Struct | Array | Map):
        return f"from_json is not supported for {simple_string(call.type)}"
    reason = _readable(call.type)
    return None if reason is None else f"from_json is not supported for {reason}: read it as a string and cast"


@function("from_json", "jsontostructs", supports=arity(1, also=takes(t.STRING, also=_schema_known)))
def from_json(call: Call, text: pl.Expr) -> Built:
    """A text that is no JSON gives a struct of nulls, a field of another type null for itself alone."""
    plain_type = _as_text(call.type)
    dtype = polars_type(plain_type)

    def run(column: pl.Series) -> pl.Series:
        return _decoded(column, plain_type, dtype)

    value = text.map_batches(run, return_dtype=dtype, is_elementwise=True)
    if plain_type == call.type:
        return value
    return staged(lambda read: _with_times(read, call.type, call.zone), polars_type(call.type), value)


def _as_text(of: DataType) -> DataType:
    """The type with strings for dates and timestamps."""
    match of:
        case Struct(fields):
            return Struct(tuple(Field(field.name, _as_text(field.type), field.nullable) for field in fields))
        case _:
            return t.STRING if of in _TEMPORAL else of


def _with_times(value: pl.Expr, of: DataType, zone: str) -> pl.Expr:
    """Texts of dates and timestamps read as a cast reads them, null where that fails."""
    match of:
        case Struct(fields):
            parts = [
                _with_times(value.struct.field(field.name), field.type, zone).alias(field.name) for field in fields
            ]
            return pl.when(value.is_not_null()).then(pl.struct(parts))
        case _ if of in _TEMPORAL:
            built = casts.build(Cast(Column("text", t.STRING), of, ansi=False, zone=zone), value)
            return built if isinstance(built, pl.Expr) else built.value
        case _:
            return value


def _decoded(column: pl.Series, of: DataType, dtype: pl.DataType) -> pl.Series:
    """Arrow's reader takes a text only if Spark would give the same; halves that it refuses are halved again."""
    if isinstance(of, Struct) and len(column) > 1 and not _holds_map(of):
        quick = _by_arrow(column, of, dtype)
        if quick is not None:
            return quick
        middle = len(column) // 2
        return pl.concat([_decoded(column[:middle], of, dtype), _decoded(column[middle:], of, dtype)])
    nothing = {field.name: None for field in of.fields} if isinstance(of, Struct) else None

    def read(text: str | None) -> Any:
        if text is None or not text.strip(_BLANK):
            return None
        try:
            value = json_text.converted_root(json_text.parse(text), of)
        except json_text.Malformed:
            return nothing
        return nothing if value is None else value

    return pl.Series(column.name, [read(text) for text in column], dtype=dtype)


def _holds_map(of: DataType) -> bool:
    match of:
        case Map():
            return True
        case Array(element):
            return _holds_map(element)
        case Struct(fields):
            return any(_holds_map(field.type) for field in fields)
        case _:
            return False


def _by_arrow(column: pl.Series, of: Struct, dtype: pl.DataType) -> pl.Series | None:
    lines = column.str.strip_chars(_BLANK)
    usable = lines.str.starts_with("{") & lines.str.ends_with("}") & ~lines.str.contains("\n", literal=True)
    if not usable.fill_null(value=False).all():
        return None
    raw = "\n".join(lines).encode()
    wanted = pa.schema([pa.field(field.name, arrow_type(field.type)) for field in of.fields])
    parsing = pa_json.ParseOptions(explicit_schema=wanted, unexpected_field_behavior="ignore")
    reading = pa_json.ReadOptions(use_threads=False, block_size=len(raw) + 1)
    try:
        table = pa_json.read_json(io.BytesIO(raw), read_options=reading, parse_options=parsing)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None
    if table.num_rows != len(column):
        return None
    frame = pl.from_arrow(table.select(wanted.names))
    assert isinstance(frame, pl.DataFrame)
    return frame.to_struct().cast(dtype).rename(column.name)
