"""How attempts and coordinators end: answer what is owed, free the slots, then restart, or say the last word."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeAlias

from tidegate.checkpoint import coordinator, marking, orders, restart
from tidegate.checkpoint import effects as ef
from tidegate.checkpoint.effects import Effect
from tidegate.checkpoint.events import Afterwards, Failure
from tidegate.checkpoint.layout import ManifestRef
from tidegate.checkpoint.marking import Marking
from tidegate.checkpoint.phases import (
    BackingOff,
    CommittingRestored,
    Ending,
    Over,
    Recovering,
    RestartAt,
    Session,
    State,
    Sweeping,
)
from tidegate.checkpoint.plan import CheckpointPlan
from tidegate.checkpoint.running import Broken, Complete, FencedOut, Redeployed, Running, Suspended
from tidegate.model.errors import SlotLost, Unavailable
from tidegate.model.ids import Attempt, CheckpointId

Step: TypeAlias = tuple[State, tuple[Effect, ...]]


def leave(
    plan: CheckpointPlan,
    session: Session,
    run: Running,
    now_ms: int,
    why: Broken | FencedOut | Complete | Suspended | Redeployed | ef.Stopped,
) -> Step:
    """End the attempt: answer what is owed, tell the slots to go, wait until they are gone."""
    unanswered = run.orders if run.orders.waiting else session.orders
    requests = tuple(dict.fromkeys((*session.requests, *run.trigger.requests)))
    session = replace(session, requests=requests, orders=unanswered.carried())
    # Only a commit that is under way is worth waiting for: one that pauses between two tries would never answer.
    asked = [one.manifest.ref for one in run.commits[:1] if one.asked_ms is not None]
    owed = asked[0] if asked and isinstance(why, ef.Stopped) else None
    recording = None if isinstance(why, FencedOut) else run.marking
    match why:
        case Complete():
            then, reason = ef.Finished(), "all input has been read and committed"
        case ef.Stopped():
            then, reason = why, "stopped"
        case Suspended():
            then, reason = ef.Stopped(), "stopped with a savepoint"
        case Redeployed():
            then, reason = RestartAt(now_ms), "static data was read again"
        case FencedOut(by):
            then, reason = ef.Fenced(by), f"attempt {by} owns the pipeline"
        case Broken(failure):
            reason = failure.message
            match restart.decide(plan.config, session.restarts, failure, now_ms):
                case restart.Again(delay_ms, restarts):
                    then, session = RestartAt(now_ms + delay_ms), replace(session, restarts=restarts)
                case restart.GiveUp(last):
                    then = ef.Failed(last)
    end = ef.EndAttempt(run.attempt, clean=isinstance(why, Complete), reason=reason)
    left = Ending(session, run.attempt, then, owed, recording, until_ms=_until_ms(plan, now_ms, owed, recording))
    return left, (*coordinator.farewell(plan, run, now_ms), end)


def without_slots(plan: CheckpointPlan, session: Session, attempt: Attempt, now_ms: int, failure: Failure) -> Step:
    """The attempt failed before anything was deployed: there are no slots to wait for."""
    match restart.decide(plan.config, session.restarts, failure, now_ms):
        case restart.Again(delay_ms, restarts):
            return BackingOff(replace(session, restarts=restarts), attempt, now_ms + delay_ms), ()
        case restart.GiveUp(last):
            return over(ef.Failed(last), session)


def undeployed(
    plan: CheckpointPlan, state: Recovering | BackingOff, now_ms: int, outcome: ef.Stopped | ef.Finished
) -> Step:
    """Nothing is deployed any more. Waits until output that was restored is visible, and until that is recorded."""
    owed: ManifestRef | None = None
    recording: Marking | None = None
    if isinstance(state, CommittingRestored) and state.choice.manifest is not None and not state.pausing:
        owed = state.choice.manifest.ref
    if isinstance(state, Sweeping):
        recording = state.marking
    until_ms = _until_ms(plan, now_ms, owed, recording)
    return ended(Ending(state.session, state.attempt, outcome, owed, recording, free=True, until_ms=until_ms))


def committed(state: Ending, now_ms: int, checkpoint: CheckpointId) -> Step:
    """The commit that was waited for is done. That is recorded before the query ends: its target may forget it."""
    if state.owed is None or state.owed.checkpoint != checkpoint:
        return state, ()
    recording, mark = marking.begin(state.owed)
    return replace(state, owed=None, marking=recording, until_ms=now_ms + marking.PATIENCE_MS), mark


def uncommitted(state: Ending, checkpoint: CheckpointId) -> Step:
    """The commit that was waited for has failed: the next start repeats it from the manifest."""
    if state.owed is None or state.owed.checkpoint != checkpoint:
        return state, ()
    return ended(replace(state, owed=None))


def on_tick(state: Ending, now_ms: int) -> Step:
    """The marker that the store did not take is written again; nothing is waited for longer than is good."""
    if state.until_ms is not None and now_ms >= state.until_ms:
        return ended(replace(state, owed=None, marking=None, until_ms=None))
    recording, mark = marking.on_tick(state.marking, now_ms)
    return replace(state, marking=recording), mark


def ended(state: Ending) -> Step:
    match state.then:
        case RestartAt(at_ms) if state.free:
            # The next attempt finds out by itself what has become visible.
            return BackingOff(state.session, state.attempt, at_ms), ()
        case ef.Finished() | ef.Stopped() | ef.Failed() | ef.Fenced() if (
            state.free and state.owed is None and state.marking is None
        ):
            return over(state.then, state.session)
        case _:
            return state, ()


def _until_ms(plan: CheckpointPlan, now_ms: int, owed: ManifestRef | None, recording: Marking | None) -> int | None:
    if owed is not None:
        return now_ms + plan.config.commit_timeout_ms
    return None if recording is None else now_ms + marking.PATIENCE_MS


def exported(state: Ending, checkpoint: CheckpointId, target: str) -> Step:
    """The export outlived its attempt: the savepoint stands, so it is not taken again."""
    waiting = state.session.orders
    order = waiting.exported(checkpoint, target)
    if order is None:
        return state, ()
    state = replace(state, session=replace(state.session, orders=waiting.answered()))
    match state.then, order.afterwards:
        case RestartAt(), Afterwards.SUSPEND:
            state = replace(state, then=ef.Stopped())
        case RestartAt(), Afterwards.DRAIN:
            state = replace(state, then=ef.Finished())
        case _:
            pass
    return state, (orders.done(order, checkpoint),)


def over(outcome: ef.Outcome, session: Session) -> Step:
    asked = (*session.requests, *(order.token for order in session.orders.waiting))
    return Over(outcome), (*(refuse(token, outcome) for token in asked), ef.Finish(outcome))


def refuse(token: str, outcome: ef.Outcome) -> ef.AnswerRequest:
    match outcome:
        case ef.Failed(failure):
            why = failure
        case ef.Finished() | ef.Stopped() | ef.Fenced():
            why = Failure(Unavailable.code, f"the query has ended ({type(outcome).__name__.lower()})", retryable=False)
    return ef.AnswerRequest(token, ef.RequestFailed(why))


def slots_gone(attempt: Attempt) -> Failure:
    return Failure(SlotLost.code, f"the slots of attempt {attempt} ended without being told to")
