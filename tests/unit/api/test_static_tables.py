"""When tables of static data are removed: never one that a graph to come will read."""

from __future__ import annotations

import io
from pathlib import Path

import polars as pl
import pytest

from tidegate.api.static_tables import TableSweep, store_tables, with_partitioned_tables
from tidegate.checkpoint.layout import STATIC_PREFIX, chunk_key
from tidegate.model import types as t
from tidegate.model.config import QueryConfig
from tidegate.model.ids import Attempt, OperatorId
from tidegate.model.types import Field
from tidegate.plan.expressions import Column
from tidegate.plan.graph import JobGraph
from tidegate.plan.relational import JoinKind, Scan, Sink, StaticJoin
from tidegate.plan.stages import build_graph
from tidegate.storage.local import LocalBlobStore
from tidegate.testing.stand_ins import scripted_sink, scripted_source

STREAM, STATIC = (Field("k", t.LONG),), (Field("s", t.LONG),)
CONFIG = QueryConfig(broadcast_bytes_max=0)


def query_over(*static: int) -> tuple[JobGraph, dict[str, bytes]]:
    """A graph that joins with a table of these rows, and what has to be stored for it."""
    table = io.BytesIO()
    pl.DataFrame({"s": list(static)}).write_ipc_stream(table)
    join = StaticJoin(
        kind=JoinKind.LEFT,
        stream_keys=(Column("k", t.LONG),),
        static_keys=(Column("s", t.LONG),),
        null_safe=(False,),
        condition=None,
        table=table.getvalue(),
        static_schema=STATIC,
        schema=(*STREAM, *STATIC),
        inputs=(Scan(id=OperatorId("source"), spec=scripted_source(), schema=STREAM, columns=("k",)),),
    )
    columns = (("k", "k"),)
    sink = Sink(id=OperatorId("sink"), spec=scripted_sink(STREAM), columns=columns, inputs=(join,))
    plans, contents = with_partitioned_tables((sink,), CONFIG)
    return build_graph(*plans, parallelism=1, max_parallelism=CONFIG.max_parallelism), contents


class Location:
    """A store with the tables of the first graph, and a sweep that runs for it."""

    def __init__(self, folder: Path) -> None:
        self.store = LocalBlobStore(folder)
        graph, self.old = query_over(1, 2)
        self.new_graph, self.new = query_over(3)
        store_tables(self.store, self.old)
        self.sweep = TableSweep(self.store, graph)

    @property
    def stored(self) -> set[str]:
        return set(self.store.list(STATIC_PREFIX))


def keys(contents: dict[str, bytes]) -> set[str]:
    return {chunk_key(name) for name in contents}


@pytest.fixture
def location(tmp_path: Path) -> Location:
    return Location(tmp_path)


def test_a_commit_during_a_refresh_leaves_the_tables_of_the_graph_to_come(location: Location) -> None:
    with location.sweep.held():
        store_tables(location.store, location.new)
        location.sweep.after_commits(Attempt(1), committed=True)
        assert location.stored == keys(location.old) | keys(location.new)
        location.sweep.expect(location.new_graph, Attempt(2))
    location.sweep.after_commits(Attempt(1), committed=True)
    assert location.stored == keys(location.old) | keys(location.new), "attempt 1 runs the old graph"
    location.sweep.after_commits(Attempt(2), committed=False)
    assert location.stored == keys(location.old) | keys(location.new), "its slots may still read"
    location.sweep.after_commits(Attempt(2), committed=True)
    assert location.stored == keys(location.new)


def test_tables_of_a_refresh_that_came_to_nothing_are_swept(location: Location) -> None:
    with pytest.raises(RuntimeError), location.sweep.held():
        store_tables(location.store, location.new)
        raise RuntimeError("the data does not fit")
    location.sweep.after_commits(Attempt(1), committed=True)
    assert location.stored == keys(location.old)


def test_a_graph_is_swept_for_once(location: Location) -> None:
    location.sweep.after_commits(Attempt(1), committed=True)
    store_tables(location.store, location.new)
    location.sweep.after_commits(Attempt(1), committed=True)
    assert location.stored == keys(location.old) | keys(location.new)
