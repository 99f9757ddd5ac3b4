"""How attempts and coordinators end: answer what is owed, free the slots, then restart, or say the last word."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeAlias

from tidegate.checkpoint import coordinator, restart
from tidegate.checkpoint import effects as ef
from tidegate.checkpoint.effects import Effect
from tidegate.checkpoint.events import Failure
from tidegate.checkpoint.phases import BackingOff, Ending, Over, RestartAt, Session, State
from tidegate.checkpoint.plan import CheckpointPlan
from tidegate.checkpoint.running import Broken, Complete, FencedOut, Running
from tidegate.model.errors import SlotLost, Unavailable
from tidegate.model.ids import Attempt

Step: TypeAlias = tuple[State, tuple[Effect, ...]]


def leave(
    plan: CheckpointPlan,
    session: Session,
    run: Running,
    now_ms: int,
    why: Broken | FencedOut | Complete | ef.Stopped,
) -> Step:
    """End the attempt: answer what is owed, tell the slots to go, wait until they are gone."""
    session = replace(session, requests=tuple(dict.fromkeys((*session.requests, *run.trigger.requests))))
    owed = run.commits[0].manifest.checkpoint if run.commits and isinstance(why, ef.Stopped) else None
    match why:
        case Complete():
            then, reason = ef.Finished(), "all input has been read and committed"
        case ef.Stopped():
            then, reason = why, "stopped"
        case FencedOut(by):
            then, reason = ef.Fenced(by), f"attempt {by} owns the pipeline"
        case Broken(failure):
            reason = failure.message
            match restart.decide(plan.config, session.restarts, failure):
                case restart.Again(delay_ms, restarts):
                    then, session = RestartAt(now_ms + delay_ms), replace(session, restarts=restarts)
                case restart.GiveUp(last):
                    then = ef.Failed(last)
    end = ef.EndAttempt(run.attempt, clean=isinstance(why, Complete), reason=reason)
    return Ending(session, run.attempt, then, owed), (*coordinator.farewell(plan, run, now_ms), end)


def without_slots(plan: CheckpointPlan, session: Session, attempt: Attempt, now_ms: int, failure: Failure) -> Step:
    """The attempt failed before anything was deployed: there are no slots to wait for."""
    match restart.decide(plan.config, session.restarts, failure):
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


def over(outcome: ef.Outcome, session: Session) -> Step:
    return Over(outcome), (*(refuse(token, outcome) for token in session.requests), ef.Finish(outcome))


def refuse(token: str, outcome: ef.Outcome) -> ef.AnswerRequest:
    match outcome:
        case ef.Failed(failure):
            why = failure
        case ef.Finished() | ef.Stopped() | ef.Fenced():
            why = Failure(Unavailable.code, f"the query has ended ({type(outcome).__name__.lower()})", retryable=False)
    return ef.AnswerRequest(token, ef.RequestFailed(why))


def slots_gone(attempt: Attempt) -> Failure:
    return Failure(SlotLost.code, f"the slots of attempt {attempt} ended without being told to")
