"""Output that is known to be visible: recorded before a query ends, whatever the store does, and never committed again."""

from __future__ import annotations

import pytest
from tests.unit.checkpoint.scenario import ONE, PLAN, SINK, Scenario, committable, only

from tidegate.checkpoint import effects as ef
from tidegate.checkpoint import events as ev
from tidegate.checkpoint import layout, marking, storing
from tidegate.checkpoint.layout import ManifestRef
from tidegate.checkpoint.phases import Active, CommittingRestored, Deploying, Ending, Over, Sweeping
from tidegate.model.errors import Unavailable
from tidegate.model.ids import Attempt, CheckpointId

TWO = Attempt(2)
FIRST = ManifestRef(CheckpointId(1), ONE)
STOPPED = Over(ef.Stopped())


def died_before_the_marker() -> dict[str, bytes]:
    """A location whose newest checkpoint may have become visible: nothing says so."""
    run = Scenario().run_up()
    run.complete()
    del run.store[layout.committed_key(FIRST)]
    return run.store


def restoring(phase: type) -> Scenario:
    """A start from that location, in this phase; the effects that led there are to be answered."""
    run = Scenario(store=died_before_the_marker(), process="successor")
    effects = list(run.start())
    while not isinstance(run.state, phase):
        waiting = next(one for one in effects if not isinstance(one, ef.MarkCommitted))
        effects.remove(waiting)
        effects += run.feed(run.perform(waiting))  # type: ignore[arg-type]
    return run


def marked(run: Scenario, ref: ManifestRef = FIRST) -> bool:
    return layout.committed_key(ref) in run.store


def test_output_that_a_marker_calls_visible_is_not_committed_again() -> None:
    """B3: whoever set the target back may not want it there, and a target that has forgotten it would call it lost."""
    run = Scenario().run_up()
    run.complete()
    other = run.successor().run_up()
    assert only(other.effects, ef.CommitSinks) == []
    (swept,) = only(other.effects, ef.SweepSinks)
    assert dict(swept.keep)[SINK], "a sweep leaves it alone all the same"


@pytest.mark.parametrize("marker", [True, False])
def test_what_is_visible_is_handed_to_no_slot_and_to_no_later_commit(marker: bool) -> None:
    """A target that is set back while the attempt runs would get it again."""
    store = died_before_the_marker()
    if marker:
        store[layout.committed_key(FIRST)] = b"committed"
    run = Scenario(store=store, process="successor").run_up()
    (deployed,) = run.all(ef.Deploy)
    assert deployed.manifest is not None and deployed.manifest.ref == FIRST
    assert deployed.manifest.committables() == ()
    assert deployed.manifest.written != (), "what the target should remember is handed on"
    assert run.run.base == deployed.manifest
    assert len(run.all(ef.CommitSinks)) == (0 if marker else 1)


def test_the_one_that_no_marker_names_is_committed_and_recorded() -> None:
    run = Scenario(store=died_before_the_marker(), process="successor").run_up()
    (commit,) = run.all(ef.CommitSinks)
    assert dict(commit.committables)[SINK] == (committable(1, 0), committable(1, 1))
    assert marked(run)


def test_stop_waits_for_a_restored_commit_and_for_its_marker() -> None:
    """T77: the target may have forgotten it at the next start."""
    run = restoring(CommittingRestored)
    assert run.feed(ev.StopRequested(run.now_ms)) == ()
    assert isinstance(run.state, Ending)
    (mark,) = run.feed(ev.SinksCommitted(run.now_ms, TWO, CheckpointId(1)))
    assert mark == ef.MarkCommitted(FIRST)
    assert isinstance(run.state, Ending)
    run.answer(mark)
    assert run.state == STOPPED and marked(run)


def test_stop_does_not_wait_for_a_restored_commit_that_fails_or_never_ends() -> None:
    run = restoring(CommittingRestored)
    run.feed(ev.StopRequested(run.now_ms))
    run.feed(ev.SinksFailed(run.now_ms, TWO, CheckpointId(1), ev.Failure("UNAVAILABLE", "no")))
    assert run.state == STOPPED
    run = restoring(CommittingRestored)
    run.feed(ev.StopRequested(run.now_ms))
    run.tick(PLAN.config.commit_timeout_ms - 1)
    assert isinstance(run.state, Ending)
    run.tick(1)
    assert run.state == STOPPED


@pytest.mark.parametrize("phase", [Sweeping, Deploying, Active])
def test_stop_waits_for_the_marker_of_a_restored_commit(phase: type) -> None:
    run = restoring(phase)
    assert not marked(run)
    run.feed(ev.StopRequested(run.now_ms))
    run.feed(ev.SlotsFree(run.now_ms, TWO))
    assert isinstance(run.state, Ending)
    run.answer(ef.MarkCommitted(FIRST))
    assert run.state == STOPPED and marked(run)


@pytest.mark.parametrize("phase", [Sweeping, Deploying, Active])
def test_a_marker_that_came_through_before_is_not_waited_for(phase: type) -> None:
    run = restoring(phase)
    run.answer(ef.MarkCommitted(FIRST))
    run.feed(ev.StopRequested(run.now_ms))
    run.feed(ev.SlotsFree(run.now_ms, TWO))
    assert run.state == STOPPED


@pytest.mark.parametrize("stopping", [True, False])
@pytest.mark.parametrize("phase", [Sweeping, Deploying, Active])
def test_a_marker_that_the_store_does_not_take_is_written_again(phase: type, stopping: bool) -> None:
    run = restoring(phase)
    if stopping:
        run.feed(ev.StopRequested(run.now_ms), ev.SlotsFree(run.now_ms, TWO))
    run.feed(ev.MarkUnknown(run.now_ms, FIRST))
    assert only(run.tick(marking.RETRY_DELAY_MS - 1), ef.MarkCommitted) == []
    (again,) = only(run.tick(1), ef.MarkCommitted)
    assert only(run.tick(marking.RETRY_DELAY_MS), ef.MarkCommitted) == [], "it is being written"
    run.answer(again)
    assert marked(run) and only(run.tick(marking.RETRY_DELAY_MS), ef.MarkCommitted) == []
    assert (run.state == STOPPED) is stopping


def test_a_stop_gives_up_on_a_store_that_takes_no_marker() -> None:
    run = restoring(Sweeping)
    run.feed(ev.StopRequested(run.now_ms))
    until_ms = run.now_ms + marking.PATIENCE_MS
    while isinstance(run.state, Ending):
        assert run.now_ms < until_ms
        run.feed(ev.MarkUnknown(run.now_ms, FIRST))
        run.tick(marking.RETRY_DELAY_MS)
    assert run.state == STOPPED and run.now_ms == until_ms


def test_a_stop_while_an_attempt_ends_waits_for_the_marker_and_a_restart_does_not() -> None:
    run = restoring(Active)
    run.fail()
    run.feed(ev.StopRequested(run.now_ms), ev.SlotsFree(run.now_ms, TWO))
    assert isinstance(run.state, Ending)
    run.answer(ef.MarkCommitted(FIRST))
    assert run.state == STOPPED
    run = restoring(Active)
    run.restart()
    assert run.run.attempt == 3


def test_only_the_newest_marker_is_written_again() -> None:
    """It covers those before it, and their checkpoints may be deleted by then."""
    run = Scenario().run_up()
    run.complete()
    (mark,) = run.all(ef.MarkCommitted)
    run.feed(ev.MarkUnknown(run.now_ms, mark.ref))
    assert run.run.marking is None, "it had come through"
    first, newer = run.complete(), run.complete()
    run.feed(ev.MarkUnknown(run.now_ms, ManifestRef(first, ONE)))
    assert newer > first and run.run.marking is None


class Moody(dict[str, bytes]):
    """A store that does not take the first object."""

    refusals = 1

    def create(self, key: str, data: bytes) -> object:
        if self.refusals:
            self.refusals -= 1
            raise Unavailable("try again")
        self[key] = data
        return None


def test_a_store_that_does_not_take_a_marker_is_not_said_to_have_taken_it() -> None:
    store = Moody()
    asked = ef.MarkCommitted(FIRST)
    assert storing.perform(PLAN, asked, store, lambda: 7) == ev.MarkUnknown(7, FIRST)  # type: ignore[arg-type]
    assert storing.perform(PLAN, asked, store, lambda: 8) == ev.CommittedMarked(8, FIRST)  # type: ignore[arg-type]
    assert layout.committed_key(FIRST) in store
