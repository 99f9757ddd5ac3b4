"""The life of one pipeline's coordinator; ``step`` is the only door. Claim → list → choose → write ``restored`` → look →
commit and sweep → deploy → run → end, and again after a failure. Replaying the events replays the run."""

from __future__ import annotations

from dataclasses import replace

from tidegate.checkpoint import coordinator, ending, marking, recovering, remembered, trigger
from tidegate.checkpoint import effects as ef
from tidegate.checkpoint import events as ev
from tidegate.checkpoint.ending import Step
from tidegate.checkpoint.events import Event
from tidegate.checkpoint.manifest import Manifest
from tidegate.checkpoint.orders import NO_ORDERS
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
    RestartAt,
    Session,
    State,
    Sweeping,
    WritingRestored,
)
from tidegate.checkpoint.plan import CheckpointPlan
from tidegate.checkpoint.recovery import Choice, Refusal, choose
from tidegate.checkpoint.running import Broken, Redeployed, Running, Turn
from tidegate.model.ids import Attempt


def step(plan: CheckpointPlan, state: State, event: Event) -> Step:
    """Advance the pipeline by one event. The same events give the same states and effects, in any process."""
    match state, event:
        case New(), ev.Started(_, process, newest_claim, accept_duplicates):
            session = Session(process, accept_duplicates=accept_duplicates)
            return recovering.claim(session, Attempt(newest_claim + 1), automatic=False)

        case Claiming(session, attempt), ev.ClaimWritten(_, of) if of == attempt:
            return Listing(session, attempt), (recovering.list_location(session, attempt),)
        case Claiming(session, attempt, automatic), ev.ClaimRefused(_, of, process) if of == attempt:
            if process == session.process:
                return Listing(session, attempt), (recovering.list_location(session, attempt),)
            if automatic and plan.rules.no_ping_pong:
                # Somebody else took over while we restarted. Fencing him back would go on for ever.
                return ending.over(ef.Fenced(attempt), session)
            return recovering.claim(session, Attempt(attempt + 1), automatic=automatic)
        case Claiming(), ev.ClaimUnknown(now_ms, of, failure) if of == state.attempt:
            return recovering.retry_later(plan, state, now_ms, "the claim", failure)

        case Listing(session, attempt), ev.LocationListed(_, of, facts) if of == attempt:
            if session.accept_duplicates and remembered.newest_attempt(facts) >= attempt:
                return recovering.claim(session, Attempt(attempt + 1), automatic=False)
            match choose(plan, attempt, facts, accept_duplicates=session.accept_duplicates):
                case Refusal() as refusal:
                    return LookingFirst(session, attempt, refusal), (ef.LookForClaim(attempt, None),)
                case Choice() as choice:
                    chosen = WritingRestored(replace(session, compared=True), attempt, choice)
                    return chosen, (recovering.write_restored(chosen),)
        case Listing(), ev.ListingFailed(now_ms, of, failure) if of == state.attempt:
            return recovering.retry_later(plan, state, now_ms, "the listing of the location", failure)

        case WritingRestored(), ev.RestoredWritten(now_ms, of) if of == state.attempt:
            return recovering.restored_stands(plan, state, now_ms)
        case WritingRestored(session, _, choice), ev.RestoredRefused(now_ms, of, holds) if of == state.attempt:
            if holds == recovering.document(of, choice):
                return recovering.restored_stands(plan, state, now_ms)
            return ending.over(ef.Failed(recovering.foreign_restored(of)), session)
        case WritingRestored(), ev.RestoredUnknown(now_ms, of, failure) if of == state.attempt:
            if not plan.rules.unknown_is_unknown:
                return recovering.restored_stands(plan, state, now_ms)
            return recovering.retry_later(plan, state, now_ms, "what the attempt restores", failure)

        case LookingFirst(session, attempt, decision), ev.LookAnswered(now_ms, of, None, newer) if of == attempt:
            if newer:
                return ending.over(ef.Fenced(Attempt(attempt + 1)), session)
            if isinstance(decision, Refusal):
                return ending.over(ef.Failed(decision.failure), session)
            return recovering.act(plan, session, attempt, decision, now_ms)
        case LookingFirst(), ev.LookFailed(now_ms, of, None, failure) if of == state.attempt:
            return recovering.retry_later(plan, state, now_ms, "the look for a newer claim", failure)

        case CommittingRestored(session, attempt, Choice(manifest) as choice), ev.SinksCommitted(_, of, checkpoint) if (
            of == attempt and manifest is not None and manifest.checkpoint == checkpoint
        ):
            return recovering.restored_visible(plan, session, attempt, choice, manifest)
        case CommittingRestored(_, attempt, Choice(Manifest() as manifest)), ev.SinksFailed(_, of) if of == attempt:
            return recovering.restored_not_visible(plan, state, manifest, event)
        case CommittingRestored(_, _, Choice(Manifest() as manifest), retry), ev.ClockTicked(now_ms) if (
            retry.at_ms is not None and now_ms >= retry.at_ms
        ):
            return recovering.commit_restored(plan, state, manifest, now_ms)
        case Sweeping(), ev.SinksSwept(now_ms, of) if of == state.attempt:
            return recovering.swept(plan, replace(state, swept=True), now_ms)
        case Sweeping(), ev.CleanupDone(now_ms, of) if of == state.attempt:
            return recovering.swept(plan, replace(state, cleaned=True), now_ms)
        case Sweeping(), ev.CommittedMarked(_, ref):
            return replace(state, marking=marking.on_marked(state.marking, ref)), ()
        case (Sweeping() | Ending()) as held, ev.MarkUnknown(now_ms, ref):
            return replace(held, marking=marking.on_unmarked(held.marking, ref, now_ms)), ()
        case Sweeping(), ev.ClockTicked(now_ms):
            recording, mark = marking.on_tick(state.marking, now_ms)
            return replace(state, marking=recording), mark

        case Deploying(session, run), ev.SplitsDiscovered(_, of) if of == run.attempt:
            return Deploying(session, coordinator.discovered(plan, run, event)), ()
        case Deploying(session, run), ev.CommittedMarked() | ev.MarkUnknown() | ev.ClockTicked():
            run, effects = coordinator.marked(run, event)
            return Deploying(session, run), effects
        case Deploying(session, run), ev.SlotsReady(now_ms, of) if of == run.attempt:
            return _begin(plan, session, run, now_ms)
        case Deploying(session, run) | Active(session, run), ev.AttemptFailed(now_ms, of, failure) if of == run.attempt:
            return ending.leave(plan, session, run, now_ms, Broken(failure))
        # The stage returned though nobody told it to.
        case Deploying(session, run) | Active(session, run), ev.SlotsFree(now_ms, of) if of == run.attempt:
            ended, effects = ending.leave(plan, session, run, now_ms, Broken(ending.slots_gone(of)))
            ended, more = step(plan, ended, event)
            return ended, (*effects, *more)
        case Deploying(session, run) | Active(session, run), ev.StopRequested(now_ms):
            return ending.leave(plan, session, run, now_ms, ef.Stopped())
        case Deploying(session, run) | Active(session, run), ev.RedeployRequested(now_ms):
            return ending.leave(plan, session, run, now_ms, Redeployed())
        case Active(session, run), _:
            return _turned(plan, session, event.now_ms, coordinator.advance(plan, run, event))

        case Ending(_, attempt), ev.SlotsFree(_, of) if of == attempt:
            return ending.ended(replace(state, free=True))
        case Ending(_, attempt), ev.SinksCommitted(now_ms, of, checkpoint) if of == attempt:
            return ending.committed(state, now_ms, checkpoint)
        case Ending(), ev.CommittedMarked(_, ref):
            return ending.ended(replace(state, marking=marking.on_marked(state.marking, ref)))
        case Ending(_, attempt), ev.SinksFailed(_, of, checkpoint) if of == attempt:
            return ending.uncommitted(state, checkpoint)
        case Ending(), ev.ClockTicked(now_ms):
            return ending.on_tick(state, now_ms)
        case Ending(_, attempt), ev.SavepointExported(_, of, checkpoint, target) if of == attempt:
            return ending.exported(state, checkpoint, target)
        case Ending(_, _, RestartAt()), ev.StopRequested():
            return ending.ended(replace(state, then=ef.Stopped()))
        case BackingOff(session, attempt, until_ms), ev.ClockTicked(now_ms) if now_ms >= until_ms:
            return recovering.claim(session, Attempt(attempt + 1), automatic=True)

        case (
            Claiming()
            | Listing()
            | WritingRestored()
            | LookingFirst()
            | CommittingRestored()
            | Sweeping()
            | BackingOff(),
            ev.StopRequested(now_ms),
        ):
            return ending.undeployed(plan, state, now_ms, ef.Stopped())
        case (
            (Claiming() | Listing() | WritingRestored() | LookingFirst()) as waiting,
            ev.ClockTicked(now_ms),
        ) if waiting.retry.at_ms is not None and now_ms >= waiting.retry.at_ms:
            return replace(waiting, retry=replace(waiting.retry, at_ms=None)), (recovering.outstanding(waiting),)
        case Over(outcome), (ev.CheckpointRequested(_, token) | ev.SavepointRequested(_, token)):
            return state, (ending.refuse(token, outcome),)
        case (
            Claiming()
            | Listing()
            | WritingRestored()
            | LookingFirst()
            | CommittingRestored()
            | Sweeping()
            | Deploying()
            | Ending()
            | BackingOff() as held,
            ev.CheckpointRequested() | ev.SavepointRequested() as asked,
        ):
            return replace(held, session=held.session.asked(asked)), ()

        case _, (
            # Early, late or repeated: delivery is at-least-once.
            ev.Started()
            | ev.ClockTicked()
            | ev.ClaimWritten()
            | ev.ClaimRefused()
            | ev.ClaimUnknown()
            | ev.LocationListed()
            | ev.ListingFailed()
            | ev.RestoredWritten()
            | ev.RestoredRefused()
            | ev.RestoredUnknown()
            | ev.LookAnswered()
            | ev.LookFailed()
            | ev.SinksCommitted()
            | ev.SinksFailed()
            | ev.SinksSwept()
            | ev.SlotsReady()
            | ev.SlotSaid()
            | ev.SplitsDiscovered()
            | ev.ManifestStored()
            | ev.ManifestRefused()
            | ev.ManifestUnknown()
            | ev.CommittedMarked()
            | ev.MarkUnknown()
            | ev.CleanupDone()
            | ev.CheckpointRequested()
            | ev.SavepointRequested()
            | ev.SavepointExported()
            | ev.SavepointFailed()
            | ev.BacklogSeen()
            | ev.StopRequested()
            | ev.RedeployRequested()
            | ev.AttemptFailed()
            | ev.SlotsFree()
        ):
            return state, ()


# --- deploy and run --------------------------------------------------------------------------------------------------


def _begin(plan: CheckpointPlan, session: Session, run: Running, now_ms: int) -> Step:
    first = trigger.at_start(
        now_ms, plan.config.checkpoint_interval_ms, session.requests, restored=run.base is not None
    )
    repeat_at_ms = now_ms + plan.config.message_repeat_ms
    orders = session.orders.restored(run.base.ref if run.base is not None else None)
    run, assigned, _ = coordinator.begin(replace(run, trigger=first, repeat_at_ms=repeat_at_ms, orders=orders), now_ms)
    session = replace(session, requests=(), orders=NO_ORDERS)
    state, effects = _turned(plan, session, now_ms, coordinator.advance(plan, run, ev.ClockTicked(now_ms)))
    return state, (*assigned, *effects)


def _turned(plan: CheckpointPlan, session: Session, now_ms: int, turn: Turn) -> Step:
    run, effects, leave = turn
    session = replace(session, restarts=run.restarts, next_checkpoint=run.next_checkpoint)
    if leave is None:
        return Active(session, run), effects
    state, more = ending.leave(plan, session, run, now_ms, leave)
    return state, (*effects, *more)
