"""Names of stateful operators: what they are decides, and never where they stand."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from tidegate.checkpoint.layout import chunk_key
from tidegate.model import types as t
from tidegate.model.errors import InvalidQuery
from tidegate.model.ids import OperatorId
from tidegate.model.output_mode import OutputMode
from tidegate.model.types import Field, Schema
from tidegate.plan.explain import explain
from tidegate.plan.expressions import Call, Column, Literal, Named
from tidegate.plan.graph import JobGraph, is_input_state
from tidegate.plan.identity import SLUG_LENGTH_MAX, base_of, identify, pin, slug
from tidegate.plan.relational import Aggregate, AggregateCall, AssignWatermark, Filter, Plan, Project, Scan, Sink, Union
from tidegate.plan.stages import build_graph
from tidegate.plan.watermarks import push_watermarks_down
from tidegate.testing.stand_ins import scripted_sink, scripted_source

COLUMNS: Schema = (Field("ts#1", t.TIMESTAMP), Field("k#2", t.LONG), Field("v#3", t.LONG))
UNNAMED = OperatorId("?")


def files(path: str = "/data/bids", form: str = "parquet") -> Scan:
    return Scan(
        id=UNNAMED,
        spec=scripted_source(format=form, place=path),
        schema=COLUMNS,
        columns=tuple(c.name for c in COLUMNS),
    )


def timed(plan: Plan, column: str = "ts#1") -> AssignWatermark:
    return AssignWatermark(id=UNNAMED, column=column, delay_us=5_000_000, schema=plan.schema, inputs=(plan,))


def totals(plan: Plan, *keys: str, function: str = "sum") -> Aggregate:
    schema = tuple(c for c in plan.schema if c.name in keys)
    call = AggregateCall("total#9", function, ("v#3",), t.LONG, (t.LONG,))
    return Aggregate(
        id=UNNAMED,
        keys=keys,
        calls=(call,),
        event_time=None,
        mode=OutputMode.UPDATE,
        schema=(*schema, Field("total#9", t.LONG)),
        input_schema=plan.schema,
        inputs=(plan,),
    )


def written(plan: Plan, form: str = "memory") -> Sink:
    columns = tuple((column.name, column.name.split("#")[0]) for column in plan.schema)
    return Sink(id=UNNAMED, spec=scripted_sink(plan.schema, format=form), columns=columns, inputs=(plan,))


def positive(plan: Plan) -> Filter:
    condition = Call("greaterthan", (Column("v#3", t.LONG), Literal(0, t.LONG)), t.BOOLEAN)
    return Filter(condition=condition, schema=plan.schema, inputs=(plan,))


def chosen(plan: Plan) -> Project:
    columns = tuple(Named(c.name, Column(c.name, c.type)) for c in plan.schema)
    return Project(columns=columns, schema=plan.schema, inputs=(plan,))


def both(*plans: Plan) -> Union:
    return Union(schema=plans[0].schema, inputs=plans)


def graph_of(plan: Plan, uids: dict[str, str] | None = None) -> JobGraph:
    down = push_watermarks_down(written(plan))
    assert isinstance(down, Sink)
    return build_graph(pin(identify(down), uids or {}), parallelism=2, max_parallelism=8)


def ids(plan: Plan, uids: dict[str, str] | None = None) -> set[str]:
    """Of operators; those of inputs are left out."""
    return {one for one in graph_of(plan, uids).stateful_ids() if not is_input_state(one)}


def test_a_name_says_what_the_operator_is_and_what_it_reads_or_groups_by() -> None:
    plan = totals(timed(files()), "k#2", "ts#1")
    assert ids(plan) == {
        "source-parquet_bids",
        "watermark-ts_parquet_bids",
        "aggregate-k_ts",
        "sink-memory",
    }


def test_whatever_is_stateless_moves_no_state_of_operators_nor_of_their_inputs() -> None:
    """T48: not even of event time and of overtaken rows."""
    plain = totals(timed(files()), "k#2")
    around = chosen(totals(chosen(positive(timed(positive(chosen(files()))))), "k#2"))
    assert graph_of(plain).stateful_ids() == graph_of(around).stateful_ids()


def test_an_aggregate_keeps_its_name_when_another_one_comes_or_goes() -> None:
    """T48"""
    one = totals(timed(files()), "k#2")
    two = both(one, totals(timed(files("/data/asks")), "ts#1"))
    assert ids(one) < ids(two)
    nested = totals(replace(totals(timed(files()), "k#2"), schema=COLUMNS), "ts#1")
    assert {"aggregate-k", "aggregate-ts"} <= ids(nested)
    assert ids(one) < ids(nested)


def test_the_state_of_inputs_is_named_after_what_reads_them_and_not_after_a_number() -> None:
    """T48: a stage inserted above has another number, and nothing else."""
    aggregated = totals(timed(files()), "k#2")
    alone = graph_of(aggregated)
    behind_a_union = graph_of(totals(both(timed(files()), timed(files("/data/asks"))), "k#2"))
    inputs = {one for one in alone.stateful_ids() if is_input_state(one)}
    assert inputs == {"aggregate-k.inputs"}
    assert inputs < set(behind_a_union.stateful_ids())
    assert "aggregate-k.partial.inputs" in behind_a_union.stateful_ids()


def test_a_union_without_anything_stateful_is_named_after_the_sink() -> None:
    flat = graph_of(both(files("/a/x"), files("/a/y")))
    assert "sink-memory.inputs" in flat.stateful_ids()
    nested = graph_of(both(both(files("/a/x"), files("/a/y")), files("/a/z")))
    assert {"sink-memory.inputs", "sink-memory.0.inputs"} <= set(nested.stateful_ids())


def test_a_branch_added_below_a_watermark_leaves_the_watermarks_of_the_others_alone() -> None:
    one = ids(totals(timed(files()), "k#2"))
    two = ids(totals(timed(both(files(), files("/data/asks"))), "k#2"))
    assert one < two


def test_equals_are_numbered_by_what_tells_them_apart_and_not_by_position() -> None:
    first, second = totals(files(), "k#2", function="max"), totals(files(), "k#2", function="min")
    here, there = graph_of(both(first, second)), graph_of(both(second, first))
    assert {"aggregate-k", "aggregate-k-2", "source-parquet_bids-2"} <= set(here.stateful_ids())
    kept = ("aggregate-k", "aggregate-k-2")
    shapes = [[s for s in graph.state_shapes() if s.operator in kept] for graph in (here, there)]
    assert shapes[0] == shapes[1]
    assert base_of(OperatorId("aggregate-k-2")) == base_of(OperatorId("aggregate-k")) == "aggregate-k"


def test_a_name_is_safe_in_a_path_bounded_and_different_for_different_columns() -> None:
    odd = ["größe", "名前", "地名", "a/b", "../..", "x" * 300, "x" * 301, "A b.c", "", "2"]
    made = [slug(text) for text in odd]
    assert len(set(made)) == len(odd)
    for one in made:
        assert re.fullmatch(r"[a-z0-9_]+", one)
        assert len(one) <= SLUG_LENGTH_MAX
        chunk_key(f"aggregate-{one}/000001-00000-000001-0")


def test_a_pinned_name_replaces_the_derived_one_by_id_or_by_kind() -> None:
    plan = totals(timed(files()), "k#2")
    assert ids(plan, {"aggregate": "totals", "source-parquet_bids": "bids"}) == {
        "bids",
        "watermark-ts_parquet_bids",
        "totals",
        "sink-memory",
    }
    graph = graph_of(plan, {"aggregate": "totals"})
    assert graph.pinned_ids() == ("totals",)
    assert "totals.inputs" in graph.stateful_ids()


@pytest.mark.parametrize(
    ("uids", "complaint"),
    [
        ({"aggregate-x": "totals"}, "names no operator"),
        ({"source": "bids"}, "could mean source-parquet_asks or source-parquet_bids"),
        ({"source-parquet_asks": "s", "source-parquet_bids": "S"}, "two operators would be called"),
        ({"source-parquet_asks": "source-parquet_bids"}, "two operators would be called"),
        ({"sink": "a", "sink-memory": "b"}, "two names"),
        ({"sink": "../a"}, "cannot be the name"),
        ({"sink": "a.inputs"}, "cannot be the name"),
        ({"sink": ""}, "cannot be the name"),
    ],
)
def test_a_pin_that_cannot_be_meant_is_refused(uids: dict[str, str], complaint: str) -> None:
    plan = both(files("/data/asks"), files("/data/bids"))
    with pytest.raises(InvalidQuery, match=complaint) as refused:
        ids(plan, uids)
    if "operator" in complaint or "mean" in complaint:
        assert "source-parquet_asks, source-parquet_bids, sink-memory" in refused.value.hint


def test_explain_shows_the_names() -> None:
    plan = identify(written(totals(timed(files()), "k#2")))
    text = explain(plan, build_graph(plan, parallelism=1, max_parallelism=8))
    for name in ("source-parquet_bids", "watermark-ts_parquet_bids", "aggregate-k", "sink-memory"):
        assert name in text
