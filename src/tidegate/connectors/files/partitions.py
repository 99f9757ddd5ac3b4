"""Columns whose values stand in the names of directories: ``…/day=2024-01-01/region=eu/part-0.parquet``."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from urllib.parse import unquote

import polars as pl

NULL_NAME = "__HIVE_DEFAULT_PARTITION__"
"""What Spark calls the directory of rows whose partition column is null (or an empty string)."""

_ESCAPED = re.compile("[\x01-\x1f\"#%'*/:=?\\\\\x7f{\\[\\]^]")


def partition_values(path: str) -> dict[str, str | None]:
    """Every ``name=value`` directory of ``path``, outermost first."""
    pairs = (part.partition("=") for part in PurePosixPath(path).parts[:-1] if "=" in part)
    return {unquote(name): None if value == NULL_NAME else unquote(value) for name, _, value in pairs}


def escaped(text: str) -> str:
    """As Spark writes values into directory names."""
    return _ESCAPED.sub(lambda found: f"%{ord(found[0]):02X}", text)


def directory_names(rows: pl.DataFrame, columns: tuple[str, ...], zone: str) -> list[str]:
    """One relative directory per row of ``rows`` (distinct values of the partition columns)."""
    texts = rows.select(_text(pl.col(column), rows.schema[column], zone) for column in columns)
    return [
        "/".join(f"{escaped(column)}={_value_name(value)}" for column, value in zip(columns, row, strict=True))
        for row in texts.iter_rows()
    ]


def _value_name(value: str | None) -> str:
    return escaped(value) if value else NULL_NAME


def _text(column: pl.Expr, kind: pl.DataType, zone: str) -> pl.Expr:
    if not isinstance(kind, pl.Datetime):
        return column.cast(pl.String)
    local = column.dt.convert_time_zone(zone) if kind.time_zone else column
    whole = local.dt.strftime("%Y-%m-%d %H:%M:%S")
    # Spark prints no fraction when there is none, and no trailing zeros.
    micros = local.dt.microsecond()
    fraction = pl.lit(".") + micros.cast(pl.String).str.zfill(6).str.strip_chars_end("0")
    return pl.when(micros > 0).then(whole + fraction).otherwise(whole)
