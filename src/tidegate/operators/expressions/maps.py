"""Functions of maps. A map is a list of entries; its keys are neither null nor equal to each other, which Spark enforces."""

from __future__ import annotations

import numpy as np
import polars as pl

from tidegate.model import types as t
from tidegate.model.types import Array, Map, Struct
from tidegate.operators.columns import polars_type
from tidegate.operators.expressions import lists, regexes
from tidegate.operators.expressions.compiled import Built, Check, Checked
from tidegate.operators.expressions.registry import arity, constants, function, optional, plain, takes
from tidegate.plan.expressions import Call

_MANY = 10_000


def keys_of(entries: pl.Expr) -> pl.Expr:
    return entries.list.eval(pl.element().struct.field("key"))


def checked(entries: pl.Expr, *before: Check) -> Checked:
    """Entries that may have null or equal keys: errors, as by Spark's default for duplicates."""
    keys = keys_of(entries)
    null = Check(keys.list.eval(pl.element().is_null()).list.any(), "NULL_MAP_KEY", always=True)
    # One zero and one NaN: Polars counts them so already.
    twice = Check(keys.list.n_unique() < keys.list.len(), "DUPLICATED_MAP_KEY", always=True)
    return Checked(entries, (*before, null, twice))


def _plain_keys(call: Call) -> str | None:
    of = call.type
    if isinstance(of, Map) and isinstance(of.key, Array | Struct):
        return f"{call.function} with keys that are arrays or structs is not supported"
    return None


@function("map", "createmap", supports=_plain_keys, null_skips=False)
def create_map(call: Call, *parts: pl.Expr) -> Built:
    kind = call.type
    assert isinstance(kind, Map)
    dtype = polars_type(kind)
    if not parts:
        return pl.lit([], dtype=dtype)
    key, value = polars_type(kind.key), polars_type(kind.value)
    pairs = zip(parts[0::2], parts[1::2], strict=True)
    entries = [pl.struct(key=k.cast(key), value=v.cast(value)) for k, v in pairs]
    return checked(pl.concat_list(entries).cast(dtype))


@function("map_concat", "mapconcat", supports=arity(0, _MANY, also=_plain_keys))
def map_concat(call: Call, *maps: pl.Expr) -> Built:
    dtype = polars_type(call.type)
    return checked(pl.concat_list([one.cast(dtype) for one in maps])) if maps else pl.lit([], dtype=dtype)


@plain("map_entries", "mapentries", supports=arity(1, also=takes(Map)))
def map_entries(entries: pl.Expr) -> Built:
    """Already what they are made of."""
    return entries


@function("map_from_entries", "mapfromentries", supports=arity(1, also=takes(Array, also=_plain_keys)))
def map_from_entries(call: Call, entries: pl.Expr) -> Built:
    """Null if one of the entries is."""
    of = call.args[0].type
    assert isinstance(of, Array)
    assert isinstance(of.element, Struct)
    key, value = (pl.element().struct.field(field.name) for field in of.element.fields)
    missing = entries.list.eval(pl.element().is_null()).list.any().fill_null(False)
    renamed = entries.list.eval(pl.struct(key=key, value=value))
    return checked(pl.when(~missing).then(renamed))


@function("map_from_arrays", "mapfromarrays", supports=arity(2, also=takes(Array, also=_plain_keys)))
def map_from_arrays(call: Call, keys: pl.Expr, values: pl.Expr) -> Built:
    def run(pairs: pl.Series) -> pl.Series:
        k, v = lists.flat(pairs.struct.field("c0")), lists.flat(pairs.struct.field("c1"))
        missing = k.missing | v.missing
        lengths = np.where(missing, 0, np.minimum(k.lengths, v.lengths))
        cut = [lists.stretched(side, lengths) for side in (k, v)]
        entries = pl.DataFrame({"key": cut[0], "value": cut[1]}).to_struct()
        return lists.gathered(entries, lengths, missing)

    both, _ = lists.structs([keys, values])
    uneven = Check(keys.list.len() != values.list.len(), "_LEGACY_ERROR_TEMP_2128", always=True)
    return checked(both.map_batches(run, return_dtype=polars_type(call.type), is_elementwise=True), uneven)


@plain("map_contains_key", "mapcontainskey", supports=arity(2, also=takes(Map, arguments=(0,))))
def map_contains_key(entries: pl.Expr, key: pl.Expr) -> Built:
    return keys_of(entries).list.contains(key, nulls_equal=False)


def value_of(entries: pl.Expr, key: pl.Expr, dtype: pl.DataType) -> pl.Expr:
    """The value of a key that may differ from row to row; null if it is not there."""

    def run(pairs: pl.Series) -> pl.Series:
        of = lists.flat(pairs.struct.field("c0"))
        wanted = pairs.struct.field("c1").gather(of.rows)
        hits = (of.values.struct.field("key") == wanted).fill_null(value=False).to_numpy()
        found = pl.DataFrame({"row": of.rows[hits], "v": of.values.struct.field("value").filter(pl.Series(hits))})
        rows = pl.DataFrame({"row": np.arange(len(pairs))})
        return rows.join(found.unique("row", keep="first"), on="row", how="left", maintain_order="left")["v"]

    both, _ = lists.structs([entries, key])
    return both.map_batches(run, return_dtype=dtype, is_elementwise=True)


def _delimiters(call: Call) -> str | None:
    for index, default in ((1, ","), (2, ":")):
        pattern = str(optional(call, index, default))
        if (reason := regexes.reason_against(pattern)) is not None:
            return reason
        if pl.select(pl.lit("").str.contains(regexes.translate(pattern))).item():
            return f"str_to_map by {pattern!r}, which matches the empty string, is not supported"
    return None


@function(
    "str_to_map",
    "stringtomap",
    supports=arity(1, 3, also=constants(1, 2, also=takes(t.STRING, arguments=(0,), also=_delimiters))),
)
def str_to_map(call: Call, text: pl.Expr, *_: pl.Expr) -> Built:
    """``a:1,b:2``; an entry without a value has null for it."""
    between, within = (regexes.translate(str(optional(call, index, d))) for index, d in ((1, ","), (2, ":")))
    first = pl.element().str.find(within)
    key = pl.element().str.replace(f"(?s)(?:{within}).*$", "")
    value = pl.when(first.is_not_null()).then(pl.element().str.replace(f"(?s)^.*?(?:{within})", ""))
    entries = text.str.split(between, literal=False).list.eval(pl.struct(key=key, value=value))
    return checked(pl.when(text.is_not_null()).then(entries))
