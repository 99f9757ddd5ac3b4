"""Which stored column of a source is the event time."""

from __future__ import annotations

import pytest

from tidegate.model.ids import OperatorId
from tidegate.model.types import LONG, TIMESTAMP, Field, Schema
from tidegate.plan.event_times import event_time_of
from tidegate.plan.expressions import Call, Column, Literal, Named
from tidegate.plan.relational import AssignWatermark, Filter, Plan, Project, Scan, Sink, StampTime, Union
from tidegate.plan.stages import build_graph
from tidegate.testing.stand_ins import scripted_sink, scripted_source

SCHEMA = (Field("n#0", LONG), Field("at#1", TIMESTAMP))
SCAN = Scan(id=OperatorId("in"), spec=scripted_source(format="parquet"), schema=SCHEMA, columns=("n", "at"))
AT = Column("at#1", TIMESTAMP)


def assigned(column: str, schema: Schema = SCHEMA) -> AssignWatermark:
    return AssignWatermark(id=OperatorId("w"), column=column, delay_us=0, schema=schema)


def project(*columns: Named) -> Project:
    return Project(columns=columns, schema=tuple(Field(one.name, TIMESTAMP) for one in columns))


RENAMED = project(Named("when#2", AT))
COMPUTED = project(Named("at#1", Call("date_trunc", (Literal("hour", LONG), AT), TIMESTAMP)))
KEPT = Filter(condition=Literal(True, LONG), schema=SCHEMA)


@pytest.mark.parametrize(
    ("above", "column"),
    [
        ((assigned("at#1"),), "at"),
        ((KEPT, StampTime(column="now", schema=SCHEMA), assigned("at#1")), "at"),
        ((RENAMED, assigned("when#2")), "at"),
        ((RENAMED, project(Named("late#3", Column("when#2", TIMESTAMP))), assigned("late#3")), "at"),
        ((COMPUTED, assigned("at#1")), ""),
        ((RENAMED, assigned("at#1")), ""),
        ((Union(schema=SCHEMA), assigned("at#1")), ""),
        ((KEPT, RENAMED), None),
        ((), None),
    ],
)
def test_a_column_counts_that_reaches_the_assigner_as_it_is_stored(above: tuple[Plan, ...], column: str | None) -> None:
    assert event_time_of(SCAN, above) == column


def test_the_graph_tells_every_scan_its_own() -> None:
    other = Scan(
        id=OperatorId("other"),
        spec=scripted_source(format="json"),
        schema=(Field("n#8", LONG), Field("t#9", TIMESTAMP)),
        columns=("n", "t"),
    )
    union = Union(schema=SCHEMA, inputs=(SCAN, other))
    watermarked = AssignWatermark(id=OperatorId("w"), column="at#1", delay_us=0, schema=SCHEMA, inputs=(union,))
    columns = tuple((field.name, field.name) for field in SCHEMA)
    sink = Sink(
        id=OperatorId("out"),
        spec=scripted_sink(SCHEMA, format="noop"),
        columns=columns,
        inputs=(watermarked,),
    )
    graph = build_graph(sink, parallelism=1, max_parallelism=128)
    assert {scan.id: scan.event_time for scan in graph.scans()} == {"in": "at", "other": "t"}
