"""Functions of arrays: set operations, search, change, repetition."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
import polars as pl

from tidegate.model import types as t
from tidegate.model.types import Array, Map
from tidegate.operators.columns import polars_type
from tidegate.operators.expressions import lists
from tidegate.operators.expressions.compiled import Built, Check, Checked
from tidegate.operators.expressions.registry import arity, function, plain, takes
from tidegate.plan.expressions import Call

_LENGTH_MAX = 2_147_483_632
_ARRAY_FIRST = takes(Array, arguments=(0,))


def _no_maps(call: Call) -> str | None:
    """Maps cannot be compared."""
    of = call.args[0].type
    if isinstance(of, Array) and _holds_map(of.element):
        return f"{call.function} over arrays of maps is not supported"
    return None


def _holds_map(of: t.DataType) -> bool:
    match of:
        case Map():
            return True
        case Array(element):
            return _holds_map(element)
        case t.Struct(fields):
            return any(_holds_map(field.type) for field in fields)
        case _:
            return False


_TWO_ARRAYS = arity(2, also=takes(Array, also=_no_maps))


def _of_two(
    call: Call, left: pl.Expr, right: pl.Expr, run: Callable[[pl.DataFrame, pl.DataFrame], pl.DataFrame]
) -> pl.Expr:
    """``run`` takes and gives (row, value) pairs; null if one of the arrays is."""
    dtype = polars_type(call.type)

    def values(pairs: pl.Series) -> pl.Series:
        a, b = lists.flat(pairs.struct.field("c0")), lists.flat(pairs.struct.field("c1"))
        missing = a.missing | b.missing
        tables = [
            pl.DataFrame({"row": side.rows, "value": side.values}).filter(pl.Series(~missing[side.rows]))
            for side in (a, b)
        ]
        found = run(*tables).sort("row", maintain_order=True)
        lengths = lists.counted(found["row"].to_numpy(), len(pairs))
        return lists.gathered(found["value"], lengths, missing)

    both, _ = lists.structs([left, right])
    return both.map_batches(values, return_dtype=dtype, is_elementwise=True)


@function("array_union", "arrayunion", supports=_TWO_ARRAYS)
def array_union(call: Call, left: pl.Expr, right: pl.Expr) -> Built:
    return _of_two(call, left, right, lambda a, b: pl.concat([a, b]).unique(maintain_order=True))


def _chosen(a: pl.DataFrame, b: pl.DataFrame, how: Literal["semi", "anti"]) -> pl.DataFrame:
    """The pairs of ``a``, each once, that are (not) among those of ``b``."""
    return a.unique(maintain_order=True).join(b, on=["row", "value"], how=how, nulls_equal=True, maintain_order="left")


@function("array_intersect", "arrayintersect", supports=_TWO_ARRAYS)
def array_intersect(call: Call, left: pl.Expr, right: pl.Expr) -> Built:
    return _of_two(call, left, right, lambda a, b: _chosen(a, b, "semi"))


@function("array_except", "arrayexcept", supports=_TWO_ARRAYS)
def array_except(call: Call, left: pl.Expr, right: pl.Expr) -> Built:
    return _of_two(call, left, right, lambda a, b: _chosen(a, b, "anti"))


@plain("arrays_overlap", "arraysoverlap", supports=_TWO_ARRAYS)
def arrays_overlap(left: pl.Expr, right: pl.Expr) -> Built:
    """Null when nothing is shared but one of them holds a null and neither is empty."""

    def run(pairs: pl.Series) -> pl.Series:
        a, b = lists.flat(pairs.struct.field("c0")), lists.flat(pairs.struct.field("c1"))
        tables = [pl.DataFrame({"row": side.rows, "value": side.values}) for side in (a, b)]
        shared = tables[0].join(tables[1], on=["row", "value"], how="semi")["row"].to_numpy()
        found = np.zeros(len(pairs), bool)
        found[shared] = True
        unknown = np.zeros(len(pairs), bool)
        for side in (a, b):
            unknown[side.rows[side.values.is_null().to_numpy()]] = True
        unknown &= ~found & (a.lengths > 0) & (b.lengths > 0)
        return pl.Series(found).set(pl.Series(unknown | a.missing | b.missing), None)

    both, _ = lists.structs([left, right])
    return both.map_batches(run, return_dtype=pl.Boolean, is_elementwise=True)


@plain("array_position", "arrayposition", supports=arity(2, also=takes(Array, arguments=(0,), also=_no_maps)))
def array_position(value: pl.Expr, wanted: pl.Expr) -> Built:
    """From 1; 0 if it is not there."""

    def run(pairs: pl.Series) -> pl.Series:
        of = lists.flat(pairs.struct.field("c0"))
        hits = (of.values == pairs.struct.field("c1").gather(of.rows)).fill_null(value=False).to_numpy()
        result = np.zeros(len(pairs), np.int64)
        rows, places = of.rows[hits][::-1], of.positions[hits][::-1]
        result[rows] = places + 1  # The first hit is written last.
        return pl.Series(result)

    both, _ = lists.structs([value, wanted])
    found = both.map_batches(run, return_dtype=pl.Int64, is_elementwise=True)
    return pl.when(value.is_not_null() & wanted.is_not_null()).then(found)


@function("array_remove", "arrayremove", supports=arity(2, also=takes(Array, arguments=(0,), also=_no_maps)))
def array_remove(call: Call, value: pl.Expr, unwanted: pl.Expr) -> Built:
    """Nulls stay."""

    def run(pairs: pl.Series) -> pl.Series:
        of = lists.flat(pairs.struct.field("c0"))
        hits = (of.values == pairs.struct.field("c1").gather(of.rows)).fill_null(value=False).to_numpy()
        kept = of.values.filter(pl.Series(~hits))
        return lists.gathered(kept, lists.counted(of.rows[~hits], len(pairs)), of.missing)

    both, _ = lists.structs([value, unwanted])
    left = both.map_batches(run, return_dtype=polars_type(call.type), is_elementwise=True)
    return pl.when(unwanted.is_not_null()).then(left)


@function("array_compact", supports=arity(1, also=_ARRAY_FIRST))
def array_compact(_call: Call, value: pl.Expr) -> Built:
    return value.list.drop_nulls()


@function("array_insert", "arrayinsert", supports=arity(3, also=_ARRAY_FIRST), null_skips=False)
def array_insert(call: Call, value: pl.Expr, position: pl.Expr, item: pl.Expr) -> Built:
    """From 1, or from the end (-1 appends); places between the end and a position far outside are filled with nulls."""
    dtype = polars_type(call.type)

    def run(rows: pl.Series) -> pl.Series:
        of = lists.flat(rows.struct.field("c0"))
        wanted = rows.struct.field("c1").fill_null(1).to_numpy().astype(np.int64)
        missing = of.missing | rows.struct.field("c1").is_null().to_numpy()
        # Where the item goes, from 0, and how many nulls stand before the old elements.
        before = np.where(wanted < 0, np.maximum(-wanted - 1 - of.lengths, 0), 0)
        place = np.where(wanted > 0, wanted - 1, np.where(before > 0, 0, of.lengths + wanted + 1))
        lengths = np.maximum(np.where(before > 0, before + of.lengths + 1, of.lengths + 1), place + 1)
        lengths = np.where(missing, 0, np.minimum(lengths, _LENGTH_MAX))
        starts = np.cumsum(lengths) - lengths
        source = np.full(int(lengths.sum()), -1, np.int64)
        kept = ~missing[of.rows]
        shift = np.where(before[of.rows] > 0, before[of.rows] + 1, of.positions >= place[of.rows])
        source[(starts[of.rows] + of.positions + shift)[kept]] = np.flatnonzero(kept)
        source[(starts + place)[~missing]] = len(of.values) + np.flatnonzero(~missing)
        pool = pl.concat([of.values.rechunk(), rows.struct.field("c2").cast(of.values.dtype)])
        picked = lists.picked(pool, source)
        return lists.gathered(picked, lengths, missing)

    every, _ = lists.structs([value, position, item])
    zero = Check((position == 0) & value.is_not_null(), "INVALID_INDEX_OF_ZERO", always=True)
    safe = every.map_batches(run, return_dtype=dtype, is_elementwise=True)
    return Checked(safe, (zero,))


@function("array_repeat", "arrayrepeat", supports=arity(2), null_skips=False)
def array_repeat(call: Call, item: pl.Expr, times: pl.Expr) -> Built:
    def run(rows: pl.Series) -> pl.Series:
        count = rows.struct.field("c1")
        lengths = count.fill_null(0).to_numpy().astype(np.int64).clip(0)
        return lists.gathered(
            rows.struct.field("c0").gather(np.repeat(np.arange(len(rows)), lengths)),
            lengths,
            count.is_null().to_numpy(),
        )

    both, _ = lists.structs([item, times])
    return both.map_batches(run, return_dtype=polars_type(call.type), is_elementwise=True)


@plain("slice", supports=arity(3, also=_ARRAY_FIRST))
def array_slice(value: pl.Expr, start: pl.Expr, length: pl.Expr) -> Built:
    """From 1, or from the end; empty when the start lies outside."""
    size = value.list.len().cast(pl.Int64)
    first = pl.when(start > 0).then(start.cast(pl.Int64) - 1).otherwise(size + start)
    present = value.is_not_null() & start.is_not_null() & length.is_not_null()
    inside = (first >= 0) & (first < size)
    part = value.list.slice(
        pl.when(inside).then(first).otherwise(0),
        pl.when(inside & (length > 0)).then(length.cast(pl.Int64)).otherwise(0),
    )
    zero = Check(present & (start == 0), "INVALID_PARAMETER_VALUE", always=True)
    negative = Check(present & (length < 0), "INVALID_PARAMETER_VALUE", always=True)
    return Checked(pl.when(present).then(part), (zero, negative))


@function("flatten", supports=arity(1, also=takes(Array)))
def flatten(call: Call, value: pl.Expr) -> Built:
    """Null if one of the inner arrays is."""

    def run(column: pl.Series) -> pl.Series:
        outer = lists.flat(column)
        inner = lists.flat(outer.values)
        missing = outer.missing.copy()
        missing[outer.rows[inner.missing]] = True
        rows = outer.rows[inner.rows]
        kept = ~missing[rows]
        return lists.gathered(inner.values.filter(pl.Series(kept)), lists.counted(rows[kept], len(column)), missing)

    return value.map_batches(run, return_dtype=polars_type(call.type), is_elementwise=True)


@function("arrays_zip", "arrayszip", supports=arity(1, 1000, also=takes(Array)))
def arrays_zip(call: Call, *values: pl.Expr) -> Built:
    """As long as the longest; null if one of the arrays is."""
    kind = call.type
    assert isinstance(kind, Array)
    assert isinstance(kind.element, t.Struct)
    names = [field.name for field in kind.element.fields]

    def run(rows: pl.Series) -> pl.Series:
        sides = [lists.flat(rows.struct.field(f"c{number}")) for number in range(len(values))]
        missing = np.logical_or.reduce([side.missing for side in sides])
        lengths = np.where(missing, 0, np.maximum.reduce([side.lengths for side in sides]))
        columns = [lists.stretched(side, lengths) for side in sides]
        elements = pl.DataFrame(dict(zip(names, columns, strict=True))).to_struct()
        return lists.gathered(elements, lengths, missing)

    every, _ = lists.structs(values)
    return every.map_batches(run, return_dtype=polars_type(kind), is_elementwise=True)


@function("get", supports=arity(2, also=_ARRAY_FIRST))
def get(_call: Call, value: pl.Expr, index: pl.Expr) -> Built:
    """From 0; null outside."""
    outside = (index < 0) | (index >= value.list.len().cast(pl.Int64))
    return value.list.get(pl.when(outside).then(None).otherwise(index), null_on_oob=True)
