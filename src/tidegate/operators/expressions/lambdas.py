"""Higher-order functions: the lambda runs once over the elements of all rows, laid flat beside the columns it captures.

Errors inside a lambda become errors of the row whose array holds the element.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from tidegate.model.types import Array, Map
from tidegate.operators.columns import polars_type
from tidegate.operators.expressions import lists
from tidegate.operators.expressions.compiled import Compiled, Guard
from tidegate.operators.expressions.maps import checked as checked_map
from tidegate.operators.expressions.registry import arity, higher_order, takes
from tidegate.plan.expressions import Call, Lambda, columns_of

_ARRAY_FIRST = takes(Array, arguments=(0,))
_MAP_FIRST = takes(Map, arguments=(0,))
Rows = pl.DataFrame
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Body:
    """A compiled lambda: what it computes for elements, and where it fails."""

    parameters: tuple[str, ...]
    captured: tuple[str, ...]
    compiled: Compiled

    def over(self, elements: Sequence[pl.Series], rows: lists.Places, outer: Rows) -> tuple[pl.Series, Mask]:
        """Values per element, and which elements are in error."""
        columns = {name: outer[name].gather(rows) for name in self.captured}
        columns |= dict(zip(self.parameters, elements, strict=False))
        frame = pl.DataFrame(columns)
        errors = [guard.condition.fill_null(False).alias(f"e{n}") for n, guard in enumerate(self.compiled.guards)]
        result = frame.with_columns(self.compiled.value.alias("value"), *errors)
        failed = np.zeros(len(rows), bool)
        for n in range(len(errors)):
            failed |= result[f"e{n}"].to_numpy()
        return result["value"], failed


def body_of(of: Lambda, compiled: Compiled) -> Body:
    return Body(tuple(one.name for one in of.parameters), tuple(sorted(columns_of(of))), compiled)


Run = Callable[[Rows, int], tuple[pl.Series, Mask]]
"""Takes the arguments (``c0`` …) and captured columns of a batch; gives a value per row and the rows in error."""


def _compiled(call: Call, args: Sequence[Compiled], bodies: Sequence[Body], run: Run) -> Compiled:
    """``run`` as an expression. A row in error raises the first error that the lambda may have, by name."""
    names = [f"c{number}" for number in range(len(args))]
    captured = sorted({name for body in bodies for name in body.captured})
    inputs = [arg.value.alias(name) for arg, name in zip(args, names, strict=True)]
    every = pl.struct([*inputs, *(pl.col(name) for name in captured)])

    def value(rows: pl.Series) -> pl.Series:
        return run(rows.struct.unnest(), len(rows))[0]

    def failed(rows: pl.Series) -> pl.Series:
        return pl.Series(run(rows.struct.unnest(), len(rows))[1])

    result = every.map_batches(value, return_dtype=polars_type(call.type), is_elementwise=True)
    guards = tuple(guard for arg in args for guard in arg.guards)
    inner = [guard for body in bodies for guard in body.compiled.guards]
    if not inner:
        return Compiled(result, guards)
    hit = every.map_batches(failed, return_dtype=pl.Boolean, is_elementwise=True)
    return Compiled(result, (*guards, Guard(hit, inner[0].error, inner[0].sql)))


def _rows_of(places: lists.Places, failed: Mask, count: int) -> Mask:
    result = np.zeros(count, bool)
    result[places[failed]] = True
    return result


@higher_order("transform", "arraytransform", supports=arity(2, also=_ARRAY_FIRST))
def transform(call: Call, args: Sequence[Compiled], bodies: Sequence[Body]) -> Compiled:
    def run(rows: Rows, count: int) -> tuple[pl.Series, Mask]:
        of = lists.flat(rows["c0"])
        places = pl.Series(of.positions, dtype=pl.Int32)
        values, failed = bodies[0].over((of.values, places), of.rows, rows)
        return lists.gathered(values, of.lengths, of.missing), _rows_of(of.rows, failed, count)

    return _compiled(call, args, bodies, run)


@higher_order("filter", "arrayfilter", supports=arity(2, also=_ARRAY_FIRST))
def filter_array(call: Call, args: Sequence[Compiled], bodies: Sequence[Body]) -> Compiled:
    def run(rows: Rows, count: int) -> tuple[pl.Series, Mask]:
        of = lists.flat(rows["c0"])
        places = pl.Series(of.positions, dtype=pl.Int32)
        verdict, failed = bodies[0].over((of.values, places), of.rows, rows)
        return _kept(of, verdict, count), _rows_of(of.rows, failed, count)

    return _compiled(call, args, bodies, run)


def _kept(of: lists.Flat, verdict: pl.Series, count: int) -> pl.Series:
    keep = verdict.fill_null(value=False)
    lengths = lists.counted(of.rows[keep.to_numpy()], count)
    return lists.gathered(of.values.filter(keep), lengths, of.missing)


@higher_order("exists", "arrayexists", supports=arity(2, also=_ARRAY_FIRST))
def exists(call: Call, args: Sequence[Compiled], bodies: Sequence[Body]) -> Compiled:
    return _quantified(call, args, bodies, decides=True)


@higher_order("forall", "arrayforall", supports=arity(2, also=_ARRAY_FIRST))
def for_all(call: Call, args: Sequence[Compiled], bodies: Sequence[Body]) -> Compiled:
    return _quantified(call, args, bodies, decides=False)


def _quantified(call: Call, args: Sequence[Compiled], bodies: Sequence[Body], *, decides: bool) -> Compiled:
    """One element may decide; if none does and one is unknown, so is the answer. Spark stops at the element that decides."""

    def run(rows: Rows, count: int) -> tuple[pl.Series, Mask]:
        of = lists.flat(rows["c0"])
        verdict, failed = bodies[0].over((of.values,), of.rows, rows)
        deciding = (verdict == decides).fill_null(value=False).to_numpy()
        decided, unknown = np.zeros(count, bool), np.zeros(count, bool)
        decided[of.rows[deciding]] = True
        unknown[of.rows[verdict.is_null().to_numpy()]] = True
        first = np.full(count, np.iinfo(np.int64).max)
        np.minimum.at(first, of.rows[deciding], of.positions[deciding])
        reached = failed & (of.positions < first[of.rows])
        answer = pl.Series(decided if decides else ~decided).set(pl.Series((unknown & ~decided) | of.missing), None)
        return answer, _rows_of(of.rows, reached, count)

    return _compiled(call, args, bodies, run)


@higher_order("zip_with", "zipwith", supports=arity(3, also=takes(Array, arguments=(0, 1))))
def zip_with(call: Call, args: Sequence[Compiled], bodies: Sequence[Body]) -> Compiled:
    """The shorter array is filled up with nulls."""

    def run(rows: Rows, count: int) -> tuple[pl.Series, Mask]:
        sides = [lists.flat(rows[name]) for name in ("c0", "c1")]
        missing = sides[0].missing | sides[1].missing
        lengths = np.where(missing, 0, np.maximum(sides[0].lengths, sides[1].lengths))
        places = np.repeat(np.arange(count), lengths)
        values, failed = bodies[0].over([lists.stretched(side, lengths) for side in sides], places, rows)
        return lists.gathered(values, lengths, missing), _rows_of(places, failed, count)

    return _compiled(call, args, bodies, run)


@higher_order("aggregate", "reduce", "arrayaggregate", supports=arity(4, also=_ARRAY_FIRST))
def aggregate(call: Call, args: Sequence[Compiled], bodies: Sequence[Body]) -> Compiled:
    """A step per place: all rows that still have an element take it together."""
    merge, finish = bodies

    def run(rows: Rows, count: int) -> tuple[pl.Series, Mask]:
        of = lists.flat(rows["c0"])
        starts = np.cumsum(of.lengths) - of.lengths
        state = rows["c1"].rechunk()
        broken = np.zeros(count, bool)
        for step in range(int(of.lengths.max(initial=0))):
            going = np.flatnonzero(of.lengths > step)
            values, failed = merge.over((state.gather(going), of.values.gather(starts[going] + step)), going, rows)
            state = state.scatter(going, values)
            broken[going[failed & ~broken[going]]] = True
        values, failed = finish.over((state,), np.arange(count), rows)
        return values.set(pl.Series(of.missing), None), (broken | failed) & ~of.missing

    return _compiled(call, args, bodies, run)


# -- maps ---------------------------------------------------------------------------------------------------------------


def _entries(of: lists.Flat) -> tuple[pl.Series, pl.Series]:
    return of.values.struct.field("key"), of.values.struct.field("value")


@higher_order("map_filter", "mapfilter", supports=arity(2, also=_MAP_FIRST))
def map_filter(call: Call, args: Sequence[Compiled], bodies: Sequence[Body]) -> Compiled:
    def run(rows: Rows, count: int) -> tuple[pl.Series, Mask]:
        of = lists.flat(rows["c0"])
        verdict, failed = bodies[0].over(_entries(of), of.rows, rows)
        return _kept(of, verdict, count), _rows_of(of.rows, failed, count)

    return _compiled(call, args, bodies, run)


def _entries_with(call: Call, args: Sequence[Compiled], bodies: Sequence[Body], replaced: str) -> Compiled:
    """The map with the body's results for its keys or for its values."""

    def run(rows: Rows, count: int) -> tuple[pl.Series, Mask]:
        of = lists.flat(rows["c0"])
        keys, values = _entries(of)
        made, failed = bodies[0].over((keys, values), of.rows, rows)
        entries = pl.DataFrame({"key": keys, "value": values} | {replaced: made}).to_struct()
        return lists.gathered(entries, of.lengths, of.missing), _rows_of(of.rows, failed, count)

    return _compiled(call, args, bodies, run)


@higher_order("transform_values", "transformvalues", supports=arity(2, also=_MAP_FIRST))
def transform_values(call: Call, args: Sequence[Compiled], bodies: Sequence[Body]) -> Compiled:
    return _entries_with(call, args, bodies, "value")


@higher_order("transform_keys", "transformkeys", supports=arity(2, also=_MAP_FIRST))
def transform_keys(call: Call, args: Sequence[Compiled], bodies: Sequence[Body]) -> Compiled:
    done = _entries_with(call, args, bodies, "key")
    checks = checked_map(done.value).checks
    guards = [Guard(check.condition, check.error, call.sql) for check in checks]
    return Compiled(done.value, (*done.guards, *guards))


@higher_order("map_zip_with", "mapzipwith", supports=arity(3, also=takes(Map, arguments=(0, 1))))
def map_zip_with(call: Call, args: Sequence[Compiled], bodies: Sequence[Body]) -> Compiled:
    """The keys of the first map, then those that only the second has; null for a value that one of them lacks."""

    def run(rows: Rows, count: int) -> tuple[pl.Series, Mask]:
        sides = [lists.flat(rows[name]) for name in ("c0", "c1")]
        missing = sides[0].missing | sides[1].missing
        tables = [
            pl.DataFrame({"row": side.rows, "key": _entries(side)[0], f"v{n}": _entries(side)[1]}).filter(
                pl.Series(~missing[side.rows])
            )
            for n, side in enumerate(sides)
        ]
        keys = pl.concat([table.select("row", "key") for table in tables]).unique(maintain_order=True)
        both = keys.sort("row", maintain_order=True)
        for table in tables:
            both = both.join(table, on=["row", "key"], how="left", maintain_order="left")
        places = both["row"].to_numpy()
        values, failed = bodies[0].over((both["key"], both["v0"], both["v1"]), places, rows)
        entries = pl.DataFrame({"key": both["key"], "value": values}).to_struct()
        return lists.gathered(entries, lists.counted(places, count), missing), _rows_of(places, failed, count)

    return _compiled(call, args, bodies, run)
