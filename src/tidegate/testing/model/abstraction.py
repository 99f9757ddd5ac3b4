"""What the model forgets about a coordinator's state: clocks and counters that cannot change what is safe."""

from __future__ import annotations

from dataclasses import replace

from tidegate.checkpoint.phases import (
    Active,
    BackingOff,
    Claiming,
    CommittingRestored,
    Deploying,
    Ending,
    Listing,
    LookingFirst,
    New,
    Over,
    Session,
    State,
    Sweeping,
    WritingRestored,
)
from tidegate.checkpoint.restart import NO_RESTARTS
from tidegate.checkpoint.running import Acked, Collecting, Commit, Flight, Looking, Running, Storing, Taken
from tidegate.checkpoint.trigger import Trigger
from tidegate.testing.model.world import NEVER_MS


def timeless(state: State) -> State:
    """The same state at time 0, with its back-off forgotten: worlds that differ only in these are one world."""
    match state:
        case New() | Over():
            return state
        case Claiming() | Listing() | WritingRestored() | LookingFirst():
            at_ms = None if state.retry.at_ms is None else 0
            retry = replace(state.retry, tries=0, at_ms=at_ms)
            return replace(state, session=_session(state.session), retry=retry)
        case CommittingRestored():
            retry = replace(state.retry, tries=1, at_ms=0) if state.pausing else state.retry
            return replace(state, session=_session(state.session), retry=retry)
        case Sweeping() | BackingOff():
            return replace(state, session=_session(state.session))
        case Ending():
            return replace(state, session=_session(state.session), until_ms=None)
        case Deploying() | Active():
            return replace(state, session=_session(state.session), run=_running(state.run))


def _session(session: Session) -> Session:
    return replace(session, restarts=NO_RESTARTS, requests=())


def _running(run: Running) -> Running:
    return replace(
        run,
        restarts=NO_RESTARTS,
        failures_in_a_row=0,
        repeat_at_ms=0,
        # A checkpoint that is due right after a restore stays due; everything else waits for the search.
        trigger=Trigger(0 if run.trigger.due_ms == 0 else NEVER_MS),
        flights=tuple(_flight(one) for one in run.flights),
        commits=tuple(_commit(one) for one in run.commits),
    )


def _flight(flight: Flight) -> Flight:
    match flight:
        case Collecting() | Acked():
            return replace(flight, taken=_taken(flight.taken))
        case Storing() | Looking():
            at_ms = None if flight.retry_at_ms is None else 0
            return replace(flight, taken=_taken(flight.taken), retry_at_ms=at_ms)


def _commit(commit: Commit) -> Commit:
    asked_ms = None if commit.asked_ms is None else 0
    retry_at_ms = None if commit.retry_at_ms is None else 0
    return Commit(_taken(commit.taken), commit.manifest, asked_ms=asked_ms, retry_at_ms=retry_at_ms, left=commit.left)


def _taken(taken: Taken) -> Taken:
    return replace(taken, requests=(), delay_ms=0)
