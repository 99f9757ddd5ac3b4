"""What stands in Delta's log about the values of a file, so that readers can skip it: from the footer that Parquet wrote."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tidegate.model import types as t

COLUMNS_MAX = 32
"""As many leading columns are described as Delta's own writer describes."""
TEXT_MAX = 64
"""Characters of a minimum or maximum."""
_LAST_CHARACTER = "\U0010ffff"
_EXACT_DIGITS = 15
"""So many digits of a decimal survive as a JSON number that a reader takes for a double."""


def statistics_of(metadata: pq.FileMetaData, stored: t.Schema, not_numbers: frozenset[str]) -> str:
    """``numRecords``, and per column ``nullCount``, ``minValues``, ``maxValues`` where they are known exactly or can be bounded.

    ``not_numbers``: columns with NaN, which Spark takes for the greatest number and Parquet for none.
    """
    lowest: dict[str, Any] = {}
    highest: dict[str, Any] = {}
    nulls: dict[str, Any] = {}
    places = _places(metadata)
    for path, kind in list(_leaves(stored))[:COLUMNS_MAX]:
        place = places.get(".".join(path))
        if place is None:
            continue
        parts = [metadata.row_group(n).column(place).statistics for n in range(metadata.num_row_groups)]
        if any(part is None or not part.has_null_count for part in parts):
            continue
        _put(nulls, path, sum(part.null_count for part in parts))
        filled = [part for part in parts if part.num_values]
        if not filled or any(not part.has_min_max for part in filled):
            continue
        if kind in t.FRACTIONAL and (len(path) > 1 or not_numbers.intersection(path)):
            continue
        try:
            low = _bound(min(part.min for part in filled), kind, upper=False)
            high = _bound(max(part.max for part in filled), kind, upper=True)
        except (ValueError, OverflowError, pa.ArrowException):
            continue  # A date that Python cannot hold: the file is read, not skipped.
        if low is not None and high is not None:
            _put(lowest, path, low)
            _put(highest, path, high)
    return json.dumps(
        {"numRecords": metadata.num_rows, "minValues": lowest, "maxValues": highest, "nullCount": nulls},
        ensure_ascii=False,
        allow_nan=False,
        separators=(",", ":"),
    )


def _places(metadata: pq.FileMetaData) -> dict[str, int]:
    """Leaf columns by dotted path; a path that two columns share is left out."""
    paths = [metadata.schema.column(n).path for n in range(metadata.num_columns)]
    return {path: n for n, path in enumerate(paths) if paths.count(path) == 1}


def _leaves(schema: t.Schema, above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], t.DataType]]:
    for field in schema:
        match field.type:
            case t.Struct(fields):
                yield from _leaves(fields, (*above, field.name))
            case t.Array() | t.Map():
                continue
            case kind:
                yield (*above, field.name), kind


def _bound(value: Any, kind: t.DataType, *, upper: bool) -> Any:
    """None: this type has no bounds in the log."""
    match kind, value:
        case t.Atomic("boolean" | "binary"), _:
            return None
        case t.Decimal(precision), Decimal():
            return float(value) if precision <= _EXACT_DIGITS else None
        case _, str():
            if len(value) <= TEXT_MAX:
                return value
            return value[:TEXT_MAX] + (_LAST_CHARACTER if upper else "")
        case _, datetime():
            # The log keeps milliseconds.
            cut = value.replace(tzinfo=None, microsecond=value.microsecond // 1000 * 1000)
            if upper and value.microsecond % 1000:
                cut += timedelta(milliseconds=1)
            return cut.isoformat(timespec="milliseconds") + ("Z" if kind == t.TIMESTAMP else "")
        case _, date():
            return value.isoformat()
        case _, float():
            return value if math.isfinite(value) else None
        case _, int():
            return value
        case _:
            return None


def _put(into: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    for name in path[:-1]:
        into = into.setdefault(name, {})
    into[path[-1]] = value
