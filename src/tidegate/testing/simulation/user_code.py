"""The user functions of simulated plans: over batches, row by row, with state; some refuse rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.operators.user_functions import LoadedFunction
from tidegate.testing.processors import load_tally

ARROW_FUNCTION = b"plus seven"
PANDAS_FUNCTION = b"drop every fifth"
TALLY = b"tally "
"""Stateful code; behind it the delay of its timers, in milliseconds."""
PICKY_BATCHES = b"batches without some"
PYTHON_CALL = b"call row by row"
PICKY_PYTHON_CALL = b"call row by row, some"
PANDAS_CALL = b"call with a series"
PICKY_PANDAS_CALL = b"call with a series, some"
ARROW_CALL = b"call with an array"
PICKY_ARROW_CALL = b"call with an array, some"
CALLS = frozenset(
    (PYTHON_CALL, PICKY_PYTHON_CALL, PANDAS_CALL, PICKY_PANDAS_CALL, ARROW_CALL, PICKY_ARROW_CALL),
)
"""Scalar functions of ``id`` and ``value``."""

REFUSED_OF, REFUSED_REST = 13, 3
"""A picky function raises for ids with this rest: the row is bad, today and tomorrow."""
ADDED = 3
"""What a scalar function adds to the value."""


def load(command: bytes) -> Callable[..., Any] | LoadedFunction:
    """A ``Load``."""
    if command.startswith(TALLY):
        return load_tally(command.removeprefix(TALLY))
    return _FUNCTIONS[command]


def is_bad(number: int) -> bool:
    return number % REFUSED_OF == REFUSED_REST


def _plus_seven(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield batch.set_column(2, "value", pc.call_function("add", [batch["value"], 7]))


def _drop_every_fifth(frames: Iterator[Any]) -> Iterator[Any]:
    for frame in frames:
        yield frame[frame["id"] % 5 != 0]


def _picky_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        _refuse(batch["id"].to_pylist())
        yield batch


def _add_to_row(number: int, value: int) -> int:
    del number
    return value + ADDED


def _add_to_good_row(number: int, value: int) -> int:
    _refuse([number])
    return value + ADDED


def _add_to_series(numbers: Any, values: Any) -> Any:
    del numbers
    return values + ADDED


def _add_to_good_series(numbers: Any, values: Any) -> Any:
    _refuse(list(numbers))
    return values + ADDED


def _add_to_array(numbers: pa.Array, values: pa.Array) -> pa.Array:
    del numbers
    return pc.call_function("add", [values, ADDED])


def _add_to_good_array(numbers: pa.Array, values: pa.Array) -> pa.Array:
    _refuse(numbers.to_pylist())
    return pc.call_function("add", [values, ADDED])


def _refuse(numbers: list[int]) -> None:
    bad = [number for number in numbers if is_bad(number)]
    if bad:
        raise ValueError(f"row {bad[0]} cannot be read")


_FUNCTIONS: dict[bytes, Callable[..., Any]] = {
    ARROW_FUNCTION: _plus_seven,
    PANDAS_FUNCTION: _drop_every_fifth,
    PICKY_BATCHES: _picky_batches,
    PYTHON_CALL: _add_to_row,
    PICKY_PYTHON_CALL: _add_to_good_row,
    PANDAS_CALL: _add_to_series,
    PICKY_PANDAS_CALL: _add_to_good_series,
    ARROW_CALL: _add_to_array,
    PICKY_ARROW_CALL: _add_to_good_array,
}
