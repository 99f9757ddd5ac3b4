"""A row that a user function raised for: told to people, written for the dead-letter sink, and known again after a restart."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import msgspec
import polars as pl

from tidegate.model.elements import Rejected
from tidegate.model.errors import UserCodeFailed
from tidegate.operators.bisection import Refused
from tidegate.operators.user_functions import describe_row, failure, user_name, user_traceback

TRACEBACK_LINES_MAX = 20
_ENCODER = msgspec.json.Encoder(decimal_format="string")


def row_json(rows: pl.DataFrame, index: int) -> str:
    """The row under the user's column names; the same values always give the same text."""
    return _ENCODER.encode(dict(zip(_names(rows.columns), rows.row(index), strict=True))).decode()


def fingerprint(rows: pl.DataFrame, index: int) -> str:
    """Which row it is, in whatever batch it comes: batches are cut anew after a restart, and behind an exchange no position
    in a source is known."""
    return f"row {hashlib.sha256(row_json(rows, index).encode()).hexdigest()[:16]}"


def failure_at(rows: pl.DataFrame, refused: Refused, operator: str) -> UserCodeFailed:
    """What to raise for the row that was refused."""
    told = failure(refused.error, operator, describe_row(rows, refused.index))
    told.position = fingerprint(rows, refused.index)
    return told


def failure_of_all(rows: pl.DataFrame, error: Exception, operator: str) -> UserCodeFailed:
    """What to raise when the function fails for the batch and for no row of it alone."""
    return failure(error, operator, describe_row(rows, 0, f"no row alone; first row of the batch of {rows.height}"))


def rejected(rows: pl.DataFrame, refused: Sequence[Refused], function: str) -> Rejected:
    """One letter per refused row of ``rows``."""
    return Rejected(
        pl.DataFrame(
            {
                "row": [row_json(rows, one.index) for one in refused],
                "function": [function] * len(refused),
                "error": [type(one.error).__name__ for one in refused],
                "message": [_message(one.error) for one in refused],
                "traceback": [_first_lines(one.error) for one in refused],
            }
        )
    )


def _message(error: Exception) -> str:
    try:
        return _storable(str(error))
    except Exception:  # noqa: BLE001 - an exception of the user that cannot even be printed
        return f"<unprintable {type(error).__name__}>"


def _first_lines(error: Exception) -> str:
    lines = _storable(user_traceback(error)).splitlines()
    return "\n".join(lines if len(lines) <= TRACEBACK_LINES_MAX else [*lines[:TRACEBACK_LINES_MAX], "…"])


def _storable(text: str) -> str:
    """Names of files that are no UTF-8 stand in messages with lone surrogates, which no file takes."""
    return text.encode("utf-8", "replace").decode()


def _names(columns: list[str]) -> list[str]:
    """Two columns of one name keep the plan's names: nothing of the row is left out."""
    plain = [user_name(column) for column in columns]
    return [name if plain.count(name) == 1 else column for name, column in zip(plain, columns, strict=True)]
