"""Rows whose user function raises, in whole jobs that are killed and restored: each of them in exactly one letter, and the rest
as if they had never been there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from random import Random

import polars as pl
import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.property import pipelines as p

from tidegate.model import types as t
from tidegate.model.config import QueryConfig
from tidegate.model.ids import OperatorId
from tidegate.operators.letters import row_json
from tidegate.plan.expressions import Column
from tidegate.plan.graph import JobGraph
from tidegate.plan.relational import MapBatches, PythonEval, PythonUdf, Sink, UdfKind
from tidegate.plan.stages import build_graph
from tidegate.testing.scripted import ScriptedConnectors, ScriptedSink
from tidegate.testing.slots import SlotHarness, Snapshot
from tidegate.testing.stand_ins import scripted_letters

PARSE, CHECK = OperatorId("dead-letter-parse"), OperatorId("dead-letter-check")


def parse(value: int) -> int:
    if value % 7 == 0:
        raise ValueError(f"{value} cannot be parsed")
    return value + 1


def check(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        if any(total % 5 == 0 for total in batch["s0"].to_pylist()):
            raise LookupError("a sum that nobody likes")
        yield batch


FUNCTIONS = {b"parse": parse, b"check": check}


def plan() -> Sink:
    """A scalar function before the exchange and a function over batches behind it."""
    source = p.watermark(p.scan(0, "#1"), "ts#1")
    udf = PythonUdf("u#5", "parse", b"parse", UdfKind.PYTHON, (Column("v#1", t.LONG),), t.LONG)
    parsed = PythonEval(udfs=(udf,), schema=(*source.schema, t.Field("u#5", t.LONG)), inputs=(source,))
    counted = p.count_and_sum(parsed, ("w#1", "k#1"), "u#5", number=0, window="w#1")
    names = tuple(column.name.partition("#")[0] for column in counted.schema)
    checked = MapBatches(
        kind=UdfKind.ARROW,
        label="check",
        command=b"check",
        input_names=names,
        input_schema=counted.schema,
        schema=tuple(t.Field(f"{name}#11", c.type) for name, c in zip(names, counted.schema, strict=True)),
        output_names=names,
        inputs=(counted,),
    )
    return p.sink(checked)


def graph(random: Random) -> JobGraph:
    return build_graph(
        plan(), parallelism=random.randint(1, 3), max_parallelism=8, dead_letters=scripted_letters("/letters")
    )


def config(random: Random) -> QueryConfig:
    return QueryConfig(
        max_parallelism=8,
        bounded=True,
        drain=True,
        dead_letter="/letters",
        batch_rows_max=random.choice([1, 7, 30, 1_000]),
        channel_batches_max=random.choice([1, 3, 16]),
    )


def letters(sink: ScriptedSink) -> list[str]:
    return sorted(letter for frame in sink.visible.values() for letter in frame["row"])


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 1 << 32), deaths=st.integers(0, 3))
def test_each_bad_row_is_in_exactly_one_letter_however_often_the_job_dies(seed: int, deaths: int) -> None:
    """T6 T45 T62: commits are left out at random, so letters are carried over as committables, through rescales too."""
    random = Random(seed)
    source = p.source(random, "#1", splits=3, rows_max=60)
    sinks = {name: ScriptedSink() for name in (OperatorId("sink-0"), PARSE, CHECK)}
    connectors = ScriptedConnectors({OperatorId("source-0"): source}, sinks)
    store: dict[str, bytes] = {}
    snapshot: Snapshot | None = None
    for attempt in range(1, deaths + 2):
        harness = SlotHarness(
            graph(random),
            connectors,
            config(random),
            seed=seed + attempt,
            attempt=attempt,
            restore=snapshot,
            store=store,
            load=FUNCTIONS.__getitem__,
            commit_chance=0.5 if attempt <= deaths else 1.0,
        )
        if attempt <= deaths:
            for _ in range(2):
                harness.advance(random.randrange(150))
                harness.trigger()
            harness.advance(random.randrange(200))
            snapshot = harness.completed[-1] if harness.completed else None
    harness.finish()

    rows = p.all_rows(source)
    bad = rows.filter(pl.col("v#1") % 7 == 0)
    assert letters(sinks[PARSE]) == sorted(row_json(bad, index) for index in range(bad.height))
    good = rows.filter(pl.col("v#1") % 7 != 0).with_columns(pl.col("v#1") + 1)
    groups = p.grouped(good, ["w#1", "k#1"], "v#1")
    total = pl.col(groups.columns[-1])
    assert sinks[OperatorId("sink-0")].rows() == p.as_rows(groups.filter(total % 5 != 0))
    disliked = groups.filter(total % 5 == 0)
    assert sorted(tuple(json.loads(one).values())[1:] for one in letters(sinks[CHECK])) == sorted(
        disliked.rows()[i][1:] for i in range(disliked.height)
    )


def test_a_letter_tells_where_the_row_came_from_and_rejected_rows_are_counted() -> None:
    random = Random(3)
    source = p.source(random, "#1", splits=1, rows_max=200)
    sinks = {name: ScriptedSink() for name in (OperatorId("sink-0"), PARSE, CHECK)}
    connectors = ScriptedConnectors({OperatorId("source-0"): source}, sinks)
    harness = SlotHarness(graph(random), connectors, config(random), attempt=4, load=FUNCTIONS.__getitem__)
    harness.finish()
    first = pl.concat(sinks[PARSE].visible.values())
    second = pl.concat(sinks[CHECK].visible.values())
    assert set(first["operator"]) == {"python(parse)"} and set(second["operator"]) == {"map(check)"}
    assert all(position.startswith("split 0 row ") for position in first["position"])
    assert set(second["position"]) == {None}, "behind an exchange nobody knows"
    assert set(first["attempt"]) == {4} and set(first["error"]) == {"ValueError"}
    metrics = [one for slot in harness.slots.values() for one in slot.progress().metrics]
    counted = {
        name: sum(m.rejected_rows for m in metrics if m.operator.endswith(name))
        for name in ("python(parse)", "map(check)")
    }
    assert counted == {"python(parse)": first.height, "map(check)": second.height}
    assert sum(m.rows_in for m in metrics if m.operator.endswith(PARSE)) == first.height
