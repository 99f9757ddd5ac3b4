"""Two-phase aggregation against plain Python over whole groups: any cut into batches, any coalescing, restarts in between."""

from __future__ import annotations

import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, localcontext
from decimal import Decimal as D
from functools import reduce
from operator import and_, xor

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.model import types as t
from tidegate.model.elements import Batch
from tidegate.model.ids import CheckpointId, OperatorId, SlotIndex
from tidegate.model.output_mode import OutputMode
from tidegate.model.snapshot import ChunkHandle
from tidegate.model.types import Array, DataType, Decimal, Field
from tidegate.operators.aggregate import AggregateOperator
from tidegate.operators.columns import polars_schema
from tidegate.operators.partial_aggregate import PartialAggregateOperator, partial_schema
from tidegate.operators.protocol import NewChunk, OperatorContext, Restored, RestoredChunk
from tidegate.plan.relational import Aggregate, AggregateCall, PartialAggregate
from tidegate.state.codec import decode_chunk, encode_chunk
from tidegate.state.hashing import hash_columns
from tidegate.state.keygroups import key_groups, range_of, subtask_of

INPUT = (
    Field("k", t.STRING),
    Field("i", t.INTEGER),
    Field("d", t.DOUBLE),
    Field("m", Decimal(10, 2)),
    Field("s", t.STRING),
    Field("b", t.BOOLEAN),
    Field("f", t.BOOLEAN),
    Field("n", t.INTEGER),
    Field("e", t.DOUBLE),
)
NUMBERS = {field.name: number for number, field in enumerate(INPUT)}

maybe = st.none()
doubles = st.sampled_from([0.0, 0.5, -1.25, 3.0, 1e6, math.nan])
rows = st.lists(
    st.tuples(
        maybe | st.sampled_from(["x", "y", ""]),
        maybe | st.integers(-(2**31), 2**31 - 1),
        maybe | doubles,
        maybe | st.integers(-(10**9), 10**9).map(lambda n: D(n).scaleb(-2)),
        maybe | st.sampled_from(["", "a", "b", "ä"]),
        maybe | st.booleans(),
        maybe | st.booleans(),
        maybe | st.integers(-20, 20),
        maybe | st.sampled_from([0.1, 0.5, -1.3, 7.7]),
    ),
    min_size=1,
    max_size=30,
)
Row = tuple
Oracle = Callable[[list[Row]], object]


def present(column: str) -> Callable[[list[Row]], list]:
    return lambda rows: [row[NUMBERS[column]] for row in rows if row[NUMBERS[column]] is not None]


def over(column: str, fold: Callable[[list], object], empty: object = None) -> Oracle:
    return lambda rows: fold(values) if (values := present(column)(rows)) else empty


def order(value: float | str) -> tuple:
    return (
        isinstance(value, float) and math.isnan(value),
        0 if isinstance(value, float) and math.isnan(value) else value,
    )


def largest(values: list) -> object:
    return max(values, key=order)


def smallest(values: list) -> object:
    return min(values, key=order)


def mean_half_up(values: list[D]) -> D:
    with localcontext() as context:
        context.prec = 60
        return (sum(values) / len(values)).quantize(D("0.000001"), ROUND_HALF_UP)


def spread(values: list[float], *, sample: bool, root: bool) -> float | None:
    if len(values) < 1 + sample:
        return None
    if any(math.isnan(v) for v in values):
        return math.nan
    variance = statistics.variance(values) if sample else statistics.pvariance(values)
    return math.sqrt(variance) if root else variance


def everything(values: list) -> Counter:
    return Counter(values)


def moment(values: list[float], power: int) -> float:
    centre = statistics.fmean(values)
    return math.fsum((value - centre) ** power for value in values)


def standardised(values: list[float], power: int) -> float | None:
    if len(set(values)) < 2:
        return None
    return moment(values, power) / len(values) / (moment(values, 2) / len(values)) ** (power / 2) - 3 * (power == 4)


def pairs(one: str, other: str, fold: Callable[[list, list], object]) -> Oracle:
    """Over the rows where neither is null."""

    def folded(rows: list[Row]) -> object:
        both = [(row[NUMBERS[one]], row[NUMBERS[other]]) for row in rows]
        whole = [pair for pair in both if None not in pair]
        return fold([a for a, _ in whole], [b for _, b in whole]) if whole else None

    return folded


def co_moment(ys: list[float], xs: list[float]) -> float:
    y, x = statistics.fmean(ys), statistics.fmean(xs)
    return math.fsum((a - y) * (b - x) for a, b in zip(ys, xs, strict=True))


def correlation(ys: list[float], xs: list[float]) -> float | None:
    if len(set(ys)) < 2 or len(set(xs)) < 2:
        return None
    return co_moment(ys, xs) / math.sqrt(co_moment(ys, ys) * co_moment(xs, xs))


def slope(ys: list[float], xs: list[float]) -> float | None:
    return None if len(set(xs)) < 2 else co_moment(ys, xs) / co_moment(xs, xs)


def at_rank(values: list, percentage: float) -> object:
    return sorted(values)[max(math.ceil(percentage * len(values)), 1) - 1]


def most_frequent(values: list) -> object:
    counted = Counter(values)
    return min(value for value, times in counted.items() if times == max(counted.values()))


def best(rows: list[Row], count: int, *, largest: bool) -> list | None:
    """Of the orders in column i that are not null; the values beside them are the orders themselves."""
    orders = sorted(present("i")(rows), reverse=largest)
    return orders[:count] or None


def estimate(values: list) -> Near:
    return Near(len(set(values)), 1)


@dataclass(frozen=True)
class Near:
    """Any number this close."""

    value: float
    by: float


CASES: dict[str, tuple[str, tuple[str, ...], DataType, Oracle, dict]] = {
    "count(*)": ("count", (), t.LONG, len, {}),
    "count(i)": ("count", ("i",), t.LONG, over("i", len, 0), {}),
    "count(i, s)": ("count", ("i", "s"), t.LONG, lambda r: sum(x[1] is not None and x[4] is not None for x in r), {}),
    "count_if(b)": ("count_if", ("b",), t.LONG, over("b", sum, 0), {}),
    "sum(i)": ("sum", ("i",), t.LONG, over("i", sum), {}),
    "sum(m)": ("sum", ("m",), Decimal(20, 2), over("m", sum), {}),
    "sum(d)": ("sum", ("d",), t.DOUBLE, over("d", sum), {}),
    "avg(i)": ("avg", ("i",), t.DOUBLE, over("i", lambda v: sum(v) / len(v)), {}),
    "avg(m)": ("avg", ("m",), Decimal(14, 6), over("m", mean_half_up), {}),
    "min(d)": ("min", ("d",), t.DOUBLE, over("d", smallest), {}),
    "max(d)": ("max", ("d",), t.DOUBLE, over("d", largest), {}),
    "min(s)": ("min", ("s",), t.STRING, over("s", min), {}),
    "max(s)": ("max", ("s",), t.STRING, over("s", max), {}),
    "max(m)": ("max", ("m",), Decimal(10, 2), over("m", max), {}),
    "min(b)": ("min", ("b",), t.BOOLEAN, over("b", min), {}),
    "first(s)": ("first", ("s",), t.STRING, lambda r: r[0][4], {}),
    "last(s)": ("last", ("s",), t.STRING, lambda r: r[-1][4], {}),
    "first(i) ignore nulls": ("first", ("i",), t.INTEGER, over("i", lambda v: v[0]), {"ignore_nulls": True}),
    "last(i) ignore nulls": ("last", ("i",), t.INTEGER, over("i", lambda v: v[-1]), {"ignore_nulls": True}),
    "bool_and(b)": ("bool_and", ("b",), t.BOOLEAN, over("b", all), {}),
    "bool_or(b)": ("bool_or", ("b",), t.BOOLEAN, over("b", any), {}),
    "bit_xor(i)": (
        "bit_xor",
        ("i",),
        t.INTEGER,
        over("i", lambda v: reduce(xor, v)),
        {},
    ),
    "bit_and(i)": (
        "bit_and",
        ("i",),
        t.INTEGER,
        over("i", lambda v: reduce(and_, v)),
        {},
    ),
    "stddev(i)": ("stddev", ("i",), t.DOUBLE, lambda r: spread(present("i")(r), sample=True, root=True), {}),
    "var_pop(d)": ("var_pop", ("d",), t.DOUBLE, lambda r: spread(present("d")(r), sample=False, root=False), {}),
    "skewness(n)": ("skewness", ("n",), t.DOUBLE, over("n", lambda v: standardised(v, 3)), {}),
    "kurtosis(n)": ("kurtosis", ("n",), t.DOUBLE, over("n", lambda v: standardised(v, 4)), {}),
    "skewness(e)": ("skewness", ("e",), t.DOUBLE, over("e", lambda v: standardised(v, 3)), {}),
    "corr(n, e)": ("corr", ("n", "e"), t.DOUBLE, pairs("n", "e", correlation), {}),
    "covar_pop(n, e)": ("covar_pop", ("n", "e"), t.DOUBLE, pairs("n", "e", lambda y, x: co_moment(y, x) / len(y)), {}),
    "regr_slope(e, n)": ("regr_slope", ("e", "n"), t.DOUBLE, pairs("e", "n", slope), {}),
    "regr_sxy(n, i)": ("regr_sxy", ("n", "e"), t.DOUBLE, pairs("n", "e", co_moment), {}),
    "percentile(i)": (
        "percentile",
        ("i",),
        t.DOUBLE,
        over("i", lambda v: float(statistics.median(v))),
        {"params": (0.5, False)},
    ),
    "percentile_disc(m)": (
        "percentile_disc",
        ("m",),
        t.DOUBLE,
        over("m", lambda v: float(at_rank(v, 0.3))),
        {"params": (0.3, False)},
    ),
    "percentile_approx(m)": (
        "percentile_approx",
        ("m",),
        Decimal(10, 2),
        over("m", lambda v: at_rank(v, 0.4)),
        {"params": (0.4, 100)},
    ),
    "mode(s)": ("mode", ("s",), t.STRING, over("s", most_frequent), {"params": (True,)}),
    "max_by(i, i, 3)": ("max_by", ("i", "i"), Array(t.INTEGER), lambda r: best(r, 3, largest=True), {"params": (3,)}),
    "min_by(i, i, 2)": ("min_by", ("i", "i"), Array(t.INTEGER), lambda r: best(r, 2, largest=False), {"params": (2,)}),
    "listagg(s)": ("listagg", ("s",), t.STRING, over("s", "/".join), {"params": ("/",)}),
    "listagg(s order by s desc)": (
        "listagg",
        ("s", "s"),
        t.STRING,
        over("s", lambda v: "-".join(sorted(v, reverse=True))),
        {"params": ("-", "desc nulls last")},
    ),
    "product(e)": ("product", ("e",), t.DOUBLE, over("e", math.prod), {}),
    "try_sum(i)": ("try_sum", ("i",), t.LONG, over("i", sum), {}),
    "approx_count_distinct(i)": (
        "approx_count_distinct",
        ("i",),
        t.LONG,
        over("i", estimate, Near(0, 0)),
        {"params": (0.001,)},
    ),
    "pivot_first(s, i)": (
        "pivot_first",
        ("s", "i"),
        Array(t.INTEGER),
        lambda r: [next((x[1] for x in reversed(r) if x[4] == s and x[1] is not None), None) for s in ("a", "b")],
        {"params": ("a", "b")},
    ),
    "collect_list(s)": ("collect_list", ("s",), Array(t.STRING), lambda r: everything(present("s")(r)), {}),
    "collect_set(i)": ("collect_set", ("i",), Array(t.INTEGER), lambda r: everything(list(set(present("i")(r)))), {}),
    "count(distinct s)": ("count", ("s",), t.LONG, lambda r: len(set(present("s")(r))), {"distinct": True}),
    "count(distinct n, s)": (
        "count",
        ("n", "s"),
        t.LONG,
        lambda r: len({(x[7], x[4]) for x in r if x[7] is not None and x[4] is not None}),
        {"distinct": True},
    ),
    "var_pop(distinct n)": (
        "var_pop",
        ("n",),
        t.DOUBLE,
        over("n", lambda v: float(statistics.pvariance(sorted(set(v))))),
        {"distinct": True},
    ),
    "count(distinct d)": (
        "count",
        ("d",),
        t.LONG,
        over("d", lambda v: len({str(x) for x in v}), 0),
        {"distinct": True},
    ),
    "sum(distinct i)": ("sum", ("i",), t.LONG, over("i", lambda v: sum(set(v))), {"distinct": True}),
    "avg(distinct m)": (
        "avg",
        ("m",),
        Decimal(14, 6),
        over("m", lambda v: mean_half_up(list(set(v)))),
        {"distinct": True},
    ),
}
TYPES = {field.name: field.type for field in INPUT}


def call_of(name: str, filtered: bool) -> AggregateCall:
    function, args, of, _, extra = CASES[name]
    label = name + (" filter (where f)" if filtered else "")
    types = tuple(TYPES[arg] for arg in args)
    return AggregateCall(label, function, args, of, types, filter="f" if filtered else None, sql=label, **extra)


def node_of(names: list[str]) -> Aggregate:
    calls = tuple(call_of(name, filtered) for name in names for filtered in (False, True))
    schema = (INPUT[0], *(Field(call.name, call.type) for call in calls))
    return Aggregate(
        id=OperatorId("a"),
        keys=("k",),
        calls=calls,
        event_time=None,
        mode=OutputMode.UPDATE,
        schema=schema,
        input_schema=INPUT,
    )


class Deployment:
    """Partial and final phase with ``parallelism`` subtasks of the latter, restarted from its own snapshot at will."""

    def __init__(self, node: Aggregate, parallelism: int) -> None:
        self.node = node
        self.partial = PartialAggregateOperator(PartialAggregate(aggregate=node, schema=partial_schema(node)))
        self.result: dict[str | None, Row] = {}
        self.parallelism = parallelism
        self.finals = [self.build(i, Restored()) for i in range(parallelism)]

    def build(self, subtask: int, restored: Restored) -> AggregateOperator:
        groups = range_of(subtask, self.parallelism, 16)
        return AggregateOperator(
            self.node, OperatorContext(self.node.id, SlotIndex(subtask), self.parallelism, 16, groups, restored)
        )

    def feed(self, batches: list[pl.DataFrame]) -> None:
        """Batches that the exchange coalesced into one."""
        partials = [out.rows for batch in batches for out in self.partial.on_batch(Batch(batch))]
        rows = pl.concat(partials)
        assert rows.schema == polars_schema(partial_schema(self.node))
        subtasks = subtask_of(key_groups(hash_columns(rows.select("k"), (t.STRING,)), 16), self.parallelism, 16)
        for subtask, final in enumerate(self.finals):
            mine = rows.filter(pl.Series(subtasks == subtask))
            for out in final.on_batch(Batch(mine)):
                assert out.rows.schema == polars_schema(self.node.schema)
                for row in out.rows.rows():
                    self.result[row[0]] = row[1:]

    def restart(self, parallelism: int) -> None:
        states = [final.snapshot(CheckpointId(1)) for final in self.finals]
        chunks = []
        for state in states:
            for chunk in state.chunks:
                assert isinstance(chunk, NewChunk)
                handle = ChunkHandle(name="c", groups=chunk.groups, rows=chunk.rows.height, size_bytes=0, checksum=0)
                chunks.append(RestoredChunk(handle, decode_chunk(encode_chunk(chunk.rows), "c")))
        self.parallelism = parallelism
        restored = Restored(chunks=tuple(chunks), values=tuple(state.value for state in states))
        self.finals = [self.build(i, restored) for i in range(parallelism)]


def same(actual: object, expected: object) -> bool:
    if isinstance(expected, Near):
        return isinstance(actual, int) and abs(actual - expected.value) <= expected.by
    if isinstance(expected, Counter):
        return Counter(actual) == expected  # type: ignore[arg-type]
    if isinstance(expected, float) and isinstance(actual, float):
        return math.isclose(actual, expected, rel_tol=1e-9, abs_tol=1e-6) or (
            math.isnan(actual) and math.isnan(expected)
        )
    return actual == expected and type(actual) is type(expected)


@pytest.mark.parametrize("names", [list(CASES)[i : i + 6] for i in range(0, len(CASES), 6)], ids=lambda n: n[0])
@settings(max_examples=20, deadline=None)
@given(
    rows=rows,
    cuts=st.lists(st.integers(1, 8), min_size=1),
    coalesce=st.integers(1, 3),
    restart=st.none() | st.tuples(st.integers(0, 5), st.integers(1, 3)),
)
def test_any_cut_gives_the_result_of_the_whole(
    names: list[str], rows: list[Row], cuts: list[int], coalesce: int, restart: tuple[int, int] | None
) -> None:
    node = node_of(names)
    whole = pl.DataFrame(rows, schema=polars_schema(INPUT), orient="row")
    batches, start = [], 0
    while start < whole.height:
        size = cuts[len(batches) % len(cuts)]
        batches.append(whole[start : start + size])
        start += size
    running = Deployment(node, 2)
    for turn, at in enumerate(range(0, len(batches), coalesce)):
        if restart is not None and turn == restart[0]:
            running.restart(restart[1])
        running.feed(batches[at : at + coalesce])

    groups: dict[str | None, list[Row]] = defaultdict(list)
    for row in rows:
        groups[row[0]].append(row)
    assert running.result.keys() == groups.keys()
    for key, members in groups.items():
        passing = [row for row in members if row[6]]
        for number, call in enumerate(node.calls):
            name = call.name.removesuffix(" filter (where f)")
            among = members if call.filter is None else passing
            expected = CASES[name][3](among) if among or not name.startswith(("first", "last")) else None
            assert same(running.result[key][number], expected), (call.name, key, running.result[key][number], expected)
