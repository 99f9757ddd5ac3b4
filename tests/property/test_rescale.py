"""State of every kind, handed from any number of subtasks to any other: nothing is lost, nothing has two owners."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from random import Random

import msgspec
import polars as pl
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.property.pipelines import PIPELINES, Pipeline, as_rows, count_and_sum, grouped, rows, scan, sink, windowed

from tidegate.checkpoint.manifest import SourceState
from tidegate.checkpoint.sources import SplitAssigner, add_numbers, restored
from tidegate.model.config import QueryConfig
from tidegate.model.ids import Attempt, CheckpointId, OperatorId, SlotIndex
from tidegate.model.messages import SplitsWanted
from tidegate.model.output_mode import OutputMode
from tidegate.model.snapshot import ChunkHandle, Committable, KeyGroupRange, OperatorSnapshot, Split, SplitPosition
from tidegate.plan.graph import JobGraph
from tidegate.plan.stages import build_graph
from tidegate.runtime.restore import restored_for
from tidegate.state.keygroups import range_of
from tidegate.testing.scripted import ScriptedConnectors, ScriptedSink, ScriptedSource, ScriptedSplit
from tidegate.testing.slots import SlotHarness, Snapshot

PARALLELISM_MAX = 40
PRIMES_AND_POWERS = (41, 97, 127, 64, 128, 4_096)
NAME = OperatorId("aggregate-k")
SOURCE = OperatorId("source-0")
SINK = OperatorId("sink-0")
quick = settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))


# --- who owns what, for every p and q


@pytest.mark.parametrize("groups", PRIMES_AND_POWERS)
def test_the_ranges_of_all_parallelisms_tile_the_key_groups_exactly(groups: int) -> None:
    """T45: all p → q up to 40; every cut of an old range has one new owner, and the cuts of a range tile it."""
    ranges = {
        p: [range_of(subtask, p, groups) for subtask in range(p)] for p in range(1, min(groups, PARALLELISM_MAX) + 1)
    }
    for p, old in ranges.items():
        assert (old[0].start, old[-1].stop) == (0, groups), p
        assert all(one.stop == following.start for one, following in pairwise(old)), p
        assert all(one.start < one.stop for one in old), p
        for q, new in ranges.items():
            cuts = sorted(cut for a in old for b in new if (cut := a.intersect(b)) is not None)
            assert (cuts[0].start, cuts[-1].stop) == (0, groups), (p, q)
            assert all(one.stop == following.start for one, following in pairwise(cuts)), (p, q)


def taken(parallelism: int, groups: int) -> tuple[OperatorSnapshot, ...]:
    """A checkpoint of an operator with one row per key group, a value per subtask, and unconfirmed output of every second."""
    return tuple(
        OperatorSnapshot(
            operator=NAME,
            subtask=SlotIndex(subtask),
            chunks=(handle(range_of(subtask, parallelism, groups)),),
            value=b"%d" % subtask,
            committables=tuple(
                Committable(
                    checkpoint=CheckpointId(7), subtask=SlotIndex(subtask), number=n, payload=b"%d-%d" % (subtask, n)
                )
                for n in range(subtask % 3)
            ),
        )
        for subtask in range(parallelism)
    )


def handle(groups: KeyGroupRange) -> ChunkHandle:
    return ChunkHandle(name=f"{groups.start}-{groups.stop}", groups=groups, rows=1, size_bytes=1, checksum=0)


def load(of: ChunkHandle) -> pl.DataFrame:
    """The chunk as it was written; ``groups`` may have become a part of it."""
    start, stop = map(int, of.name.split("-"))
    return pl.DataFrame({"kg": range(start, stop)})


def rescaled(old: tuple[OperatorSnapshot, ...], parallelism: int, groups: int) -> tuple[OperatorSnapshot, ...]:
    """What ``parallelism`` new subtasks get, as the snapshot they would take at once: stored chunks are named again."""
    made: list[OperatorSnapshot] = []
    for index in range(parallelism):
        part = restored_for(
            NAME,
            old,
            subtask=SlotIndex(index),
            parallelism=parallelism,
            groups=range_of(index, parallelism, groups),
            load=load,
        )
        assert part.values == tuple(one.value for one in old), "every new subtask sees the values of all old ones"
        found = [group for chunk in part.chunks for group in chunk.rows["kg"].to_list()]
        own = range_of(index, parallelism, groups)
        assert sorted(found) == list(range(own.start, own.stop)), "its key groups, all of them, once"
        made.append(
            OperatorSnapshot(
                operator=NAME,
                subtask=SlotIndex(index),
                chunks=tuple(chunk.handle for chunk in part.chunks),
                value=b"%d" % index,
                committables=part.committables,
            )
        )
    return tuple(made)


@quick
@given(
    steps=st.lists(st.integers(1, PARALLELISM_MAX), min_size=2, max_size=5), groups=st.sampled_from((41, 64, 97, 128))
)
@example(steps=[2, 5], groups=128)
@example(steps=[5, 2], groups=128)
@example(steps=[40, 1, 40], groups=41)
def test_state_survives_any_chain_of_rescales(steps: list[int], groups: int) -> None:
    """T45 T46: keyed rows by group, values to all, each unconfirmed committable to exactly one owner."""
    first, *others = steps
    snapshots = taken(first, groups)
    owed = sorted(c.payload for one in snapshots for c in one.committables)
    for parallelism in others:
        snapshots = rescaled(snapshots, parallelism, groups)
        assert sorted(c.payload for one in snapshots for c in one.committables) == owed


# --- sources


def dealt(assigner: SplitAssigner, parallelism: int, random: Random) -> tuple[SplitAssigner, list[SplitPosition]]:
    """Everything readers are given when they ask in any order, until nobody gets anything more."""
    given: list[SplitPosition] = []
    received = [0] * parallelism
    silent = 0
    while silent < 3:
        for slot in random.sample(range(parallelism), parallelism):
            message = SplitsWanted(
                attempt=Attempt(2), operator=SOURCE, slot=SlotIndex(slot), open=0, received=received[slot]
            )
            assigner = assigner.on_wanted(message)
        assigner, messages = assigner.assign(Attempt(2))
        for one in messages:
            received[one.subtask] = one.sequence + 1
            given.extend(one.splits)
        silent = 0 if any(one.splits for one in messages) else silent + 1
    return assigner, given


@quick
@given(seed=st.integers(0, 1 << 32), parallelism=st.integers(1, PARALLELISM_MAX), splits=st.integers(0, 60))
def test_every_split_that_is_not_done_goes_to_exactly_one_reader_with_its_position(
    seed: int, parallelism: int, splits: int
) -> None:
    """T45: open splits go on where they stood, those never begun start at the beginning, however many readers there are now."""
    random = Random(seed)
    kinds = [random.choice(("done", "open", "fresh")) for _ in range(splits)]
    opened = tuple(
        SplitPosition(split=Split(number=number, payload=b""), position=b"%d" % number)
        for number, kind in enumerate(kinds)
        if kind == "open"
    )
    done = add_numbers((), (number for number, kind in enumerate(kinds) if kind == "done"))
    state = SourceState(operator=SOURCE, enumerator=b"all", done=done, open=opened)
    assigner = restored(state, parallelism)
    everything = tuple(Split(number=number, payload=b"") for number in range(splits))
    assigner = assigner.on_discovered(everything, b"all", bounded=True, endless=random.random() < 0.3)
    after, given = dealt(assigner, parallelism, random)
    numbers = [one.split.number for one in given]
    assert sorted(numbers) == [number for number, kind in enumerate(kinds) if kind != "done"]
    assert all(
        one.position == (b"%d" % one.split.number if kinds[one.split.number] == "open" else None) for one in given
    )
    assert after.fold(()).open == opened, "a checkpoint before anybody has read keeps the old positions"


# --- whole jobs


def config(random: Random, groups: int) -> QueryConfig:
    return QueryConfig(
        max_parallelism=groups,
        bounded=True,
        drain=True,
        batch_rows_max=random.choice([2, 7, 1_000]),
        capture_rows=random.choice([1, 3, 1_000]),
        channel_batches_max=random.choice([1, 3, 16]),
    )


def graph_of(pipeline: Pipeline, parallelism: int, groups: int) -> JobGraph:
    return build_graph(pipeline.plan, parallelism=parallelism, max_parallelism=groups)


def killed_at(
    pipeline: Pipeline, steps: list[int], groups: int, seed: int, *, commit_chance: float
) -> tuple[Snapshot | None, dict[str, bytes]]:
    """One start per parallelism; each takes checkpoints while rows flow and is killed."""
    random = Random(seed)
    store: dict[str, bytes] = {}
    snapshot: Snapshot | None = None
    for attempt, parallelism in enumerate(steps, 1):
        harness = SlotHarness(
            graph_of(pipeline, parallelism, groups),
            pipeline.connectors,
            config(random, groups),
            seed=seed + attempt,
            attempt=attempt,
            restore=snapshot,
            store=store,
            commit_chance=commit_chance,
        )
        harness.settle(until=lambda harness=harness: harness.all_ready)
        harness.advance(random.randrange(60 * parallelism))
        harness.checkpoint()
        harness.advance(random.randrange(200))
        snapshot = harness.completed[-1]
    return snapshot, store


def finished(
    pipeline: Pipeline, parallelism: int, groups: int, seed: int, snapshot: Snapshot | None, store: dict[str, bytes]
) -> SlotHarness:
    harness = SlotHarness(
        graph_of(pipeline, parallelism, groups),
        pipeline.connectors,
        config(Random(seed), groups),
        seed=seed,
        attempt=99,
        restore=snapshot,
        store=store,
    )
    harness.finish()
    return harness


@quick
@given(
    seed=st.integers(0, 1 << 32),
    steps=st.lists(st.integers(1, 6), min_size=2, max_size=3),
    groups=st.sampled_from((7, 8, 13)),
    kind=st.sampled_from(PIPELINES),
)
@example(seed=1, steps=[2, 5], groups=8, kind=windowed)
@example(seed=1, steps=[5, 2], groups=7, kind=windowed)
def test_a_job_killed_and_rescaled_again_and_again_publishes_every_row_once(
    seed: int, steps: list[int], groups: int, kind: type
) -> None:
    """T45 T46: no commit is confirmed before the last start, so every checkpoint carries the output of all before it."""
    pipeline = kind(Random(seed))
    *killed, last = steps
    snapshot, store = killed_at(pipeline, killed, groups, seed, commit_chance=0.0)
    assert pipeline.sink.visible == {}
    finished(pipeline, last, groups, seed, snapshot, store)
    assert pipeline.sink.rows() == pipeline.expected


@pytest.mark.parametrize(("before", "after"), [(2, 5), (5, 2)])
def test_the_committer_waits_for_nobody_who_has_nothing(before: int, after: int) -> None:
    """T46: the first checkpoint after the rescale carries all old output, though most new subtasks have none."""
    pipeline = windowed(Random(5))
    groups = 8
    first = SlotHarness(
        graph_of(pipeline, before, groups), pipeline.connectors, config(Random(5), groups), seed=5, commit_chance=0.0
    )
    first.settle(until=lambda: first.all_exhausted)
    snapshot = first.checkpoint()
    owed = sorted(c.payload for one in snapshot.operators for c in one.committables)
    assert owed
    again = SlotHarness(
        graph_of(pipeline, after, groups),
        pipeline.connectors,
        config(Random(6), groups),
        seed=6,
        attempt=2,
        restore=snapshot,
        store=first.store,
        commit_chance=0.0,
    )
    carried = [c for one in again.checkpoint().operators for c in one.committables]
    assert set(owed) <= {c.payload for c in carried}
    assert len({(c.checkpoint, c.subtask, c.number) for c in carried}) == len(carried)
    again.finish()
    assert pipeline.sink.rows() == pipeline.expected


def running(random: Random) -> Pipeline:
    """Totals per key, updated at every change: what counts is the last row of each key."""
    parts = [rows(random, 40, "#1", keys=7) for _ in range(5)]
    source = ScriptedSource([ScriptedSplit(part) for part in parts], batch_rows=6)
    totals = count_and_sum(scan(0, "#1"), ("k#1",), "v#1", number=0, window=None)
    connectors = ScriptedConnectors({SOURCE: source}, {SINK: ScriptedSink()})
    expected = as_rows(grouped(pl.concat(parts), ["k#1"], "v#1"))
    return Pipeline(sink(totals, mode=OutputMode.UPDATE), connectors, expected)


@quick
@given(seed=st.integers(0, 1 << 32), steps=st.lists(st.integers(1, 6), min_size=2, max_size=3))
def test_running_totals_go_on_from_where_they_stood_at_any_parallelism(seed: int, steps: list[int]) -> None:
    """T45: a key whose group moved goes on from its old total, and only its new owner has it."""
    pipeline = running(Random(seed))
    *killed, last = steps
    snapshot, store = killed_at(pipeline, killed, 13, seed, commit_chance=0.7)
    finished(pipeline, last, 13, seed, snapshot, store)
    newest: dict[object, tuple[object, ...]] = {}
    for frame in pipeline.sink.visible.values():
        for key, count, total in frame.rows():
            known = newest.get(key)
            assert known is None or known[1] <= count, "totals only grow"  # type: ignore[operator]
            newest[key] = (key, count, total)
    assert sorted(newest.values(), key=repr) == pipeline.expected


@pytest.mark.parametrize("after", [1, 2, 4, 6])
def test_state_of_finished_subtasks_is_in_every_checkpoint_and_survives_a_rescale(after: int) -> None:
    """T21: one split for four readers, so three source subtasks end at once; windows of all four are open."""
    made = rows(Random(3), 60, "#1", keys=9)
    whole = windowed(Random(3))
    connectors = ScriptedConnectors(
        {SOURCE: ScriptedSource([ScriptedSplit(made)], batch_rows=4)}, {SINK: ScriptedSink()}
    )
    pipeline = Pipeline(whole.plan, connectors, as_rows(grouped(made, ["w#1", "k#1"], "v#1")))
    graph = graph_of(pipeline, 4, 8)
    harness = SlotHarness(graph, connectors, QueryConfig(max_parallelism=8, bounded=True, drain=True), seed=4)
    harness.settle(until=lambda: len(harness.exhausted) == 3)
    snapshot = harness.checkpoint()
    held = {(one.operator, one.subtask) for one in snapshot.operators}
    assert held == {(operator, SlotIndex(slot)) for operator in graph.stateful_ids() for slot in range(4)}
    finished(pipeline, after, 8, 4, snapshot, harness.store)
    assert pipeline.sink.rows() == pipeline.expected


@pytest.mark.parametrize("kind", [*PIPELINES, running])
def test_an_operator_with_an_empty_entry_starts_as_new_beside_others_that_go_on(kind: type) -> None:
    """T48: what recovery gives to an operator that the old query did not have."""
    pipeline = kind(Random(11))
    graph = graph_of(pipeline, 2, 8)
    harness = SlotHarness(graph, pipeline.connectors, config(Random(11), 8), seed=11)
    harness.settle(until=lambda: harness.all_ready)
    harness.advance(100)
    snapshot = harness.checkpoint()
    for operator in graph.stateful_ids():
        others = tuple(one for one in snapshot.operators if one.operator != operator)
        changed = replace(snapshot, operators=(*others, OperatorSnapshot(operator=operator, subtask=SlotIndex(0))))
        again = SlotHarness(
            graph_of(pipeline, 3, 8),
            pipeline.connectors,
            config(Random(11), 8),
            attempt=2,
            restore=changed,
            store=harness.store,
        )
        again.finish()


def test_values_of_finished_subtasks_are_seen_by_every_new_one() -> None:
    """T21: state that is not keyed comes back whole, whoever had it and whether it was still running."""
    old = (
        OperatorSnapshot(operator=NAME, subtask=SlotIndex(0), value=msgspec.msgpack.encode("of the finished one")),
        OperatorSnapshot(operator=NAME, subtask=SlotIndex(1)),
    )
    for parallelism in (1, 2, 3):
        for index in range(parallelism):
            part = restored_for(
                NAME,
                old,
                subtask=SlotIndex(index),
                parallelism=parallelism,
                groups=range_of(index, parallelism, 8),
                load=load,
            )
            assert part.values == (old[0].value,)
