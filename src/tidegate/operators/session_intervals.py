"""Sessions as plain columns: which intervals of a key belong together, and how those of a key share one row of state.

A frame of sessions has ``ROW`` (the number of the key's row in the table), ``START`` and ``END`` in microseconds, then whatever belongs
to the session. Intervals of a key are one session when they overlap or touch, as in Spark.
"""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

ROW, START, END, SESSION, FIRST_END = ".row", ".start", ".end", ".session", ".first_end"
"""No column of a plan is called so."""


def numbered(intervals: pl.DataFrame) -> pl.DataFrame:
    """Sorted by key and start, with ``SESSION``: equal for intervals that are one session, different for all others."""
    ordered = intervals.sort(ROW, START, maintain_order=True)
    rows, starts, ends = (ordered.get_column(name).to_numpy() for name in (ROW, START, END))
    opens = np.ones(len(rows), np.bool_)
    opens[1:] = rows[1:] != rows[:-1]
    opens[1:] |= starts[1:] > _reached(np.cumsum(opens, dtype=np.int64), ends)[:-1]
    return ordered.with_columns(pl.Series(SESSION, np.cumsum(opens)))


def _reached(keys: NDArray[np.int64], ends: NDArray[np.int64]) -> NDArray[np.int64]:
    """The latest end so far among those of the same key; ``keys`` rise one by one."""
    if not len(ends):
        return ends
    low, span = int(ends.min()), int(ends.max()) - int(ends.min()) + 1
    if int(keys[-1]) * span < 1 << 62:
        # Shifted apart, so that one running maximum serves all keys.
        shift = keys * span
        return np.maximum.accumulate(ends - low + shift) - shift + low
    return pl.DataFrame({"key": keys, "end": ends}).select(pl.col("end").cum_max().over("key")).to_series().to_numpy()


def bounds(sessions: pl.DataFrame) -> pl.DataFrame:
    """``ROW START END`` of each session of a ``numbered`` frame, in its order."""
    return (
        sessions.group_by(SESSION, maintain_order=True)
        .agg(pl.col(ROW).first(), pl.col(START).first(), pl.col(END).max())
        .drop(SESSION)
    )


def all_apart(sessions: pl.DataFrame) -> bool:
    """Whether every interval of a ``numbered`` frame is a session of its own."""
    return not sessions.height or sessions.get_column(SESSION)[-1] == sessions.height


def state_types(accumulators: list[pl.DataType]) -> list[pl.DataType]:
    """Value columns of a key: the earliest end of its sessions, then lists: starts, ends, and one per accumulator column."""
    return [pl.Int64(), pl.List(pl.Int64()), pl.List(pl.Int64()), *(pl.List(one) for one in accumulators)]


def packed(sessions: pl.DataFrame) -> pl.DataFrame:
    """One row per key, in the order of the sessions: ``ROW``, then the columns of ``state_types``."""
    others = [name for name in sessions.columns if name not in (ROW, START, END)]
    return sessions.group_by(ROW, maintain_order=True).agg(
        pl.col(END).min().alias(FIRST_END), pl.col(START), pl.col(END), *(pl.col(name) for name in others)
    )


def unpacked(rows: pl.Series, values: pl.DataFrame, accumulators: list[str]) -> pl.DataFrame:
    """The inverse, for the values of the table's ``rows``; a key that has none yet gives none."""
    named = values.clone()
    named.columns = [FIRST_END, START, END, *accumulators]
    present = named.drop(FIRST_END).insert_column(0, rows.alias(ROW)).filter(pl.col(START).is_not_null())
    return present.explode(START, END, *accumulators)
