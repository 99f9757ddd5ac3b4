"""How attempts and coordinators end: answer what is owed, free the slots, then restart, or say the last word."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeAlias

from tidegate.checkpoint import coordinator, orders, restart
from tidegate.checkpoint import effects as ef
from tidegate.checkpoint.effects import Effect
from tidegate.checkpoint.events import Afterwards, Failure
from tidegate.checkpoint.phases import BackingOff, Ending, Over, RestartAt, Session, State
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
    asked = [one.manifest.checkpoint for one in run.commits[:1] if one.asked_ms is not None]
    owed = asked[0] if asked and isinstance(why, ef.Stopped) else None
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
    return Ending(session, run.attempt, then, owed), (*coordinator.farewell(plan, run, now_ms), end)


def without_slots(plan: CheckpointPlan, session: Session, attempt: Attempt, now_ms: int, failure: Failure) -> Step:
    """The attempt failed before anything was deployed: there are no slots to wait for."""
    match restart.decide(plan.config, session.restarts, failure, now_ms):
        case restart.Again(delay_ms, restarts):
            return BackingOff(replace(session, restarts=restarts), attempt, now_ms + delay_ms), ()
        case restart.GiveUp(last):
            return over(ef.Failed(last), session)


def ended(state: Ending) -> Step:
    if not state.free or state.owed is not None:
        return state, ()
    match state.then:
        case RestartAt(at_ms):
            return BackingOff(state.session, state.attempt, at_ms), ()
        case ef.Finished() | ef.Stopped() | ef.Failed() | ef.Fenced():
            return over(state.then, state.session)


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
