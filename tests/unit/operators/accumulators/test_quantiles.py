"""percentile_approx: exact while it can be, within its error afterwards, and bounded in size."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import polars as pl
import pytest

from tidegate.model import types as t
from tidegate.model.types import Array
from tidegate.operators.accumulators.protocol import Merging, Settling, partial_expressions
from tidegate.operators.accumulators.quantiles import Quantiles
from tidegate.plan.relational import AggregateCall

PERCENTAGES = (0.0, 0.01, 0.1, 0.5, 0.9, 0.999, 1.0)


def quantiles(accuracy: int) -> Quantiles:
    params = (PERCENTAGES, accuracy)
    return Quantiles(AggregateCall("p", "percentile_approx", ("x",), Array(t.DOUBLE), (t.DOUBLE,), params=params))


def summary_of(of: Quantiles, batches: Iterable[np.ndarray]) -> pl.DataFrame:
    merging, state = Merging((of,)), None
    for batch in batches:
        rows = pl.DataFrame({"k": np.zeros(len(batch)), "x": batch})
        added = Settling((of,)).apply(rows.group_by("k").agg(partial_expressions((of,), rows))).drop("k")
        state = added if state is None else merging.merged(state, added)
    assert state is not None
    return state


def streams(rows: int, batches: int) -> dict[str, list[np.ndarray]]:
    chance = np.random.default_rng(7)
    rising = np.arange(rows * batches, dtype=np.float64)
    return {
        "normal": [chance.normal(0, 1, rows) for _ in range(batches)],
        "drifting": [chance.normal(number / 10, 1, rows) for number in range(batches)],
        "rising": list(rising.reshape(batches, rows)),
        "falling": list(rising[::-1].reshape(batches, rows)),
        "with repeats": [np.where(chance.random(rows) < 0.5, 3.0, chance.random(rows) * 10) for _ in range(batches)],
    }


@pytest.mark.parametrize("stream", list(streams(1, 1)))
def test_ranks_are_within_the_error_and_the_summary_stays_small(stream: str) -> None:
    accuracy, rows, batches = 40, 500, 60
    of = quantiles(accuracy)
    values = streams(rows, batches)[stream]
    state = summary_of(of, values)
    ordered = np.sort(np.concatenate(values))
    error = len(ordered) / accuracy
    for percentage, found in zip(PERCENTAGES, of.finish(state)[0], strict=True):
        below, up_to = np.searchsorted(ordered, found, "left"), np.searchsorted(ordered, found, "right")
        assert below < up_to, "the answer is one of the values"
        assert below <= percentage * len(ordered) + error
        assert up_to >= percentage * len(ordered) - error
    levels = np.log2(len(ordered) / accuracy)
    assert state["p.tally"].list.len()[0] < 16 * accuracy * levels
    assert state["p.tally"].list.len()[0] < len(ordered) / 3


def test_few_values_are_exact() -> None:
    of = quantiles(40)
    values = np.random.default_rng(1).permutation(600).astype(np.float64)
    found = of.finish(summary_of(of, np.split(values, 6)))[0].to_list()
    assert found == [0.0, 0.0, 59.0, 299.0, 539.0, 599.0, 599.0], "1 % is within the error of the smallest"


def test_the_ends_of_the_scale_are_exact_however_much_is_given_up() -> None:
    of = quantiles(10)
    values = np.random.default_rng(2).normal(0, 1, 20_000)
    found = of.finish(summary_of(of, np.split(values, 40)))[0]
    assert found[0] == values.min()
    assert found[-1] == values.max()


def test_summaries_of_any_shape_merge() -> None:
    """Sessions grow together: both sides have been shortened before."""
    of = quantiles(20)
    one, other = (summary_of(of, np.split(np.random.default_rng(seed).normal(seed, 1, 9_000), 9)) for seed in (1, 2))
    merged = Merging((of,)).merged(one, other)
    assert merged["p.tally"].list.eval(pl.element().struct.field("n").sum()).list.first()[0] == 18_000
