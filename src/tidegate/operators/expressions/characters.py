"""Strings as matrices of code points, for functions that look at characters one by one: a step per place, not per row."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

Codes: TypeAlias = npt.NDArray[np.int64]

END = -1
"""Stands behind the last character."""


def matrix(column: pl.Series) -> Codes:
    """A row per string, a column per place; nulls are empty."""
    texts = column.fill_null("")
    lengths = texts.str.len_chars().to_numpy().astype(np.int64)
    codes = np.frombuffer("".join(texts).encode("utf-32-le"), np.uint32).astype(np.int64)
    result = np.full((len(lengths), int(lengths.max(initial=0))), END, np.int64)
    result[np.arange(result.shape[1]) < lengths[:, None]] = codes
    return result


def where(codes: Codes, test: Callable[[str], bool]) -> npt.NDArray[np.bool_]:
    """Which places hold a character of a kind; each character that occurs is asked about once."""
    points, index = np.unique(codes, return_inverse=True)
    answers = np.array([point != END and test(chr(point)) for point in points.tolist()], bool)
    return answers[index].reshape(codes.shape)


def texts(codes: Codes) -> pl.Series:
    """The strings again; places that hold ``END`` are left out."""
    kept = codes != END
    points = codes[kept]
    joined = points.astype(np.uint32).tobytes().decode("utf-32-le", errors="replace").encode()
    widths = 1 + (points >= 0x80).astype(np.int64) + (points >= 0x800) + (points >= 0x10000)
    ends = np.concatenate(([0], np.cumsum(widths)))[np.concatenate(([0], np.cumsum(kept.sum(axis=1))))]
    array = pa.LargeStringArray.from_buffers(len(codes), pa.py_buffer(ends.astype(np.int64)), pa.py_buffer(joined))
    result = pl.from_arrow(array)
    assert isinstance(result, pl.Series)
    return result
