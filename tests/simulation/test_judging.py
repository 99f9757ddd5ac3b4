"""The judge of results, where somebody has accepted that rows come twice."""

from __future__ import annotations

import polars as pl
import pytest

from tidegate.testing.simulation.judging import differs

DUE = pl.DataFrame({"end": [10, 20], "n": [3, 4], "sum": [5, 6]})


@pytest.mark.parametrize(
    ("found", "wrong"),
    [
        (DUE, False),
        (pl.concat([DUE, DUE.head(1)]), False),
        (DUE.head(1), True),
        (DUE.with_columns(n=pl.lit(3)), True),
    ],
)
def test_where_rows_may_come_twice_none_is_missing_and_none_is_another(found: pl.DataFrame, wrong: bool) -> None:
    """Results have a column called n, as the judge's own counts had."""
    assert differs(DUE, found) is wrong
