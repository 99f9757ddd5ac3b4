"""Extremes of values that Polars sorts but does not compare."""

from __future__ import annotations

import polars as pl
import pytest

from tidegate.model import types as t
from tidegate.model.types import Array, DataType, Field, Struct
from tidegate.operators.accumulators import accumulator_of
from tidegate.operators.accumulators.protocol import Merging
from tidegate.operators.columns import polars_type
from tidegate.plan.relational import AggregateCall

POINT = Struct((Field("x", t.INTEGER), Field("y", t.STRING)))
LISTS = [None, [], [1], [1, None], [1, 2], [2]]
POINTS = [None, {"x": None, "y": "z"}, {"x": 1, "y": None}, {"x": 1, "y": "a"}, {"x": 2, "y": ""}]
"""Both in Spark's order: null before everything, a part before the whole."""


@pytest.mark.parametrize(("of", "ordered"), [(Array(t.INTEGER), LISTS), (POINT, POINTS)], ids=["arrays", "structs"])
@pytest.mark.parametrize("function", ["min", "max"])
def test_two_nested_extremes_merge_to_the_better_one_and_null_never_wins(
    of: DataType, ordered: list, function: str
) -> None:
    accumulator = accumulator_of(AggregateCall("m", function, ("c",), of, (of,)))
    pairs = [(one, other) for one in range(len(ordered)) for other in range(len(ordered))]
    before, added = (
        pl.DataFrame([pl.Series(f"m.{function}", [ordered[pair[side]] for pair in pairs], dtype=polars_type(of))])
        for side in (0, 1)
    )
    merged = accumulator.finish(Merging((accumulator,)).merged(before, added)).to_list()
    for (one, other), found in zip(pairs, merged, strict=True):
        present = [at for at in (one, other) if at]
        best = None if not present else ordered[min(present) if function == "min" else max(present)]
        assert found == best
