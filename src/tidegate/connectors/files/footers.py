"""The smallest event time in a Parquet file, from the statistics in its footer: known before a row of it is read."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from typing import TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from tidegate.connectors.files.found import Found
from tidegate.connectors.files.parallel import side_by_side
from tidegate.model.elements import WATERMARK_MAX_US, WATERMARK_MIN_US
from tidegate.model.errors import TidegateError

FOOTERS_AT_ONCE = 32
TAIL_BYTES = 64 * 1024
"""Read at first: the whole footer of most files."""
_TRAILER_BYTES = 8
"""Length of the footer, and the magic word."""
_PER_US = {"milliseconds": (1_000, 1), "microseconds": (1, 1), "nanoseconds": (1, 1_000)}
"""Factor and divisor to microseconds."""

ReadRange: TypeAlias = Callable[[str, int, int], bytes]
"""Bytes of a file, from one offset to another."""


def earliest_times(files: Sequence[Found], column: str, read: ReadRange) -> list[int | None]:
    """Of each file; None: not known. A place that does not answer is not asked for the rest of them: rows do not depend on it."""
    silent = threading.Event()

    def one(file: Found) -> int | None:
        if silent.is_set():
            return None
        try:
            return earliest_us(read_footer(file, read), column)
        except TidegateError:
            silent.set()
            return None
        except (OSError, pa.ArrowException):
            return None  # Gone, damaged, or not Parquet: whoever reads the file says so.

    return side_by_side(one, files, FOOTERS_AT_ONCE)


def read_footer(file: Found, read: ReadRange) -> pq.FileMetaData:
    tail = read(file.path, max(0, file.size_bytes - TAIL_BYTES), file.size_bytes)
    wanted = int.from_bytes(tail[-_TRAILER_BYTES:-4], "little") + _TRAILER_BYTES
    if len(tail) < wanted <= file.size_bytes:
        tail = read(file.path, file.size_bytes - wanted, file.size_bytes)
    return pq.read_metadata(pa.BufferReader(tail))


def earliest_us(footer: pq.FileMetaData, column: str) -> int | None:
    """No row has an earlier time in ``column``. None: not known. The end of time: no row has any."""
    found = _timestamp_column(footer, column)
    if found is None:
        return None
    index, factor, divisor = found
    earliest = WATERMARK_MAX_US
    for number in range(footer.num_row_groups):
        stored = footer.row_group(number).column(index)
        if not stored.num_values:
            continue
        statistics = stored.statistics
        if statistics is None:
            return None
        if statistics.has_min_max:
            earliest = min(earliest, max(WATERMARK_MIN_US, int(statistics.min_raw) * factor // divisor))
        elif not (statistics.has_null_count and statistics.null_count == stored.num_values):
            return None
    return earliest


def _timestamp_column(footer: pq.FileMetaData, wanted: str) -> tuple[int, int, int] | None:
    """Its index, and how its numbers become microseconds. By the exact name, else ignoring case, as it is read.

    INT96, which Spark writes by default, has no statistics.
    """
    plain = [
        (index, found)
        for index in range(footer.num_columns)
        if (found := footer.schema.column(index)).path == found.name and found.max_repetition_level == 0
    ]
    same = [one for one in plain if one[1].name == wanted]
    same = same or [one for one in plain if one[1].name.lower() == wanted.lower()]
    if len(same) != 1:
        return None
    ((index, column),) = same
    if column.physical_type != "INT64" or column.logical_type.type != "TIMESTAMP":
        return None
    factor, divisor = _PER_US[json.loads(column.logical_type.to_json())["timeUnit"]]
    return index, factor, divisor
