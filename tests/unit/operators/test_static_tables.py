"""A static table cut by key group: every row is in the part of its key, and a subtask reads its own rows only."""

from __future__ import annotations

import io

import polars as pl
import pytest

from tidegate.model import types as t
from tidegate.model.errors import Bug
from tidegate.model.ids import OperatorId
from tidegate.model.snapshot import KeyGroupRange
from tidegate.model.types import Field
from tidegate.operators import static_tables
from tidegate.operators.static_tables import cut_table, table_of
from tidegate.plan.expressions import Call, Column, Literal
from tidegate.plan.relational import AssignWatermark, JoinKind, Repartition, Scan, Sink, StaticJoin
from tidegate.plan.static_sides import partition_static_sides
from tidegate.state.codec import decode_chunk
from tidegate.state.hashing import hash_columns
from tidegate.state.keygroups import key_groups, range_of
from tidegate.testing.stand_ins import scripted_sink, scripted_source

GROUPS = 16
STREAM = (Field("k", t.LONG), Field("ts", t.TIMESTAMP))
KEY = Column("k", t.LONG)
STATIC = (Field("s", t.LONG), Field("name", t.STRING))


def scan() -> Scan:
    return Scan(id=OperatorId("source"), spec=scripted_source(), schema=STREAM, columns=("k", "ts"))


def join(rows: int = 500, *, stream_key: Column | Call = KEY) -> StaticJoin:
    sink = io.BytesIO()
    pl.DataFrame({"s": range(rows), "name": [f"name {n}" for n in range(rows)]}).write_ipc_stream(sink)
    return StaticJoin(
        kind=JoinKind.LEFT,
        stream_keys=(stream_key,),
        static_keys=(Column("s", t.LONG),),
        null_safe=(False,),
        condition=None,
        table=sink.getvalue(),
        static_schema=STATIC,
        schema=(*STREAM, *STATIC),
        inputs=(scan(),),
    )


def sink_of(plan: object) -> Sink:
    return Sink(id=OperatorId("sink"), spec=scripted_sink(STREAM[:1]), columns=(("k", "k"),), inputs=(plan,))  # type: ignore[arg-type]


@pytest.mark.parametrize("parallelism", [1, 3, 16])
def test_subtasks_together_hold_every_row_once_where_its_key_goes(
    parallelism: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(static_tables, "PART_BYTES", 1_000)
    node = join()
    parts = list(cut_table(node, GROUPS))
    assert len(parts) > 4
    stored = {handle.name: data for handle, data in parts}
    cut = StaticJoin(
        **{**{f: getattr(node, f) for f in node.__slots__}, "parts": tuple(h for h, _ in parts), "table": b""}
    )
    seen: list[int] = []
    for subtask in range(parallelism):
        mine = range_of(subtask, parallelism, GROUPS)
        rows = table_of(cut, mine, lambda handle: decode_chunk(stored[handle.name], handle.name))
        groups = key_groups(hash_columns(rows.select("s"), (t.LONG,)), GROUPS)
        assert all(group in mine for group in groups)
        assert rows.columns == ["s", "name"]
        seen += rows.get_column("s").to_list()
    assert sorted(seen) == list(range(500))


def test_equal_rows_have_equal_names() -> None:
    assert [handle for handle, _ in cut_table(join(), GROUPS)] == [handle for handle, _ in cut_table(join(), GROUPS)]


def test_a_partitioned_table_needs_somebody_who_reads_it() -> None:
    node = join()
    cut = tuple(handle for handle, _ in cut_table(node, GROUPS))
    with pytest.raises(Bug, match="nobody can read"):
        table_of(StaticJoin(**{**{f: getattr(node, f) for f in node.__slots__}, "parts": cut}), None, None)


def partitioned(plan: object, bytes_max: int = 0) -> StaticJoin:
    (sink,) = partition_static_sides(
        (sink_of(plan),), bytes_max, lambda one: tuple(handle for handle, _ in cut_table(one, GROUPS))
    )
    found = sink.inputs[0]
    while not isinstance(found, StaticJoin):
        found = found.inputs[0]
    return found


def test_the_stream_goes_to_the_key_of_a_large_table() -> None:
    node = partitioned(join())
    assert node.parts
    assert node.table == b""
    assert node.inputs[0] == Repartition(keys=("k",), schema=STREAM, inputs=(scan(),))
    assert KeyGroupRange(0, GROUPS) == KeyGroupRange(node.parts[0].groups.start, node.parts[-1].groups.stop)


def test_a_computed_key_becomes_a_column_that_does_not_leave_the_join() -> None:
    node = partitioned(join(stream_key=Call("add", (Column("k", t.LONG), Literal(1, t.LONG)), t.LONG)))
    (key,) = node.stream_keys
    assert isinstance(key, Column)
    assert isinstance(node.inputs[0], Repartition)
    assert node.inputs[0].keys == (key.name,)
    assert key.name not in {field.name for field in node.schema}


def test_a_small_table_stays_whole() -> None:
    assert not partitioned(join(), bytes_max=1 << 20).parts


def test_a_table_below_a_watermark_stays_whole() -> None:
    assigned = AssignWatermark(
        id=OperatorId("watermark"), column="ts", delay_us=0, schema=(*STREAM, *STATIC), inputs=(join(),)
    )
    assert not partitioned(assigned).parts
