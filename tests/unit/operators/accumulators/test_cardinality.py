"""approx_count_distinct: order and cut do not matter, the sketch is bounded, the estimate is close."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from tidegate.model import types as t
from tidegate.operators.accumulators.cardinality import Cardinality, precision
from tidegate.operators.accumulators.protocol import Merging, Settling, partial_expressions
from tidegate.plan.relational import AggregateCall

BEYOND_THE_TABLES = 0.002
"""The estimate of so fine a sketch needs no table of biases."""


def cardinality(relative_sd: float) -> Cardinality:
    return Cardinality(AggregateCall("c", "approx_count_distinct", ("x",), t.LONG, (t.LONG,), params=(relative_sd,)))


def partial(of: Cardinality, values: np.ndarray) -> pl.DataFrame:
    rows = pl.DataFrame({"k": np.zeros(len(values)), "x": values})
    return Settling((of,)).apply(rows.group_by("k").agg(partial_expressions((of,), rows))).drop("k")


@pytest.mark.parametrize(("relative_sd", "bits"), [(0.05, 9), (0.39, 4), (0.01, 14), (0.3, 4), (0.02, 12)])
def test_precision_follows_from_the_error_asked_for(relative_sd: float, bits: int) -> None:
    assert precision(relative_sd) == bits


def test_the_sketch_is_the_same_however_the_values_come() -> None:
    of = cardinality(BEYOND_THE_TABLES)
    values = np.random.default_rng(5).integers(0, 3_000, 20_000)
    merging, state = Merging((of,)), partial(of, values[:1])
    for piece in np.split(values, 10):
        state = merging.merged(state, partial(of, piece))
    whole = merging.merged(partial(of, values[::-1]), partial(of, values[:7]))
    assert state["c.registers"][0].sort().to_list() == whole["c.registers"][0].sort().to_list()
    (estimate,) = of.finish(state).to_list()
    assert abs(estimate - len(set(values))) <= 3_000 * 3 * BEYOND_THE_TABLES


def test_no_sketch_has_more_entries_than_registers() -> None:
    of = cardinality(0.3)
    merging, state = Merging((of,)), partial(of, np.arange(10))
    for start in range(0, 50_000, 5_000):
        state = merging.merged(state, partial(of, np.arange(start, start + 5_000)))
    assert state["c.registers"].list.len()[0] == 1 << precision(0.3)


def test_nothing_seen_counts_as_none() -> None:
    of = cardinality(BEYOND_THE_TABLES)
    rows = pl.DataFrame({"k": [0.0], "x": pl.Series([None], dtype=pl.Int64)})
    empty = Settling((of,)).apply(rows.group_by("k").agg(partial_expressions((of,), rows))).drop("k")
    assert of.finish(empty).to_list() == [0]
