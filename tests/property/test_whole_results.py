"""Output mode ``complete`` and ``limit`` in whole jobs: results leave whole before every barrier, in every order the network allows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from random import Random

import msgspec
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.property.pipelines import Rows, all_rows, as_rows, count_and_sum, grouped, scan, sink, source
from tests.property.test_slots import MAX_PARALLELISM, run, skewed, stopwatch, tight

from tidegate.model.elements import Barrier
from tidegate.model.errors import InvalidQuery
from tidegate.model.ids import ChannelId, CheckpointId, OperatorId
from tidegate.model.output_mode import OutputMode
from tidegate.operators import pieces
from tidegate.plan.graph import JobGraph
from tidegate.plan.ordering import Limit, Sort, SortKey
from tidegate.plan.relational import Plan, Sink
from tidegate.plan.stages import build_graph
from tidegate.testing.scripted import ScriptedConnectors, ScriptedSink
from tidegate.testing.slots import SlotHarness

quick = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.fixture(autouse=True, scope="module")
def small_pieces() -> Iterator[None]:
    """Results leave in many pieces, so that back-pressure stops them half way."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pieces, "PIECE_ROWS", 2)
        yield


@dataclass(frozen=True)
class Whole:
    """A job whose sink gets whole results. ``expected``: the last of them, in order where the query has one."""

    plan: Sink
    connectors: ScriptedConnectors
    expected: Rows
    ordered: bool = False

    @property
    def sink(self) -> ScriptedSink:
        return self.connectors.sinks[OperatorId("sink-0")]

    def graph(self, parallelism: int) -> JobGraph:
        return build_graph(self.plan, parallelism=parallelism, max_parallelism=MAX_PARALLELISM)

    def results(self) -> dict[CheckpointId, list[tuple[object, ...]]]:
        """What each committed checkpoint made visible."""
        found: dict[CheckpointId, list[tuple[object, ...]]] = defaultdict(list)
        for name, rows in self.sink.visible.items():
            found[CheckpointId(int(name.rpartition("/")[2]))] += rows.rows()
        return dict(sorted(found.items()))

    def check(self) -> None:
        results = self.results()
        seen = 0
        for checkpoint, rows in results.items():
            keys = [row[0] for row in rows]
            assert len(keys) == len(set(keys)), f"checkpoint {checkpoint} holds parts of two results"
            total = sum(int(str(row[1])) for row in rows)
            assert total >= seen or self.ordered, f"checkpoint {checkpoint} holds less than the one before it"
            seen = total
        last = next(reversed(results.values()), [])
        assert (last if self.ordered else sorted(last, key=repr)) == self.expected


def counts(random: Random) -> tuple[Plan, ScriptedConnectors, pl.DataFrame]:
    read = source(random, "#1", splits=random.randint(1, 5), rows_max=60, keys=random.choice([3, 40]))
    counted = replace(count_and_sum(scan(0, "#1"), ("k#1",), "v#1", number=0, window=None), mode=OutputMode.COMPLETE)
    connectors = ScriptedConnectors({OperatorId("source-0"): read}, {OperatorId("sink-0"): ScriptedSink()})
    return counted, connectors, grouped(all_rows(read), ["k#1"], "v#1")


def all_groups(random: Random) -> Whole:
    plan, connectors, result = counts(random)
    return Whole(sink(plan, mode=OutputMode.COMPLETE), connectors, as_rows(result))


def top_groups(random: Random) -> Whole:
    """Sorted by sum, largest first, then by key; the first few."""
    plan, connectors, result = counts(random)
    limit = random.choice([None, 1, 3])
    top = Sort(
        order=(SortKey("s0#9", ascending=False, nulls_first=False), SortKey("k#1")),
        limit=limit,
        schema=plan.schema,
        inputs=(plan,),
    )
    ordered = result.sort(["s", "k#1"], descending=[True, False])
    return Whole(sink(top, mode=OutputMode.COMPLETE), connectors, ordered.head(limit or 1_000).rows(), ordered=True)


KINDS: tuple[Callable[[Random], Whole], ...] = (all_groups, top_groups)


@quick
@given(seed=st.integers(0, 1 << 32), parallelism=st.integers(1, 3), kind=st.sampled_from(KINDS))
def test_every_committed_checkpoint_is_one_whole_result(
    seed: int, parallelism: int, kind: Callable[[Random], Whole]
) -> None:
    """T6 T14: rows that leave before the barrier are all of them and nothing else, whatever was aborted on the way."""
    random = Random(seed)
    job = kind(random)
    harness = SlotHarness(
        job.graph(parallelism),
        job.connectors,
        tight(random),
        seed=seed,
        channel_ready=skewed(random),
        step_ms=1.0,
        clock=random.choice([None, stopwatch(Random(seed))]),
    )
    run(job, random, harness, checkpoints=4)  # type: ignore[arg-type]
    harness.finish()
    job.check()


@quick
@given(seed=st.integers(0, 1 << 32), kind=st.sampled_from(KINDS))
def test_after_kills_at_any_parallelism_the_last_result_is_whole_and_right(
    seed: int, kind: Callable[[Random], Whole]
) -> None:
    """T6 T22: what the sink shows last is the result over all rows, each once."""
    random = Random(seed)
    job = kind(random)
    store: dict[str, bytes] = {}
    snapshot = None
    for attempt in range(1, 4):
        harness = SlotHarness(
            job.graph(random.randint(1, 3)),
            job.connectors,
            tight(random),
            seed=seed + attempt,
            attempt=attempt,
            restore=snapshot,
            store=store,
            channel_ready=skewed(random),
            commit_chance=0.5,
            step_ms=1.0,
        )
        run(job, random, harness, checkpoints=3)  # type: ignore[arg-type]
        harness.advance(random.randrange(300))
        snapshot = harness.completed[-1] if harness.completed else None
    harness = SlotHarness(
        job.graph(random.randint(1, 3)),
        job.connectors,
        tight(random),
        seed=seed,
        attempt=9,
        restore=snapshot,
        store=store,
        step_ms=1.0,
    )
    harness.finish()
    job.check()


@quick
@given(seed=st.integers(0, 1 << 32))
def test_a_barrier_passes_all_channels_or_none_whatever_is_given_up(seed: int) -> None:
    """T6: the sorter reads one whole result before every barrier, so no subtask may send its part without the others."""
    random = Random(seed)
    job = top_groups(random)
    graph = job.graph(3)
    harness = SlotHarness(graph, job.connectors, tight(random), seed=seed, channel_ready=skewed(random), step_ms=1.0)
    for _ in range(4):
        harness.advance(random.randrange(100))
        harness.trigger(alongside=True)
        harness.advance(random.randrange(60))
        harness.abort()
    harness.finish()
    passed: dict[CheckpointId, set[ChannelId]] = defaultdict(set)
    for send in harness.sent:
        if isinstance(send.element, Barrier) and send.channel.edge == graph.edges[-1].number:
            passed[send.element.checkpoint].add(send.channel)
    # Channels between slots only: each of the three subtasks has two of them.
    assert {checkpoint: len(channels) for checkpoint, channels in passed.items()} == dict.fromkeys(passed, 6)
    job.check()


@quick
@given(seed=st.integers(0, 1 << 32), count=st.sampled_from([1, 5, 40, 10_000]))
def test_a_limit_lets_exactly_its_rows_pass_over_all_restarts(seed: int, count: int) -> None:
    """T6 T22: as many rows as asked for, none twice, at any parallelism."""
    random = Random(seed)
    read = source(random, "#1", splits=random.randint(1, 5), rows_max=60)
    read.splits[:] = [
        replace(split, rows=split.rows.with_columns((pl.int_range(pl.len()) + 1_000 * number).alias("v#1")))
        for number, split in enumerate(read.splits)
    ]
    limited = Limit(id=OperatorId("limit-0"), count=count, schema=scan(0, "#1").schema, inputs=(scan(0, "#1"),))
    target = ScriptedSink()
    connectors = ScriptedConnectors({OperatorId("source-0"): read}, {OperatorId("sink-0"): target})
    store: dict[str, bytes] = {}
    snapshot = None
    for attempt in (1, 2, 3):
        graph = build_graph(sink(limited), parallelism=random.randint(1, 3), max_parallelism=MAX_PARALLELISM)
        harness = SlotHarness(
            graph,
            connectors,
            tight(random),
            seed=seed + attempt,
            attempt=attempt,
            restore=snapshot,
            store=store,
            step_ms=1.0,
            commit_chance=0.5,
        )
        if attempt == 3:
            harness.finish()
        else:
            run(connectors, random, harness, checkpoints=2)  # type: ignore[arg-type]
            harness.advance(random.randrange(200))
            snapshot = harness.completed[-1] if harness.completed else None
    total = all_rows(read).height
    passed = target.rows()
    assert len(passed) == len(set(passed)) == min(count, total)
    assert set(passed) <= set(all_rows(read).rows())


def test_a_result_larger_than_agreed_is_refused_by_name() -> None:
    job = all_groups(Random(3))
    config = msgspec.structs.replace(tight(Random(1)), complete_rows_max=1)
    harness = SlotHarness(job.graph(1), job.connectors, config, seed=3)
    with pytest.raises(InvalidQuery, match="completeRowsMax"):
        harness.finish()
