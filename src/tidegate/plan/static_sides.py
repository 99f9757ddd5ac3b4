"""Static sides of joins that are too large for every slot: each slot holds the rows of its key groups, and the stream goes there by key.

A join below ``withWatermark`` keeps its table in every slot: behind an exchange rows no longer know the split they came from, and the
watermark could not be a minimum over splits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from tidegate.model.snapshot import ChunkHandle
from tidegate.model.types import Field
from tidegate.plan.expressions import Column, Expression, Named
from tidegate.plan.relational import AssignWatermark, Plan, Project, Repartition, Scan, Sink, StaticJoin
from tidegate.plan.sharing import distinct

Cut = Callable[[StaticJoin], tuple[ChunkHandle, ...]]
"""Cuts the table of a join by key group; says where the parts will lie."""


def partition_static_sides(plans: Sequence[Sink], table_bytes_max: int, cut: Cut) -> tuple[Sink, ...]:
    """The plans with tables larger than that partitioned. A node with several consumers stays one."""
    timed = {
        id(below) for node in distinct(plans) if isinstance(node, AssignWatermark) for below in distinct(node.inputs)
    }
    done: dict[int, Plan] = {}
    for node in distinct(plans):
        if isinstance(node, Scan):
            done[id(node)] = node
            continue
        inputs = tuple(done[id(child)] for child in node.inputs)
        same = all(one is other for one, other in zip(inputs, node.inputs, strict=True))
        moved = node if same else replace(node, inputs=inputs)
        if isinstance(node, StaticJoin) and isinstance(moved, StaticJoin):
            large = len(node.table) > table_bytes_max and bool(node.stream_keys)
            if large and id(node) not in timed:
                moved = _partitioned(moved, cut, number=len(done))
        done[id(node)] = moved
    return tuple(sink for plan in plans if isinstance(sink := done[id(plan)], Sink))


def _partitioned(join: StaticJoin, cut: Cut, number: int) -> StaticJoin:
    (child,) = join.inputs
    computed: dict[Expression, Column] = {}
    for place, key in enumerate(join.stream_keys):
        if not isinstance(key, Column) and key not in computed:
            computed[key] = Column(f"_key#{number}.{place}", key.type)
    keys = tuple(key if isinstance(key, Column) else computed[key] for key in join.stream_keys)
    if computed:
        named = tuple(Named(column.name, key) for key, column in computed.items())
        passed = tuple(Named(one.name, Column(one.name, one.type)) for one in child.schema)
        made = tuple(Field(column.name, column.type) for column in computed.values())
        child = Project(columns=(*passed, *named), schema=(*child.schema, *made), inputs=(child,))
    exchange = Repartition(keys=tuple(dict.fromkeys(key.name for key in keys)), schema=child.schema, inputs=(child,))
    return replace(join, stream_keys=keys, parts=cut(join), table=b"", inputs=(exchange,))
