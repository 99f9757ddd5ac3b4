"""Structs taken apart and put together."""

from __future__ import annotations

import polars as pl
from polars.testing import assert_frame_equal

from tidegate.model.types import LONG, STRING, Field, Struct
from tidegate.state.leaves import leaves_of, put_together, take_apart

INNER = Struct((Field("x", LONG), Field("y", STRING)))
SCHEMA = (
    Field("a", LONG),
    Field("s", INNER, nullable=False),
    Field("o", Struct((Field("in", INNER, nullable=True), Field("z", LONG)))),
)
ROWS = pl.DataFrame(
    {
        "a": [1, None, 3],
        "s": [{"x": 1, "y": "p"}, {"x": None, "y": None}, {"x": 3, "y": "q"}],
        "o": [{"in": None, "z": 5}, None, {"in": {"x": None, "y": None}, "z": None}],
    }
)


def test_what_is_taken_apart_comes_together_again() -> None:
    apart = take_apart(ROWS, SCHEMA)
    assert apart.columns == [f"k{i}" for i in range(len(leaves_of(SCHEMA)))]
    assert not any(isinstance(dtype, pl.Struct) for dtype in apart.dtypes)
    assert_frame_equal(put_together(apart, SCHEMA), ROWS)


def test_only_a_nullable_struct_needs_a_leaf_for_its_presence() -> None:
    assert [leaf.path for leaf in leaves_of(SCHEMA) if leaf.presence] == [("o",), ("o", "in")]
