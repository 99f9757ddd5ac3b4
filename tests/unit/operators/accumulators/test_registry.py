"""What can be aggregated, and the reason when something cannot."""

from __future__ import annotations

import pytest

from tidegate.model import types as t
from tidegate.model.errors import Bug
from tidegate.model.types import Array, DataType, Field, Struct
from tidegate.operators.accumulators import accumulator_of, supported
from tidegate.plan.relational import AggregateCall


def call(function: str, *types: DataType, **options) -> AggregateCall:
    return AggregateCall("r", function, tuple(f"c{i}" for i in range(len(types))), t.LONG, types, **options)


@pytest.mark.parametrize(
    ("refused", "reason"),
    [
        (call("percentile", t.LONG), "no aggregate function 'percentile'"),
        (call("sum", t.STRING), "sum over string"),
        (call("min", Array(t.LONG)), "min over array<bigint>"),
        (call("max_by", t.LONG, Struct((Field("x", t.LONG),))), "max_by over"),
        (call("stddev", t.LONG, distinct=True), "stddev of distinct values"),
        (call("count", t.LONG, t.LONG, distinct=True), "several columns"),
        (call("collect_set", Array(t.LONG)), "a set of array<bigint>"),
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
