"""Which rows of a batch a function raises for, when it is called with whole batches: halves are tried again, and their halves.

The function is called again with rows it has seen already. One that raises for a batch and for no part of it has no row to
blame.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Accepted(Generic[T]):
    """The function took these rows of the batch together."""

    rows: range
    result: T


@dataclass(frozen=True, slots=True)
class Refused:
    """The function raised for this one row."""

    index: int
    error: Exception


def sifted(rows: range, call: Callable[[range], T]) -> Iterator[Accepted[T] | Refused]:
    """All of ``rows``, in order, in parts as large as the function takes. One call when it raises for none; about
    ``2 k log2(n)`` calls for ``k`` bad rows among ``n``."""
    pending = [rows]
    while pending:
        part = pending.pop()
        try:
            result = call(part)
        except Exception as error:  # noqa: BLE001 - whatever user code raises
            if len(part) == 1:
                yield Refused(part.start, error)
            else:
                pending.extend(reversed(_halves(part)))
        else:
            yield Accepted(part, result)


def first_refused(rows: range, call: Callable[[range], object], error: Exception) -> Refused | None:
    """The first row that ``call`` raises for, given that it raised ``error`` for all of them together; None: for no row
    alone. At most ``2 log2(n)`` calls."""
    while len(rows) > 1:
        for part in _halves(rows):
            raised = _raised(part, call)
            if raised is not None:
                rows, error = part, raised
                break
        else:
            return None
    return Refused(rows.start, error)


def _halves(rows: range) -> tuple[range, range]:
    half = len(rows) // 2
    return rows[:half], rows[half:]


def _raised(rows: range, call: Callable[[range], object]) -> Exception | None:
    try:
        call(rows)
    except Exception as error:  # noqa: BLE001 - whatever user code raises
        return error
    return None
