"""One event of a running attempt. Its concerns run side by side and wait for each other only where the protocol says so:
checkpoints in flight (``flight``), their completion (``publication``), commits (``committing``), ``cleanup``, savepoints
(``orders``), splits (``sources``), lost messages (``repeats``)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tidegate.checkpoint import cleanup, committing, flight, granting, marking, publication, repeats
from tidegate.checkpoint import events as ev
from tidegate.checkpoint.effects import AnswerRequest, Effect, RequestFailed, SendToSlots
from tidegate.checkpoint.events import Event, Failure
from tidegate.checkpoint.plan import CheckpointPlan
from tidegate.checkpoint.running import Complete, Running, Turn
from tidegate.checkpoint.sources import SplitAssigner
from tidegate.checkpoint.statistics import FailureReason
from tidegate.checkpoint.trigger import interval_ms
from tidegate.model.errors import Unavailable
from tidegate.model.ids import OperatorId
from tidegate.model.messages import SourceExhausted, SourceTime, SplitsWanted, SubtaskAcked, SubtaskDeclined


def advance(plan: CheckpointPlan, run: Running, event: Event) -> Turn:
    """Handle the event, then see which manifest can be stored, whether the attempt is complete, what is due."""
    run, effects, leave = _handle(plan, run, event)
    if leave is not None:
        return run, effects, leave
    run, stored, leave = flight.store_if_ready(plan, run, event.now_ms)
    effects = (*effects, *stored)
    if leave is not None:
        return run, effects, leave
    if run.concluded and not run.commits and not run.cleaning and not run.orders.waiting:
        return run, effects, Complete()
    if not run.flights:
        orders, drain = run.orders.drain(run.attempt)
        run, effects = replace(run, orders=orders), (*effects, *drain)
    run, more, leave = flight.start_if_due(plan, run, event.now_ms)
    return run, (*effects, *more), leave


def _handle(plan: CheckpointPlan, run: Running, event: Event) -> Turn:
    match event:
        case ev.SlotSaid(now_ms, message) if message.attempt == run.attempt:
            match message:
                case SubtaskAcked():
                    return flight.on_ack(plan, run, message)
                case SubtaskDeclined():
                    return flight.on_declined(plan, run, now_ms, message)
                case SplitsWanted():
                    before = run.sources
                    run = _granted(plan, _with_source(run, message.operator, lambda source: source.on_wanted(message)))
                    missed = repeats.on_wanted(run, message)
                    alone = [_stands(one) for one in before] == [_stands(one) for one in run.sources]
                    run, effects, leave = _assign(run, now_ms, message if alone else None)
                    return run, (*missed, *effects), leave
                case SourceTime():
                    run = _granted(plan, _with_source(run, message.operator, lambda source: source.on_time(message)))
                    return _assign(run, now_ms)
                case SourceExhausted():
                    # Said again and again: only the first time is news.
                    reader = (message.operator, message.slot)
                    known = reader in run.exhausted
                    return run if known else replace(run, exhausted=run.exhausted | {reader}), (), None
        case ev.SplitsDiscovered(now_ms, attempt) if attempt == run.attempt:
            return _assign(discovered(plan, run, event), now_ms)
        case ev.ClockTicked(now_ms):
            run, effects, leave = flight.on_tick(plan, run, now_ms)
            if leave is not None:
                return run, effects, leave
            run, more, leave = committing.on_tick(plan, run, now_ms)
            if leave is not None:
                return run, (*effects, *more), leave
            run, mark = marked(run, event)
            run, again, leave = repeats.on_tick(plan, run, now_ms)
            if leave is not None or not any(source.tells_time(now_ms) for source in run.sources):
                return run, (*effects, *more, *mark, *again), leave
            run, told, leave = _assign(run, now_ms)
            return run, (*effects, *more, *mark, *again, *told), leave
        case ev.BacklogSeen(_, attempt, far_behind) if attempt == run.attempt:
            return _repaced(plan, run, far_behind=far_behind), (), None
        case ev.CheckpointRequested(_, token):
            return replace(run, trigger=run.trigger.requested(token)), (), None
        case ev.SavepointRequested():
            return publication.export_next(replace(run, orders=run.orders.requested(event)))
        case ev.SavepointExported(_, attempt, checkpoint, target) if attempt == run.attempt:
            return publication.on_exported(run, checkpoint, target, None)
        case ev.SavepointFailed(_, attempt, checkpoint, target, failure) if attempt == run.attempt:
            return publication.on_exported(run, checkpoint, target, failure)
        case ev.ManifestStored(now_ms, ref) | ev.ManifestRefused(now_ms, ref, True):
            return _stored(plan, run, now_ms, ref)
        case ev.ManifestUnknown(now_ms, ref) if not plan.rules.unknown_is_unknown:
            return _stored(plan, run, now_ms, ref)
        case ev.ManifestUnknown(now_ms, ref, failure):
            return flight.on_store_unknown(plan, run, now_ms, ref, failure)
        case ev.ManifestRefused(_, ref, False):
            return flight.on_foreign(run, ref)
        case ev.LookAnswered(now_ms, attempt, about, newer) if attempt == run.attempt:
            return publication.on_looked(plan, run, now_ms, about, newer=newer)
        case ev.LookFailed(now_ms, attempt, about, failure) if attempt == run.attempt:
            return flight.on_look_failed(run, now_ms, about, failure)
        case ev.SinksCommitted(now_ms, attempt, checkpoint) if attempt == run.attempt:
            return committing.on_committed(plan, run, now_ms, checkpoint)
        case ev.SinksFailed(now_ms, attempt, checkpoint, failure, left) if attempt == run.attempt:
            return committing.on_failed(plan, run, now_ms, checkpoint, failure, left)
        case ev.CommittedMarked() | ev.MarkUnknown():
            run, effects = marked(run, event)
            return run, effects, None
        case ev.CleanupDone(_, attempt, undeletable, untried) if attempt == run.attempt:
            return cleanup.on_done(run, untried, undeletable)
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
            | ev.CleanupDone()
            | ev.SavepointExported()
            | ev.SavepointFailed()
            | ev.BacklogSeen()
            | ev.StopRequested()
            | ev.RedeployRequested()
            | ev.AttemptFailed()
            | ev.SlotsFree()
        ):
            return run, (), None


def farewell(plan: CheckpointPlan, run: Running, now_ms: int) -> tuple[Effect, ...]:
    """What is owed when the attempt ends: reports and answers. Nothing outside is touched, so a fenced one may do it."""
    reports = tuple(
        effect
        for one in run.flights
        for effect in flight.give_up(plan, run, now_ms, one, FailureReason.ATTEMPT_ENDED)[1]
        if not isinstance(effect, SendToSlots)
    )
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


def discovered(plan: CheckpointPlan, run: Running, event: ev.SplitsDiscovered) -> Running:
    return _granted(plan, _with_source(run, event.operator, lambda source: source.on_looked(event)))


def marked(
    run: Running, event: ev.CommittedMarked | ev.MarkUnknown | ev.ClockTicked
) -> tuple[Running, tuple[Effect, ...]]:
    """News of the marker that is being written, or time to write it again."""
    effects: tuple[Effect, ...] = ()
    match event:
        case ev.CommittedMarked(_, ref):
            now = marking.on_marked(run.marking, ref)
        case ev.MarkUnknown(now_ms, ref):
            now = marking.on_unmarked(run.marking, ref, now_ms)
        case ev.ClockTicked(now_ms):
            now, effects = marking.on_tick(run.marking, now_ms)
    return replace(run, marking=now), effects


def begin(run: Running, now_ms: int) -> Turn:
    """The slots are ready: give out what the restore left open and what was discovered meanwhile. A savepoint that was
    complete and not exported when the last attempt ended is exported now, if it is what was restored."""
    run, assigned, _ = _assign(run, now_ms)
    return publication.export_next(run, assigned)


def _granted(plan: CheckpointPlan, run: Running) -> Running:
    return replace(run, sources=granting.granted(plan, run.sources))


def _stands(source: SplitAssigner) -> tuple[object, ...]:
    """What concerns all readers of a source, not only the one that has asked."""
    return source.granted_us, source.unread, source.cohorts.start


def _assign(run: Running, now_ms: int, asked: SplitsWanted | None = None) -> Turn:
    """``asked``: the question that is all that has changed. With a thousand readers, others are not gone through for it."""
    sources: list[SplitAssigner] = []
    effects: list[Effect] = []
    for source in run.sources:
        if asked is not None and asked.operator != source.operator:
            sources.append(source)
            continue
        assigner, messages = source.assign(run.attempt, asked.slot if asked is not None else None, now_ms)
        sources.append(assigner)
        effects.extend(SendToSlots(message, (message.subtask,)) for message in messages)
    return replace(run, sources=tuple(sources)), tuple(effects), None


def _repaced(plan: CheckpointPlan, run: Running, *, far_behind: bool) -> Running:
    before_ms = interval_ms(plan.config, far_behind=run.far_behind)
    after_ms = interval_ms(plan.config, far_behind=far_behind)
    return replace(run, far_behind=far_behind, trigger=run.trigger.repaced(before_ms, after_ms))


def _with_source(run: Running, operator: OperatorId, change: Callable[[SplitAssigner], SplitAssigner]) -> Running:
    return replace(
        run, sources=tuple(change(source) if source.operator == operator else source for source in run.sources)
    )


def _stored(plan: CheckpointPlan, run: Running, now_ms: int, ref: ev.ManifestRef) -> Turn:
    run, effects, leave = flight.on_stored(run, ref)
    if not effects or plan.rules.look_before_effects:
        return run, effects, leave
    return publication.on_looked(plan, run, now_ms, ref.checkpoint, newer=False)
