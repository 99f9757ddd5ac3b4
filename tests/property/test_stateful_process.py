"""Stateful code in whole jobs: any batching, any order, kills and restores at another parallelism, in memory and in RocksDB."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from random import Random

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.property.pipelines import all_rows, scan, sink, source, watermark
from tests.property.pipelines import rows as rows_of

from tidegate.model import types as t
from tidegate.model.config import QueryConfig
from tidegate.model.ids import OperatorId
from tidegate.model.output_mode import OutputMode
from tidegate.model.types import Field
from tidegate.plan.expressions import Cast, Column, Named
from tidegate.plan.keyed import StatefulKind, StatefulProcess, TimeMode
from tidegate.plan.relational import Project, Sink
from tidegate.plan.stages import build_graph
from tidegate.state.entries import EntryBackend
from tidegate.state.entries_in_memory import EntriesInMemory
from tidegate.storage.rocksdb_entries import EntriesInRocksDb
from tidegate.testing.processors import TALLY_OUTPUT, load_tally
from tidegate.testing.scripted import ScriptedConnectors, ScriptedSink, ScriptedSource, ScriptedSplit
from tidegate.testing.slots import SlotHarness

TIMER_MS = 3_000
DAY_MS = 86_400_000


def in_rocksdb() -> EntryBackend:
    return EntriesInRocksDb(Path(tempfile.mkdtemp()))


def tally(mode: TimeMode) -> Sink:
    """``Tally`` over scripted rows: key, event time, and a word."""
    rows = watermark(scan(0, "#0"), "ts#0")
    known = {field.name: field for field in rows.schema}
    schema = (known["k#0"], known["ts#0"], Field("word#0", t.STRING))
    words = Project(
        columns=(
            *(Named(field.name, Column(field.name, field.type)) for field in schema[:2]),
            Named("word#0", Cast(Column("v#0", t.LONG), t.STRING)),
        ),
        schema=schema,
        inputs=(rows,),
    )
    node = StatefulProcess(
        id=OperatorId("process-0"),
        kind=StatefulKind.TRANSFORM_ROW,
        label="Tally",
        command=str(TIMER_MS).encode(),
        keys=("k#0",),
        time_mode=mode,
        event_time="ts#0" if mode is TimeMode.EVENT else None,
        mode=OutputMode.APPEND,
        input_names=("k", "ts", "word"),
        output_names=tuple(field.name for field in TALLY_OUTPUT),
        schema=tuple(Field(f"{field.name}#9", field.type) for field in TALLY_OUTPUT),
        input_schema=schema,
        has_watermark=True,
        inputs=(words,),
    )
    return sink(node)


def start(
    plan: Sink, connectors: ScriptedConnectors, config: QueryConfig, parallelism: int, **more: object
) -> SlotHarness:
    graph = build_graph(plan, parallelism=parallelism, max_parallelism=config.max_parallelism)
    return SlotHarness(graph, connectors, config, load=load_tally, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("backend", [EntriesInMemory, in_rocksdb])
@given(seed=st.integers(0, 1 << 30), parallelisms=st.lists(st.integers(1, 4), min_size=1, max_size=4))
@settings(max_examples=25, deadline=None)
def test_rows_count_once_and_event_time_timers_fire_once_however_often_it_is_killed(
    backend: Callable[[], EntryBackend], seed: int, parallelisms: list[int]
) -> None:
    """T25."""
    random = Random(seed)
    rows = source(random, "#0", splits=3, rows_max=40)
    connectors = ScriptedConnectors({OperatorId("source-0"): rows}, {OperatorId("sink-0"): ScriptedSink()})
    plan = tally(TimeMode.EVENT)
    config = QueryConfig(
        max_parallelism=8,
        bounded=True,
        drain=True,
        batch_rows_max=random.randint(1, 30),
        capture_rows=random.choice([2, 99]),
    )
    store: dict[str, bytes] = {}
    snapshot = None
    for attempt, parallelism in enumerate(parallelisms, 1):
        harness = start(
            plan, connectors, config, parallelism, seed=seed, attempt=attempt, restore=snapshot, store=store,
            entries=backend, commit_chance=0.5,
        )  # fmt: skip
        if attempt == len(parallelisms):
            harness.finish()
        else:
            harness.settle(until=lambda: harness.all_ready)  # noqa: B023 - called at once
            for _ in range(random.randrange(4)):
                harness.advance(random.randrange(60))
                harness.trigger()
            harness.advance(random.randrange(100))
            snapshot = harness.completed[-1] if harness.completed else None
        for slot in harness.slots.values():
            slot.close()
    everything = all_rows(rows)
    counts = everything.group_by("k#0").len()
    expected = [(str(key), "row", n + 1) for key, count in counts.rows() for n in range(count)]
    timers = everything.select("k#0", pl.col("ts#0").dt.epoch("ms") + TIMER_MS).unique()
    expected += [(str(key), "timer", at_ms) for key, at_ms in timers.rows()]
    assert connectors.sinks[OperatorId("sink-0")].rows() == sorted(expected, key=repr)


def test_a_processing_time_timer_is_overdue_after_the_restore_and_fires_once_with_its_own_time() -> None:
    """T25, in a whole job: the runtime tells the time and wakes up for it."""
    rows = ScriptedSource([ScriptedSplit(one_row(), closed=False)])
    connectors = ScriptedConnectors({OperatorId("source-0"): rows}, {OperatorId("sink-0"): ScriptedSink()})
    plan, config, store = tally(TimeMode.PROCESSING), QueryConfig(max_parallelism=8), {}
    first = start(plan, connectors, config, 2, store=store, wall_offset_ms=DAY_MS)
    first.settle(until=lambda: len(written(connectors)) == 1)
    snapshot = first.checkpoint()
    registered_ms = DAY_MS + int(first.now_ms)
    second = start(plan, connectors, config, 3, store=store, restore=snapshot, attempt=2, wall_offset_ms=2 * DAY_MS)
    second.settle(until=lambda: len(written(connectors)) == 2)
    (_, what, at_ms) = written(connectors)[1]
    assert what == "timer" and DAY_MS + TIMER_MS <= at_ms <= registered_ms + TIMER_MS
    later = second.checkpoint()
    third = start(plan, connectors, config, 1, store=store, restore=later, attempt=3, wall_offset_ms=3 * DAY_MS)
    third.checkpoint()
    third.settle()
    assert len(written(connectors)) == 2


def test_the_slot_sleeps_until_a_processing_time_timer_is_due() -> None:
    rows = ScriptedSource([ScriptedSplit(one_row(), closed=False)])
    connectors = ScriptedConnectors({OperatorId("source-0"): rows}, {OperatorId("sink-0"): ScriptedSink()})
    harness = start(tally(TimeMode.PROCESSING), connectors, QueryConfig(max_parallelism=8), 1, wall_offset_ms=DAY_MS)
    harness.settle(until=lambda: len(written(connectors)) == 1)
    registered_ms = harness.now_ms
    while len(written(connectors)) < 2 and harness.now_ms < registered_ms + 2 * TIMER_MS:
        harness.advance(1)
    assert 0 <= harness.now_ms - registered_ms - TIMER_MS <= 1
    assert written(connectors)[1] == ("1", "timer", DAY_MS + int(registered_ms) + TIMER_MS)


def one_row() -> pl.DataFrame:
    return rows_of(Random(0), 1, "#0", keys=1).with_columns(pl.lit(1, pl.Int64).alias("k#0"))


def written(connectors: ScriptedConnectors) -> list[tuple[object, ...]]:
    return [row for frame in connectors.sinks[OperatorId("sink-0")].written for row in frame.rows()]
