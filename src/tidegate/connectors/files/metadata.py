"""The hidden column ``_metadata`` of file sources: where a row was read, as Spark says it."""

from __future__ import annotations

import os
from pathlib import PurePosixPath

import polars as pl

from tidegate.connectors.files.config import is_remote
from tidegate.connectors.files.splits import SourceFile
from tidegate.model.errors import InvalidQuery
from tidegate.model.types import DataType, Struct
from tidegate.operators.columns import polars_type

METADATA = "_metadata"
ROW_INDEX = "row_index"
"""Differs from row to row; all other fields are the same for a whole file."""
_PLAIN = frozenset("/;:@&=+$,-_.!~*'()")


def metadata_of(file: SourceFile, of: DataType) -> pl.Series:
    """One value of the struct ``of`` for a file. A file is one block: what is larger is not cut in pieces."""
    if not isinstance(of, Struct):
        raise InvalidQuery(
            f"the column {METADATA} of a file source must be a struct", hint="select it as Spark offers it"
        )
    status = os.stat(file.path)  # noqa: PTH116 - a path as it was listed; a copy has the times of its original
    uri = escaped_uri(file.name)
    values: dict[str, object] = {
        "file_path": uri if is_remote(file.name) else f"file:{uri}",
        "file_name": PurePosixPath(uri).name,
        "file_size": status.st_size,
        "file_block_start": 0,
        "file_block_length": status.st_size,
        # Spark's file systems tell time in milliseconds.
        "file_modification_time": status.st_mtime_ns // 1_000_000 * 1_000,
        ROW_INDEX: 0,
    }
    unknown = [field.name for field in of.fields if field.name not in values]
    if unknown:
        raise InvalidQuery(f"{METADATA}.{unknown[0]} is not supported", hint=f"there are {', '.join(values)}")
    parts = [
        pl.Series(field.name, [values[field.name]]).cast(polars_type(field.type)).alias(field.name)
        for field in of.fields
    ]
    return pl.DataFrame(parts).to_struct(METADATA)


def with_row_index(frame: pl.DataFrame, first: int) -> pl.DataFrame:
    """The frame with the numbers of its rows in the file, if anybody asked for them."""
    dtype = frame.schema.get(METADATA)
    if not isinstance(dtype, pl.Struct) or all(field.name != ROW_INDEX for field in dtype.fields):
        return frame
    numbers = pl.int_range(first, first + frame.height, dtype=pl.Int64).alias(ROW_INDEX)
    return frame.with_columns(pl.col(METADATA).struct.with_fields(numbers))


def escaped_uri(path: str) -> str:
    """As Java writes a path into a URI: letters of any language stay, what has a meaning in URIs does not."""
    return "".join(character if _stays(character) else _escaped(character) for character in path)


def _stays(character: str) -> bool:
    if character.isascii():
        return character.isalnum() or character in _PLAIN
    return character.isprintable() and not character.isspace()


def _escaped(character: str) -> str:
    return "".join(f"%{byte:02X}" for byte in character.encode())
