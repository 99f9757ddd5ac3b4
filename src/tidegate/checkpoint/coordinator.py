"""One event of a running attempt. Three concerns run side by side and wait for each other only where the protocol says
so: the checkpoint in flight (``flight``), commits and cleanup of completed ones (``publication``), splits (``sources``)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tidegate.checkpoint import events as ev
from tidegate.checkpoint import flight, publication
from tidegate.checkpoint.effects import AnswerRequest, Effect, RequestFailed, SendToSlots
from tidegate.checkpoint.events import Event, Failure
from tidegate.checkpoint.plan import CheckpointPlan
from tidegate.checkpoint.running import Complete, Running, Turn
from tidegate.checkpoint.sources import SplitAssigner
from tidegate.checkpoint.statistics import FailureReason
from tidegate.model.errors import Unavailable
from tidegate.model.ids import OperatorId
from tidegate.model.messages import SourceExhausted, SplitsWanted, SubtaskAcked, SubtaskDeclined


def advance(plan: CheckpointPlan, run: Running, event: Event) -> Turn:
    """Handle the event, then see whether the attempt is complete or another checkpoint is due."""
    run, effects, leave = _handle(plan, run, event)
    if leave is not None:
        return run, effects, leave
    if run.concluded and not run.commits and not run.cleaning:
        return run, effects, Complete()
    run, more, leave = flight.start_if_due(plan, run, event.now_ms)
    return run, (*effects, *more), leave


def _handle(plan: CheckpointPlan, run: Running, event: Event) -> Turn:
    match event:
        case ev.SlotSaid(now_ms, message) if message.attempt == run.attempt:
            match message:
                case SubtaskAcked():
                    return flight.on_ack(plan, run, now_ms, message)
                case SubtaskDeclined():
                    return flight.on_declined(plan, run, now_ms, message)
                case SplitsWanted():
                    return _assign(_with_source(run, message.operator, lambda source: source.on_wanted(message)))
                case SourceExhausted():
                    return replace(run, exhausted=run.exhausted | {(message.operator, message.slot)}), (), None
        case ev.SplitsDiscovered(_, attempt) if attempt == run.attempt:
            return _assign(discovered(run, event))
        case ev.ClockTicked(now_ms):
            run, effects, leave = flight.on_tick(plan, run, now_ms)
            if leave is not None:
                return run, effects, leave
            run, more, leave = publication.on_tick(run, now_ms)
            return run, (*effects, *more), leave
        case ev.CheckpointRequested(_, token):
            return replace(run, trigger=run.trigger.requested(token)), (), None
        case ev.ManifestStored(now_ms, ref) | ev.ManifestRefused(now_ms, ref, True):
            return _stored(plan, run, now_ms, ref)
        case ev.ManifestUnknown(now_ms, ref) if not plan.rules.unknown_is_unknown:
            return _stored(plan, run, now_ms, ref)
        case ev.ManifestUnknown(now_ms, ref):
            return flight.on_store_unknown(plan, run, now_ms, ref)
        case ev.ManifestRefused(_, ref, False):
            return flight.on_foreign(run, ref)
        case ev.LookAnswered(now_ms, attempt, about, newer) if attempt == run.attempt:
            return publication.on_looked(run, now_ms, about, newer=newer)
        case ev.LookFailed(now_ms, attempt, about) if attempt == run.attempt:
            return flight.on_look_failed(run, now_ms, about)
        case ev.SinksCommitted(now_ms, attempt, checkpoint) if attempt == run.attempt:
            return publication.on_committed(plan, run, now_ms, checkpoint)
        case ev.SinksFailed(now_ms, attempt, checkpoint, failure) if attempt == run.attempt:
            return publication.on_commit_failed(run, now_ms, checkpoint, failure)
        case ev.CleanupDone(_, attempt, undeletable, untried) if attempt == run.attempt:
            return publication.on_cleaned(run, untried, undeletable)
        case (
            # Early, late, repeated, of another attempt, or a matter of the life cycle.
            ev.Started()
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
            | ev.ManifestRefused()
            | ev.CommittedMarked()
            | ev.CleanupDone()
            | ev.SavepointRequested()
            | ev.SavepointExported()
            | ev.SavepointFailed()
            | ev.BacklogSeen()
            | ev.StopRequested()
            | ev.AttemptFailed()
            | ev.SlotsFree()
        ):
            return run, (), None


def farewell(plan: CheckpointPlan, run: Running, now_ms: int) -> tuple[Effect, ...]:
    """What is owed when the attempt ends: reports and answers. Nothing outside is touched, so a fenced one may do it."""
    _, effects, _ = flight.give_up(plan, run, now_ms, FailureReason.ATTEMPT_ENDED)
    reports = tuple(effect for effect in effects if not isinstance(effect, SendToSlots))
    unconfirmed = tuple(
        AnswerRequest(
            token,
            RequestFailed(
                Failure(
                    Unavailable.code,
                    f"checkpoint {one.manifest.checkpoint} is complete, but the attempt ended before its output was visible",
                    hint="the next attempt makes it visible",
                )
            ),
        )
        for one in run.commits
        for token in one.taken.requests
    )
    return (*reports, *unconfirmed)


def discovered(run: Running, event: ev.SplitsDiscovered) -> Running:
    return _with_source(
        run,
        event.operator,
        lambda source: source.on_discovered(event.splits, event.state, bounded=event.bounded, endless=event.endless),
    )


def assign_first(run: Running) -> Turn:
    """The slots are ready: give out what the restore left open and what was discovered meanwhile."""
    return _assign(run)


def _assign(run: Running) -> Turn:
    sources: list[SplitAssigner] = []
    effects: list[Effect] = []
    for source in run.sources:
        assigner, messages = source.assign(run.attempt)
        sources.append(assigner)
        effects.extend(SendToSlots(message, (message.subtask,)) for message in messages)
    return replace(run, sources=tuple(sources)), tuple(effects), None


def _with_source(run: Running, operator: OperatorId, change: Callable[[SplitAssigner], SplitAssigner]) -> Running:
    return replace(
        run, sources=tuple(change(source) if source.operator == operator else source for source in run.sources)
    )


def _stored(plan: CheckpointPlan, run: Running, now_ms: int, ref: ev.ManifestRef) -> Turn:
    run, effects, leave = flight.on_stored(run, ref)
    if not effects or plan.rules.look_before_effects:
        return run, effects, leave
    return publication.on_looked(run, now_ms, ref.checkpoint, newer=False)
