"""What may block runs off the loop: every outcome is posted, whatever a sink or a store does, and the lane goes on."""

from __future__ import annotations

import queue
from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.checkpoint.scenario import ONE, PLAN, SINK, committable

from tidegate.checkpoint import effects as fx
from tidegate.checkpoint.events import ClaimWritten, Event, SinksCommitted, SinksFailed, SinksSwept
from tidegate.model.batch_ids import BatchIds, Numbering
from tidegate.model.errors import InvalidQuery, Unavailable
from tidegate.model.ids import Attempt, BatchId, CheckpointId, OperatorId
from tidegate.model.snapshot import Committable, HandedBack
from tidegate.ports.sink import SinkCommitter
from tidegate.spark.outside import LaneFailed, Outside
from tidegate.storage.local import LocalBlobStore

COMMIT = fx.CommitSinks(ONE, CheckpointId(1), ((SINK, (committable(1, 0), committable(1, 1))),))
SWEEP = fx.SweepSinks(ONE, ONE, ())


class Moody(SinkCommitter):
    """A sink whose next call lands and then raises."""

    def __init__(self) -> None:
        self.raises: Exception | None = None
        self.visible: list[Committable] = []

    def commit(self, committables: tuple[Committable, ...]) -> HandedBack | None:
        self.visible += [one for one in committables if one not in self.visible]
        self._raise()

    def sweep(self, older_than: Attempt, keep: tuple[Committable, ...]) -> None:
        self._raise()

    def _raise(self) -> None:
        raises, self.raises = self.raises, None
        if raises is not None:
            raise raises


class Partial(Moody):
    """Makes one visible and hands back the others."""

    def commit(self, committables: tuple[Committable, ...]) -> HandedBack:
        super().commit(committables[:1])
        return HandedBack(committables[1:], Unavailable("not yet"))


class Counting(Moody):
    """Its code of the user counts batches."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[BatchIds] = []

    def number_batches(self, ids: BatchIds) -> None:
        self.told.append(ids)


class World:
    def __init__(self, directory: Path) -> None:
        self.sink = Moody()
        self.posted: queue.SimpleQueue[Event | LaneFailed] = queue.SimpleQueue()
        store = LocalBlobStore(directory)
        self.outside = Outside(PLAN, store, {SINK: self.sink}, self.posted.put, name="q", description="")

    def after(self, effect: fx.CommitSinks | fx.SweepSinks | fx.WriteClaim) -> Event | LaneFailed:
        self.outside.perform(effect)
        return self.posted.get(timeout=10)


@pytest.fixture
def world(tmp_path: Path):
    world = World(tmp_path)
    yield world
    world.outside.stop()


def test_a_commit_that_landed_and_raised_is_reported_as_failed_and_its_repetition_as_done(world: World) -> None:
    """T3: nobody knows what a call that raised has done, so the same committables are offered again, by name."""
    world.sink.raises = ConnectionResetError("gone after the commit")
    failed = world.after(COMMIT)
    assert isinstance(failed, SinksFailed)
    assert failed.failure.retryable
    assert "gone after the commit" in failed.failure.message
    assert isinstance(world.after(COMMIT), SinksCommitted)
    assert world.sink.visible == [committable(1, 0), committable(1, 1)]


def test_a_sink_hands_back_and_another_one_is_asked_all_the_same(tmp_path: Path) -> None:
    """T3: a sink that raises, one that hands back and one that is done, in one pipeline."""
    world = World(tmp_path)
    world.outside.stop()
    raising, partial, done = Moody(), Partial(), Moody()
    raising.raises = ConnectionResetError("gone")
    sinks = {OperatorId(name): sink for name, sink in (("a", raising), ("b", partial), ("c", done))}
    world.outside = Outside(PLAN, LocalBlobStore(tmp_path), sinks, world.posted.put, name="q", description="")
    both = COMMIT.committables[0][1]
    failed = world.after(replace(COMMIT, committables=tuple((sink, both) for sink in sinks)))
    assert isinstance(failed, SinksFailed)
    assert failed.left == (("a", both), ("b", both[1:]))
    assert "gone" in failed.failure.message and "not yet" in failed.failure.message
    assert done.visible == list(both)
    world.outside.stop()


def test_what_repeating_cannot_mend_is_said_to_be_so(world: World) -> None:
    world.sink.raises = InvalidQuery("no such table")
    failed = world.after(COMMIT)
    assert isinstance(failed, SinksFailed)
    assert failed.failure.code == InvalidQuery.code


def test_a_sink_that_counts_batches_is_told_their_ids_before_each_commit_and_sweep(tmp_path: Path) -> None:
    """T76: its own, and where it begins when nobody has numbered it."""
    world = World(tmp_path)
    world.outside.stop()
    sink = Counting()
    world.outside = Outside(PLAN, LocalBlobStore(tmp_path), {SINK: sink}, world.posted.put, name="q", description="")
    ids = BatchIds(SINK, BatchId(5), ((CheckpointId(1), BatchId(4)),))
    assert isinstance(world.after(replace(COMMIT, numbering=Numbering(sinks=(ids,)))), SinksCommitted)
    assert isinstance(world.after(replace(SWEEP, numbering=Numbering(floor=BatchId(7)))), SinksSwept)
    assert sink.told == [ids, BatchIds(SINK, BatchId(7))]
    world.outside.stop()


def test_a_sweep_that_fails_is_a_problem_and_no_failure(world: World) -> None:
    world.sink.raises = OSError("denied")
    swept = world.after(SWEEP)
    assert isinstance(swept, SinksSwept)
    assert swept.problems == (f"{SINK}: OSError: denied",)


def test_work_that_raises_what_it_should_have_reported_is_posted_and_its_lane_lives_on(world: World) -> None:
    """T61: an error is never swallowed, and no thread dies of it."""
    broken = fx.StoreManifest(None)  # type: ignore[arg-type]
    world.outside.perform(broken)
    assert isinstance(world.posted.get(timeout=10), LaneFailed)
    assert isinstance(world.after(fx.WriteClaim(ONE, "process")), ClaimWritten)
