"""The file sink behind the real loop of the slots: what stands in the output directory after checkpoints, silence and deaths."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import polars as pl
import pytest
from tests.nodes import connectors_of, sink_node
from tests.property import pipelines as p

from tidegate.model.config import QueryConfig
from tidegate.model.errors import TidegateError
from tidegate.model.ids import Attempt, OperatorId, SlotIndex
from tidegate.model.snapshot import Committable, Split
from tidegate.plan.graph import JobGraph
from tidegate.plan.relational import Scan, Sink
from tidegate.plan.stages import build_graph
from tidegate.ports.sink import SinkWriter
from tidegate.testing.scripted import ScriptedEnumerator, ScriptedReader, ScriptedSource, ScriptedSplit
from tidegate.testing.slots import SlotHarness, Snapshot

SINK = OperatorId("sink-0")


class FilesBehindAScript:
    """A scripted source and a real file sink."""

    def __init__(self, source: ScriptedSource, sink: Sink) -> None:
        self.sources = {OperatorId("source-0"): source}
        self.sinks = {SINK: connectors_of().committer(sink)}

    def source(self, scan: Scan) -> ScriptedSource:
        return self.sources[scan.id]

    def writer(self, sink: Sink, attempt: Attempt, subtask: SlotIndex) -> SinkWriter:
        return connectors_of().writer(sink, attempt, subtask)

    def enumerator(self, scan: Scan) -> ScriptedEnumerator:
        return ScriptedEnumerator(self.sources[scan.id])

    def commit(self, sink: Sink, committables: tuple[Committable, ...]) -> None:
        self.sinks[sink.id].commit(committables)


def plan(path: Path) -> Sink:
    bare = p.sink(p.scan(0, "#1"))
    return replace(bare, spec=sink_node("parquet", {"path": path}, bare.schema).spec)


def graph(path: Path, parallelism: int) -> JobGraph:
    return build_graph(plan(path), parallelism=parallelism, max_parallelism=8)


def start(
    path: Path,
    source: ScriptedSource,
    *,
    attempt: int,
    restore: Snapshot | None = None,
    bounded: bool = False,
    parallelism: int = 2,
    commit_chance: float = 1.0,
) -> SlotHarness:
    return SlotHarness(
        graph(path, parallelism),
        FilesBehindAScript(source, plan(path)),  # type: ignore[arg-type]
        QueryConfig(max_parallelism=8, bounded=bounded),
        seed=attempt,
        attempt=attempt,
        restore=restore,
        commit_chance=commit_chance,
    )


def files(path: Path) -> list[Path]:
    return sorted(path.glob("part-*"))


def visible(path: Path) -> list[tuple[object, ...]]:
    frames = [pl.read_parquet(file) for file in files(path)]
    assert all(frame.height for frame in frames), "an empty file"
    return p.as_rows(pl.concat(frames)) if frames else []


def staged(path: Path) -> list[Path]:
    return [file for file in (path / "_tidegate").rglob("*") if file.is_file()]


@pytest.mark.parametrize("commit_chance", [1.0, 0.0], ids=["committed before", "commits never came"])
def test_five_silent_checkpoints_and_a_death_lose_nothing_and_leave_no_empty_file(
    tmp_path: Path, commit_chance: float
) -> None:
    """T57: the empty checkpoints carry what is not yet committed, and nothing else."""
    rows = p.rows(Random(1), 60, "#1")
    split = ScriptedSplit(rows.head(40), closed=False)
    source = ScriptedSource([split, ScriptedSplit(rows.head(0), closed=False)], batch_rows=7)
    before = start(tmp_path, source, attempt=1, commit_chance=commit_chance)
    before.settle()
    owed: list[int] = []
    for _ in range(6):
        snapshot = before.checkpoint()
        owed.append(sum(len(one.committables) for one in snapshot.operators if one.operator == SINK))
    assert owed == ([1, *[0] * 5] if commit_chance else [1] * 6)
    assert len(files(tmp_path)) == (1 if commit_chance else 0)

    after = start(tmp_path, source, attempt=2, restore=snapshot, parallelism=3)
    after.settle()
    split.append(rows.tail(20))
    after.settle()
    after.checkpoint()
    assert visible(tmp_path) == p.as_rows(rows)
    assert len(files(tmp_path)) == 2
    connectors_of().committer(plan(tmp_path)).sweep(Attempt(3), ())
    assert staged(tmp_path) == []


@pytest.mark.parametrize("seed", range(5))
def test_a_death_between_the_end_of_one_source_and_the_final_checkpoint_doubles_nothing(
    tmp_path: Path, seed: int
) -> None:
    """T20: one subtask has read everything and said so; that alone makes nothing visible."""
    random = Random(seed)
    rows = p.rows(random, 200, "#1")
    source = ScriptedSource([ScriptedSplit(rows.head(5)), ScriptedSplit(rows.tail(195))], batch_rows=3)
    before = start(tmp_path, source, attempt=1, bounded=True)
    if seed % 2:
        before.advance(random.randrange(30))
        before.checkpoint()
    before.settle(until=lambda: bool(before.exhausted))
    seen = visible(tmp_path)
    restore = before.completed[-1] if before.completed else None
    after = start(tmp_path, source, attempt=2, restore=restore, bounded=True)
    assert visible(tmp_path) == seen, "the end of input by itself published something"
    after.finish()
    assert visible(tmp_path) == p.as_rows(rows)


class ForgetfulReader(ScriptedReader):
    """Cannot say where it stands, so its subtask cannot take a snapshot."""

    @property
    def position(self) -> bytes:
        raise MemoryError("the position is lost")


class ForgetfulSource(ScriptedSource):
    """The second split is read well, but not past a barrier."""

    def open(self, split: Split, position: bytes | None) -> ScriptedReader:
        return ForgetfulReader(self, split.number, 0) if split.number == 1 else super().open(split, position)


def test_an_operator_that_fails_at_the_barrier_keeps_all_output_invisible(tmp_path: Path) -> None:
    """T5: one sink has prepared; an unrelated source cannot take its snapshot, so there is no checkpoint to commit."""
    rows = p.rows(Random(3), 50, "#1")
    splits = [ScriptedSplit(rows.head(20), closed=False), ScriptedSplit(rows.tail(30), closed=False)]
    before = start(tmp_path, ForgetfulSource(splits, batch_rows=10), attempt=1)
    before.settle()
    before.trigger()
    with pytest.raises(TidegateError, match="the position is lost"):
        before.settle()
    assert before.completed == [] and files(tmp_path) == []
    after = start(tmp_path, ScriptedSource(splits, batch_rows=10), attempt=2)
    after.settle()
    after.checkpoint()
    assert visible(tmp_path) == p.as_rows(rows)
