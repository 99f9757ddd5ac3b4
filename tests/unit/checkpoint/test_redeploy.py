"""A refresh of static data is a planned restart: from the last complete checkpoint, at once, and no failure."""

from __future__ import annotations

from tests.unit.checkpoint.scenario import ONE, Scenario

from tidegate.checkpoint import effects as ef
from tidegate.checkpoint import events as ev
from tidegate.checkpoint.phases import Active, Over


def redeploy(run: Scenario) -> None:
    run.answer(*run.feed(ev.RedeployRequested(run.now_ms)))
    run.answer(*run.tick())


def test_the_next_attempt_goes_on_from_the_last_complete_checkpoint() -> None:
    run = Scenario().run_up()
    checkpoint = run.complete()
    redeploy(run)
    assert run.last(ef.EndAttempt) == ef.EndAttempt(ONE, clean=False, reason="static data was read again")
    deployed = run.last(ef.Deploy)
    assert deployed.attempt == ONE + 1
    assert deployed.manifest is not None
    assert deployed.manifest.checkpoint == checkpoint
    assert isinstance(run.state, Active)


def test_any_number_of_refreshes_is_no_failure() -> None:
    """Five restarts in a row without a checkpoint would have been too many."""
    run = Scenario().run_up()
    for _ in range(5):
        redeploy(run)
    assert isinstance(run.state, Active)


def test_a_checkpoint_asked_for_before_a_refresh_is_taken_after_it() -> None:
    run = Scenario().run_up()
    run.feed(ev.CheckpointRequested(run.now_ms, "please"))
    redeploy(run)
    run.complete()
    assert [answer.token for answer in run.all(ef.AnswerRequest)] == ["please"]


def test_a_refresh_of_a_query_that_has_ended_changes_nothing() -> None:
    run = Scenario().run_up()
    run.answer(*run.feed(ev.StopRequested(run.now_ms)))
    assert isinstance(run.state, Over)
    assert run.feed(ev.RedeployRequested(run.now_ms)) == ()
