"""From a call of the plan to its accumulator, or to the reason why there is none."""

from __future__ import annotations

from tidegate.model.errors import Bug
from tidegate.model.types import (
    BINARY,
    BOOLEAN,
    DAY_TIME_INTERVAL,
    FRACTIONAL,
    INTEGRAL,
    Array,
    DataType,
    Decimal,
    Map,
    Struct,
    simple_string,
)
from tidegate.operators.accumulators.choices import Arrival, Extreme, ExtremeBy
from tidegate.operators.accumulators.collections import Collected, Distinct
from tidegate.operators.accumulators.moments import POPULATION, SAMPLE, Moments
from tidegate.operators.accumulators.protocol import Accumulator
from tidegate.operators.accumulators.sums import Average, Bits, Count, Sum
from tidegate.plan.relational import AggregateCall

_ARITY = {"count_if": 1, "min_by": 2, "max_by": 2}
_ARRIVAL = ("first", "first_value", "last", "last_value", "any_value")
_BITS = ("bit_and", "bit_or", "bit_xor")
_LOGIC = ("bool_and", "every", "bool_or", "some", "any")
_COLLECT = ("collect_list", "array_agg", "collect_set")
_DISTINCT_IS_PLAIN = ("min", "max", "collect_set", *_BITS[:2], *_LOGIC, *_ARRIVAL, "min_by", "max_by")
FUNCTIONS = (
    *("count", "count_if", "sum", "avg", "mean", "min", "max", "min_by", "max_by"),
    *(*_ARRIVAL, *_BITS, *_LOGIC, *_COLLECT, *SAMPLE, *POPULATION),
)


def supported(call: AggregateCall) -> str | None:
    """None, or why this call cannot run: a clause that completes "… is not supported: …"."""
    function, types = call.function, call.input_types
    if function not in FUNCTIONS:
        return f"no aggregate function {function!r} (there are {', '.join(sorted(FUNCTIONS))})"
    if function != "count" and len(types) != _ARITY.get(function, 1):
        return f"{function} of {len(types)} columns"
    if call.distinct and function not in _DISTINCT_IS_PLAIN:
        if function not in ("count", "sum", "avg", "mean"):
            return f"{function} of distinct values"
        if len(types) != 1:
            return "count of distinct combinations of several columns"
    if (call.distinct or function == "collect_set") and types and isinstance(types[0], (Array, Map, Struct)):
        return f"a set of {simple_string(types[0])}"
    return _refused_type(function, types)


def _refused_type(function: str, types: tuple[DataType, ...]) -> str | None:
    match function:
        case "sum":
            fine = _is_number(types[0]) or types[0] == DAY_TIME_INTERVAL
        case "avg" | "mean":
            fine = _is_number(types[0])
        case _ if function in (*SAMPLE, *POPULATION):
            fine = _is_number(types[0])
        case "min" | "max":
            fine = _is_ordered(types[0])
        case "min_by" | "max_by":
            fine = _is_ordered(types[1])
        case _ if function in _BITS:
            fine = types[0] in INTEGRAL
        case "count_if":
            fine = types[0] == BOOLEAN
        case _ if function in _LOGIC:
            fine = types[0] == BOOLEAN
        case _:
            fine = True
    return None if fine else f"{function} over {', '.join(simple_string(of) for of in types)}"


def _is_number(of: DataType) -> bool:
    return of in INTEGRAL or of in FRACTIONAL or isinstance(of, Decimal)


def _is_ordered(of: DataType) -> bool:
    return not isinstance(of, (Array, Map, Struct)) and of != BINARY


def accumulator_of(call: AggregateCall) -> Accumulator:
    """The call must be ``supported``: the planner has asked before."""
    if (reason := supported(call)) is not None:
        raise Bug(f"aggregate {call.sql or call.function} reached the engine: {reason}", hint="refuse it at start()")
    function = call.function
    if call.distinct and function in ("count", "sum", "avg", "mean"):
        return Distinct(call)
    if function in ("count", "count_if"):
        return Count(call)
    if function == "sum":
        return Sum(call)
    if function in ("avg", "mean"):
        return Average(call)
    if function in ("min", "max"):
        return Extreme(call)
    if function in ("min_by", "max_by"):
        return ExtremeBy(call)
    if function in _ARRIVAL:
        return Arrival(call)
    if function in (*_BITS, *_LOGIC):
        return Bits(call)
    if function in _COLLECT:
        return Collected(call, distinct=function == "collect_set")
    return Moments(call)
