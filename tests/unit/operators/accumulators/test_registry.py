"""What can be aggregated, and the reason when something cannot."""

from __future__ import annotations

import pytest

from tidegate.model import types as t
from tidegate.model.errors import Bug
from tidegate.model.types import Array, DataType, Field, Map, Struct
from tidegate.operators.accumulators import accumulator_of, supported
from tidegate.plan.relational import AggregateCall

MAP = Map(t.STRING, t.LONG)


def call(function: str, *types: DataType, **options) -> AggregateCall:
    return AggregateCall("r", function, tuple(f"c{i}" for i in range(len(types))), t.LONG, types, **options)


@pytest.mark.parametrize(
    ("refused", "reason"),
    [
        (call("hll_sketch_agg", t.LONG), "no aggregate function 'hll_sketch_agg'"),
        (call("sum", t.STRING), "sum over string"),
        (call("min", Array(MAP)), "min over array<map<string,bigint>>"),
        (call("max_by", t.LONG, Struct((Field("x", MAP),))), "max_by over"),
        (call("max_by", t.LONG), "max_by of 1 columns"),
        (call("count", MAP, distinct=True), "a set of map<string,bigint>"),
        (call("collect_set", Array(MAP)), "collect_set over array<map<string,bigint>>"),
        (call("percentile_approx", t.STRING), "percentile_approx over string"),
        (call("approx_count_distinct", Array(t.LONG)), "approx_count_distinct over array<bigint>"),
        (call("bit_and", t.DOUBLE), "bit_and over double"),
    ],
)
def test_what_is_not_supported_has_a_reason(refused: AggregateCall, reason: str) -> None:
    assert reason in (supported(refused) or "")
    with pytest.raises(Bug):
        accumulator_of(refused)


def test_accumulator_columns_are_named_after_their_call() -> None:
    for fine in (call("count"), call("avg", t.LONG), call("stddev", t.DOUBLE), call("first", t.STRING)):
        assert supported(fine) is None
        names = [field.name for field in accumulator_of(fine).columns]
        assert len(set(names)) == len(names)
        assert all(name.startswith("r.") for name in names)
