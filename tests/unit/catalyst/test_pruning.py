"""Columns nobody reads are not read, and nothing that is read gets lost."""

from __future__ import annotations

from tidegate.catalyst.pruning import prune
from tidegate.model import types as t
from tidegate.model.ids import OperatorId
from tidegate.model.output_mode import OutputMode
from tidegate.model.types import Field
from tidegate.plan.expressions import Call, Column, Named
from tidegate.plan.relational import Aggregate, AggregateCall, Filter, MapBatches, Project, Scan, Sink, UdfKind, Union
from tidegate.testing.stand_ins import scripted_sink, scripted_source


def scan(number: int = 0) -> Scan:
    names = ("a", "text", "b")
    types = (t.LONG, t.STRING, t.LONG)
    fields = tuple(Field(f"{name}#{number}", of) for name, of in zip(names, types, strict=True))
    return Scan(id=OperatorId(f"source-{number}"), spec=scripted_source(format="rate"), schema=fields, columns=names)


def column(name: str) -> Column:
    return Column(name, t.LONG)


def sink(plan, *names: str) -> Sink:
    return Sink(
        id=OperatorId("sink-0"),
        spec=scripted_sink(()),
        columns=tuple((name, name.split("#")[0]) for name in names),
        inputs=(plan,),
    )


def positive(plan, name: str) -> Filter:
    condition = Call("isnotnull", (column(name),), t.BOOLEAN)
    return Filter(condition=condition, schema=plan.schema, inputs=(plan,))


def test_a_scan_keeps_the_columns_of_the_sink():
    pruned = prune(sink(scan(), "b#0")).inputs[0]
    assert (pruned.columns, [field.name for field in pruned.schema]) == (("b",), ["b#0"])


def test_a_filter_keeps_what_its_condition_reads():
    pruned = prune(sink(positive(scan(), "a#0"), "b#0")).inputs[0]
    assert [field.name for field in pruned.schema] == ["a#0", "b#0"]


def test_a_projection_that_only_chooses_disappears():
    chosen = scan().schema[:1]
    project = Project(columns=(Named("a#0", column("a#0")),), schema=chosen, inputs=(scan(),))
    assert isinstance(prune(sink(project, "a#0")).inputs[0], Scan)


def test_a_count_of_rows_reads_one_narrow_column():
    count = AggregateCall("n#1", "count", (), t.LONG)
    aggregate = Aggregate(
        id=OperatorId("aggregate-0"),
        keys=(),
        calls=(count,),
        event_time=None,
        mode=OutputMode.UPDATE,
        schema=(Field("n#1", t.LONG),),
        inputs=(scan(),),
    )
    pruned = prune(sink(aggregate, "n#1")).inputs[0]
    assert pruned.inputs[0].columns == ("a",)
    assert pruned.input_schema == pruned.inputs[0].schema


def test_branches_of_a_union_still_match_by_position():
    left, right = positive(scan(0), "text#0"), scan(1)
    union = Union(
        schema=tuple(Field(f"{name}#2", of.type) for name, of in zip("atb", scan().schema, strict=True)),
        inputs=(left, right),
    )
    pruned = prune(sink(union, "b#2")).inputs[0]
    assert [field.name for field in pruned.schema] == ["b#2"]
    assert [[field.name for field in child.schema] for child in pruned.inputs] == [["b#0"], ["b#1"]]


def test_a_function_over_batches_gets_all_it_declared():
    batches = MapBatches(
        kind=UdfKind.ARROW,
        label="f",
        command=b"",
        input_names=("a", "text", "b"),
        schema=(Field("x#1", t.LONG), Field("y#1", t.LONG)),
        output_names=("x", "y"),
        inputs=(positive(scan(), "a#0"),),
    )
    assert len(prune(sink(batches, "y#1")).inputs[0].inputs[0].schema) == 3
