"""From a call of the plan to its accumulator, or to the reason why there is none."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tidegate.model.errors import Bug
from tidegate.model.types import (
    BINARY,
    BOOLEAN,
    DATE,
    DAY_TIME_INTERVAL,
    FRACTIONAL,
    INTEGRAL,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    Array,
    DataType,
    Decimal,
    Map,
    Struct,
    simple_string,
)
from tidegate.operators.accumulators.cardinality import Cardinality
from tidegate.operators.accumulators.choices import Arrival, Extreme, ExtremeBy
from tidegate.operators.accumulators.collections import Collected
from tidegate.operators.accumulators.covariances import COVARIANCES, Covariance
from tidegate.operators.accumulators.distinct import Distinct
from tidegate.operators.accumulators.moments import MOMENTS, Moments
from tidegate.operators.accumulators.pivots import Pivot
from tidegate.operators.accumulators.products import Product
from tidegate.operators.accumulators.protocol import Accumulator
from tidegate.operators.accumulators.quantiles import Quantiles
from tidegate.operators.accumulators.rankings import Ranking
from tidegate.operators.accumulators.sums import Average, Bits, Count, Sum
from tidegate.operators.accumulators.tallies import Tally
from tidegate.operators.accumulators.texts import Joined
from tidegate.operators.expressions.xxhash import hashable
from tidegate.plan.relational import AggregateCall

Types = tuple[DataType, ...]


@dataclass(frozen=True, slots=True)
class _Function:
    build: Callable[[AggregateCall], Accumulator]
    accepts: Callable[[Types], bool] = lambda _: True
    arity: tuple[int, int] = (1, 1)
    once: bool = False
    """The result over distinct values is that over all values."""


def _number(types: Types) -> bool:
    return all(of in INTEGRAL or of in FRACTIONAL or isinstance(of, Decimal) for of in types)


def _summable(types: Types) -> bool:
    return _number(types) or types[0] == DAY_TIME_INTERVAL


def _ranked(types: Types) -> bool:
    return _summable(types) or types[0] in (DATE, TIMESTAMP, TIMESTAMP_NTZ)


def _ordered(of: DataType) -> bool:
    match of:
        case Map():
            return False
        case Array(element):
            return _ordered(element)
        case Struct(fields):
            return all(_ordered(field.type) for field in fields)
        case _:
            return True


def _settable(of: DataType) -> bool:
    match of:
        case Array(element):
            return _settable(element)
        case Struct(fields):
            return all(_settable(field.type) for field in fields)
        case _:
            return not isinstance(of, Map)


def _by(call: AggregateCall) -> Accumulator:
    return Ranking(call) if call.params else ExtremeBy(call)


def _many(names: Iterable[str], function: _Function) -> dict[str, _Function]:
    return dict.fromkeys(names, function)


_LOGIC = _Function(Bits, lambda types: types[0] == BOOLEAN, once=True)
_BITS = _Function(Bits, lambda types: types[0] in INTEGRAL)
_COUNTED = _Function(Count, arity=(0, 1 << 10))
FUNCTIONS: dict[str, _Function] = {
    "count": _COUNTED,
    "count_if": _Function(Count, lambda types: types[0] == BOOLEAN),
    **_many(("sum", "try_sum"), _Function(Sum, _summable)),
    **_many(("avg", "mean", "try_avg"), _Function(Average, _summable)),
    "product": _Function(Product, _number),
    **_many(("min", "max"), _Function(Extreme, lambda types: _ordered(types[0]), once=True)),
    **_many(("min_by", "max_by"), _Function(_by, lambda types: _ordered(types[1]), (2, 2), once=True)),
    **_many(("first", "first_value", "last", "last_value", "any_value"), _Function(Arrival, once=True)),
    **_many(("bit_and", "bit_or"), _Function(Bits, lambda types: types[0] in INTEGRAL, once=True)),
    "bit_xor": _BITS,
    **_many(("bool_and", "every", "bool_or", "some", "any"), _LOGIC),
    **_many(("collect_list", "array_agg"), _Function(lambda call: Collected(call, distinct=False))),
    "collect_set": _Function(lambda call: Collected(call, distinct=True), lambda types: _settable(types[0]), once=True),
    **_many(MOMENTS, _Function(Moments, _number)),
    **_many(COVARIANCES, _Function(Covariance, _number, (2, 2))),
    "approx_count_distinct": _Function(Cardinality, lambda types: hashable(types[0]), once=True),
    "percentile": _Function(Tally, _summable, (1, 2)),
    "percentile_disc": _Function(Tally, _number),
    "percentile_approx": _Function(Quantiles, _ranked),
    "mode": _Function(Tally, lambda types: _settable(types[0]) and _ordered(types[0])),
    "pivot_first": _Function(Pivot, arity=(2, 2)),
    **_many(("listagg", "string_agg"), _Function(Joined, lambda types: types[0] in (STRING, BINARY), (1, 1 << 10))),
}
"""By Spark's names. ``max_by`` and ``min_by`` of several values have their number as a parameter."""


def supported(call: AggregateCall) -> str | None:
    """None, or why this call cannot run: a clause that completes "… is not supported: …"."""
    name, types = call.function, call.input_types
    if (function := FUNCTIONS.get(name)) is None:
        return f"no aggregate function {name!r} (there are {', '.join(sorted(FUNCTIONS))})"
    if not function.arity[0] <= len(types) <= function.arity[1]:
        return f"{name} of {len(types)} columns"
    if call.distinct and not function.once and not all(map(_settable, types)):
        return f"a set of {', '.join(map(simple_string, types))}"
    return None if function.accepts(types) else f"{name} over {', '.join(simple_string(of) for of in types)}"


def accumulator_of(call: AggregateCall) -> Accumulator:
    """The call must be ``supported``: the planner has asked before."""
    if (reason := supported(call)) is not None:
        raise Bug(f"aggregate {call.sql or call.function} reached the engine: {reason}", hint="refuse it at start()")
    function = FUNCTIONS[call.function]
    if call.distinct and not function.once and call.args:
        return Distinct(call, function.build)
    return function.build(call)
