"""Arrays, maps and structs. A map is a list of (key, value) structs."""

from __future__ import annotations

import polars as pl

from tidegate.model import types as t
from tidegate.model.types import Array, Map, Struct
from tidegate.operators.columns import polars_type
from tidegate.operators.expressions import maps
from tidegate.operators.expressions.compiled import Built, Check, Checked
from tidegate.operators.expressions.registry import argument, arity, constants, function, optional, plain, takes
from tidegate.plan.expressions import Call, Literal

_ARRAY_FIRST = takes(Array, arguments=(0,))
_ORDERED_ELEMENTS = (Array, Map, Struct)


@function("array", "createarray", null_skips=False)
def array(call: Call, *elements: pl.Expr) -> Built:
    dtype, of = polars_type(call.type), call.type
    if not elements:
        return pl.lit([], dtype=dtype)
    if not (isinstance(of, Array) and isinstance(of.element, Array | Map)):
        return pl.concat_list(elements).cast(dtype)

    # Polars would join lists into one: each is wrapped in a struct first.
    wrapped = pl.concat_list([pl.struct(one.alias("x")) for one in elements])
    return wrapped.list.eval(pl.element().struct.field("x")).cast(dtype)


@plain("size", "cardinality", "array_size", "arraysize", supports=takes(Array, Map))
def size(value: pl.Expr) -> Built:
    return value.list.len().cast(pl.Int32)


@plain("getarrayitem", supports=_ARRAY_FIRST)
def get_array_item(value: pl.Expr, index: pl.Expr) -> Built:
    """``array[index]``, from 0."""
    outside = (index < 0) | (index >= value.list.len().cast(pl.Int64))
    item = value.list.get(pl.when(outside).then(None).otherwise(index), null_on_oob=True)
    return Checked(item, (Check(outside, "INVALID_ARRAY_INDEX"),))


def _element_at_supported(call: Call) -> str | None:
    of = call.args[0].type
    return None if isinstance(of, Array | Map) else "element_at takes an array or a map"


@function("element_at", "elementat", "try_element_at", supports=arity(2, 4, also=_element_at_supported))
def element_at(call: Call, value: pl.Expr, index: pl.Expr, *_: pl.Expr) -> Built:
    """Arrays from 1, negative from the end; the value of a key in a map, null if it is not there."""
    if isinstance(call.args[0].type, Map):
        return _value_of(call, value, index)
    zero = Check((index == 0) & value.is_not_null(), "INVALID_INDEX_OF_ZERO", always=True)
    outside = Check(index.abs() > value.list.len().cast(pl.Int64), "INVALID_ARRAY_INDEX_IN_ELEMENT_AT")
    item = value.list.get(pl.when(index > 0).then(index - 1).otherwise(index), null_on_oob=True)
    return Checked(item, (zero, outside))


@function("getmapvalue", supports=takes(Map, arguments=(0,)))
def get_map_value(call: Call, value: pl.Expr, key: pl.Expr) -> Built:
    return _value_of(call, value, key)


def _value_of(call: Call, value: pl.Expr, key: pl.Expr) -> pl.Expr:
    if not isinstance(call.args[1], Literal):
        return maps.value_of(value, key, polars_type(call.type))
    entry = pl.element()
    matching = entry.filter(entry.struct.field("key") == key).struct.field("value")
    return value.list.eval(matching).list.first()


@plain("map_keys", "mapkeys", supports=takes(Map))
def map_keys(value: pl.Expr) -> Built:
    return value.list.eval(pl.element().struct.field("key"))


@plain("map_values", "mapvalues", supports=takes(Map))
def map_values(value: pl.Expr) -> Built:
    return value.list.eval(pl.element().struct.field("value"))


@function("getarraystructfields", supports=constants(1, also=_ARRAY_FIRST))
def get_array_struct_fields(call: Call, value: pl.Expr, _name: pl.Expr) -> Built:
    """``array.field``: the field of every element; the second argument is its name."""
    return value.list.eval(pl.element().struct.field(str(argument(call, 1))))


@plain("array_contains", "arraycontains", supports=arity(2, also=_ARRAY_FIRST))
def array_contains(value: pl.Expr, wanted: pl.Expr) -> Built:
    """Null when it is not found but might be one of the nulls."""
    found = value.list.contains(wanted, nulls_equal=False)
    unknown = value.list.eval(pl.element().is_null()).list.any()
    return pl.when(wanted.is_null()).then(None).when(found).then(True).when(unknown).then(None).otherwise(found)


def _join_supported(call: Call) -> str | None:
    of = call.args[0].type
    return None if isinstance(of, Array) and of.element == t.STRING else "array_join takes an array of strings"


@function("array_join", "arrayjoin", supports=arity(2, 3, also=constants(1, 2, also=_join_supported)))
def array_join(call: Call, value: pl.Expr, *_: pl.Expr) -> Built:
    """Skips nulls unless a replacement for them is given."""
    if len(call.args) == 3:
        value = value.list.eval(pl.element().fill_null(str(argument(call, 2))))
    joined = value.list.join(str(argument(call, 1)), ignore_nulls=True)
    return pl.when(value.is_not_null()).then(joined).otherwise(None)


def _sortable(call: Call) -> str | None:
    of = call.args[0].type
    if not isinstance(of, Array) or isinstance(of.element, _ORDERED_ELEMENTS):
        return f"{call.function} takes an array of plain values"
    if len(call.args) > 1 and not isinstance(call.args[1], Literal):
        return f"{call.function} needs a constant direction"
    return None


@function("sort_array", "sortarray", supports=arity(1, 2, also=_sortable))
def sort_array(call: Call, value: pl.Expr, *_: pl.Expr) -> Built:
    """Nulls first when ascending, last when descending."""
    ascending = optional(call, 1, True)
    return value.list.sort(descending=not ascending, nulls_last=not ascending)


@plain("array_sort", "arraysort", supports=arity(1, also=_sortable))
def array_sort(value: pl.Expr) -> Built:
    """Ascending, nulls last: the order that Spark uses when no comparison is given."""
    return value.list.sort(nulls_last=True)


@plain("array_distinct", "arraydistinct", supports=arity(1, also=_ARRAY_FIRST))
def array_distinct(value: pl.Expr) -> Built:
    return value.list.unique(maintain_order=True)


@plain("array_max", "arraymax", supports=arity(1, also=_sortable))
def array_max(value: pl.Expr) -> Built:
    return value.list.sort(descending=True, nulls_last=True).list.first()


@plain("array_min", "arraymin", supports=arity(1, also=_sortable))
def array_min(value: pl.Expr) -> Built:
    return value.list.sort(nulls_last=True).list.first()
