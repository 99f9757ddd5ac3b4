"""Checkpoints in flight: trigger, collect acknowledgements, store the manifest, or give up for a named reason.

Barriers of several checkpoints may travel at once. Their manifests are stored one at a time and in the order of their
numbers; the first that completes ends all older ones. So a stored manifest is always the newest of its attempt, each
builds upon the one before it, and a number once overtaken can never come back.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import replace

from tidegate.checkpoint.assembly import assemble, chunks_of, missing_operators, strangers, written_chunks
from tidegate.checkpoint.effects import (
    AnswerRequest,
    Effect,
    LookForClaim,
    ReportCheckpoint,
    RequestFailed,
    SendToSlots,
    StoreManifest,
)
from tidegate.checkpoint.events import Failure
from tidegate.checkpoint.layout import ManifestRef, manifest_key
from tidegate.checkpoint.numbering import numbering_of
from tidegate.checkpoint.plan import CheckpointPlan
from tidegate.checkpoint.repeats import verdict
from tidegate.checkpoint.retention import BEFORE_ALL
from tidegate.checkpoint.running import ALONE, Acked, Broken, Collecting, Flight, Looking, Running, Storing, Taken, Turn
from tidegate.checkpoint.statistics import FailureReason, Outcome, late_subtasks
from tidegate.checkpoint.trigger import interval_ms
from tidegate.model.elements import CheckpointKind
from tidegate.model.errors import Bug, Unavailable
from tidegate.model.ids import CheckpointId
from tidegate.model.messages import CheckpointAborted, SubtaskAcked, SubtaskDeclined, TriggerCheckpoint

RETRY_DELAY_MS = 200


def start_if_due(plan: CheckpointPlan, run: Running, now_ms: int) -> Turn:
    """Trigger a checkpoint when one is due and nothing forbids it.

    Forbidden while as many as allowed are in flight, while a cleanup round runs, and while a completed one waits
    behind another whose commits are still running: a sink that cannot keep up slows the trigger down instead of piling
    up transactions. A savepoint to stop with is the last one.
    """
    full = len(run.flights) >= plan.config.checkpoints_concurrent_max
    alone = any(one.taken.kind in ALONE for one in run.flights)
    if full or alone or run.cleaning or len(run.commits) > 1 or run.concluded or run.orders.holds:
        return run, (), None
    pace_ms = interval_ms(plan.config, far_behind=run.far_behind)
    readers = len(plan.sources) * plan.parallelism
    kind = run.trigger.kind_due(
        now_ms,
        pace_ms,
        all_exhausted=0 < readers == len(run.exhausted),
        savepoint=run.orders.due,
        min_pause_ms=plan.config.checkpoint_min_pause_ms,
    )
    if kind is None or (kind in ALONE and run.flights) or (run.orders.drains and kind is not CheckpointKind.FINAL):
        return run, (), None
    ref = ManifestRef(run.next_checkpoint, run.attempt)
    taken = Taken(
        ref,
        kind,
        now_ms,
        requests=run.trigger.requests,
        base=run.base.ref if run.base is not None else None,
        delay_ms=run.trigger.delay_ms(now_ms, kind),
    )
    return (
        replace(
            run,
            next_checkpoint=CheckpointId(ref.checkpoint + 1),
            trigger=run.trigger.triggered(now_ms, pace_ms),
            flights=(*run.flights, Collecting(taken, now_ms + plan.config.checkpoint_timeout_ms)),
        ),
        (SendToSlots(TriggerCheckpoint(attempt=run.attempt, checkpoint=ref.checkpoint, kind=kind)),),
        None,
    )


def on_ack(plan: CheckpointPlan, run: Running, ack: SubtaskAcked) -> Turn:
    """Count an acknowledgement of this attempt, once; those of checkpoints given up only leave files to delete."""
    match run.flight(ack.checkpoint):
        case Collecting(taken) as flight:
            # Two binary searches: with a thousand subtasks, going through all of them for each one is felt.
            at = bisect_left(taken.acks, ack.subtask, key=lambda one: one.subtask)
            known = at < len(taken.acks) and taken.acks[at].subtask == ack.subtask
            if known or not plan.has_subtask(ack.subtask):
                return run, (), None
            taken = replace(taken, acks=(*taken.acks[:at], ack, *taken.acks[at:]))
            complete = len(taken.acks) == len(plan.subtasks)
            return run.moved(Acked(taken) if complete else replace(flight, taken=taken)), (), None
        case Acked() | Storing() | Looking():
            return run, (), None
        case None:
            if ack.checkpoint >= run.next_checkpoint:
                return run, (), None
            run = _left_over(run, ack.checkpoint, written_chunks(ManifestRef(ack.checkpoint, run.attempt), (ack,)))
            return run, verdict(run, ack.checkpoint, ack.slot), None


def on_declined(plan: CheckpointPlan, run: Running, now_ms: int, message: SubtaskDeclined) -> Turn:
    """One that declines ends the checkpoint. What it had stored by then is to be deleted with the rest."""
    if message.checkpoint >= run.next_checkpoint:
        return run, (), None
    chunks = chunks_of(ManifestRef(message.checkpoint, run.attempt), message.chunks)
    match run.flight(message.checkpoint):
        case Collecting() as flight:
            run = _left_over(run, message.checkpoint, chunks)
            detail = f"subtask {message.subtask}: {message.reason}"
            reason = FailureReason.UPLOAD_FAILED if message.counts else FailureReason.DECLINED
            return give_up(plan, run, now_ms, flight, reason, detail)
        case Acked() | Storing() | Looking():
            return run, (), None
        case None:
            run = _left_over(run, message.checkpoint, chunks)
            return run, verdict(run, message.checkpoint, message.slot), None


def _left_over(run: Running, checkpoint: CheckpointId, chunks: frozenset[str]) -> Running:
    """Somebody stored chunks for a checkpoint that will not complete: they go with it."""
    ref = ManifestRef(checkpoint, run.attempt)
    if not chunks or any(one.ref == ref for one in run.retention.kept):
        return run
    return replace(run, retention=run.retention.gave_up(ref, chunks))


def store_if_ready(plan: CheckpointPlan, run: Running, now_ms: int) -> Turn:
    """Store the oldest manifest that is complete, when the fate of the one before it is known.

    A newer one goes ahead of an older one whose acknowledgements are still missing. While two completed checkpoints
    wait for their commits, the next one waits before it is stored: one that completed may not be taken back.
    """
    effects: tuple[Effect, ...] = ()
    while (ready := _next_to_store(run)) is not None:
        run, more, leave = _store(plan, run, now_ms, ready)
        effects = (*effects, *more)
        if leave is not None:
            return run, effects, leave
    return run, effects, None


def _next_to_store(run: Running) -> Acked | None:
    if len(run.commits) > 1 or any(isinstance(one, Storing | Looking) for one in run.flights):
        return None
    return next((one for one in run.flights if isinstance(one, Acked)), None)


def _store(plan: CheckpointPlan, run: Running, now_ms: int, flight: Acked) -> Turn:
    taken = flight.taken
    stale = strangers(taken.ref, run.retention.chunks_since(taken.base), taken.acks)
    if stale:
        run, effects, leave = give_up(plan, run, now_ms, flight, FailureReason.UNCONFIRMED_CHUNK, min(stale))
        if run.base is not None and run.base.attempt == run.attempt:
            # Whoever named it has missed a notice; without it the next one would fail in the same way.
            effects = (*effects, *(one for slot in plan.slots for one in verdict(run, run.base.checkpoint, slot)))
        return run, effects, leave
    missing = missing_operators(plan, taken.acks)
    if missing:
        return run, (), Broken(_bug(f"no subtask sent a snapshot of {', '.join(missing)}"))
    try:
        drained = taken.kind is CheckpointKind.FINAL and (run.orders.draining or plan.config.drain)
        manifest = assemble(
            plan, taken.ref, taken.kind, run.base, taken.acks, run.sources, drained=drained, numbering=run.numbering
        )
    except ValueError as error:
        return run, (), Broken(_bug(f"the acknowledgements of checkpoint {taken.ref} contradict each other: {error}"))
    run = replace(run, numbering=numbering_of(manifest))
    return run.moved(Storing(taken, manifest)), (StoreManifest(manifest),), None


def on_stored(run: Running, ref: ManifestRef) -> Turn:
    """The manifest is there for certain: made by us just now, or seen with our content."""
    match run.flight(ref.checkpoint):
        case Storing(taken, manifest) if taken.ref == ref:
            # Look after the write, before any outside effect: either we see the newer claim or its owner sees our manifest.
            return run.moved(Looking(taken, manifest)), (LookForClaim(run.attempt, ref.checkpoint),), None
        case _:
            return run, (), None


def on_store_unknown(
    plan: CheckpointPlan, run: Running, now_ms: int, ref: ManifestRef, failure: Failure | None = None
) -> Turn:
    """Try to create it again; made, or refused with our content, both mean that it is there.

    When tries run out the checkpoint counts as not complete. It may still land: its committables stay with the slots
    and in the next manifest, and its chunks stay until a later checkpoint is complete.
    """
    match run.flight(ref.checkpoint):
        case Storing(taken, _, tries) as flight if taken.ref == ref:
            if tries >= plan.store_tries_max:
                return give_up(
                    plan,
                    run,
                    now_ms,
                    flight,
                    FailureReason.STORE_UNKNOWN,
                    failure.message if failure is not None else manifest_key(ref),
                )
            return run.moved(replace(flight, retry_at_ms=now_ms + RETRY_DELAY_MS)), (), None
        case _:
            return run, (), None


def on_foreign(run: Running, ref: ManifestRef) -> Turn:
    match run.flight(ref.checkpoint):
        case Storing(taken) if taken.ref == ref:
            why = f"{manifest_key(ref)} exists with another content; only we can have written it"
            return run, (), Broken(_bug(why))
        case _:
            return run, (), None


def on_look_failed(run: Running, now_ms: int, about: CheckpointId | None, failure: Failure | None = None) -> Turn:
    match run.flight(about):
        case Looking() if failure is not None and not failure.retryable:
            return run, (), Broken(failure)
        case Looking() as flight:
            return run.moved(replace(flight, retry_at_ms=now_ms + RETRY_DELAY_MS)), (), None
        case _:
            return run, (), None


def on_tick(plan: CheckpointPlan, run: Running, now_ms: int) -> Turn:
    """Timeouts and tries that are due."""
    effects: tuple[Effect, ...] = ()
    for flight in run.flights:
        match flight:
            case Collecting(_, deadline_ms) if now_ms >= deadline_ms:
                run, more, leave = give_up(plan, run, now_ms, flight, FailureReason.TIMED_OUT)
                effects = (*effects, *more)
                if leave is not None:
                    return run, effects, leave
            case Storing(_, manifest, tries, retry_at_ms) if retry_at_ms is not None and now_ms >= retry_at_ms:
                run = run.moved(replace(flight, tries=tries + 1, retry_at_ms=None))
                effects = (*effects, StoreManifest(manifest))
            case Looking(taken, _, retry_at_ms) if retry_at_ms is not None and now_ms >= retry_at_ms:
                run = run.moved(replace(flight, retry_at_ms=None))
                effects = (*effects, LookForClaim(run.attempt, taken.ref.checkpoint))
            case Collecting() | Acked() | Storing() | Looking():
                continue
    return run, effects, None


def overtaken(plan: CheckpointPlan, run: Running, now_ms: int, by: Taken) -> tuple[Running, tuple[Effect, ...]]:
    """End all checkpoints older than ``by``: their numbers lie below a manifest that exists or may come to exist."""
    effects: tuple[Effect, ...] = ()
    for flight in run.flights:
        if flight.taken.ref < by.ref:
            run, more, _ = give_up(
                plan, run, now_ms, flight, FailureReason.SUBSUMED, f"checkpoint {by.ref.checkpoint} was first"
            )
            effects = (*effects, *more)
    return run, effects


def give_up(
    plan: CheckpointPlan, run: Running, now_ms: int, flight: Flight, reason: FailureReason, detail: str = ""
) -> Turn:
    """End a checkpoint in flight without completing it. Nothing of it is deleted before a later one is complete."""
    taken = flight.taken
    late = late_subtasks(plan.subtasks, plan.upstream, taken.acks)
    report = taken.report(Outcome.FAILED, now_ms, reason, detail, late)
    failure = Failure(Unavailable.code, str(report), hint="the query goes on and tries again at the next trigger")
    effects: tuple[Effect, ...] = (
        SendToSlots(CheckpointAborted(attempt=run.attempt, checkpoint=taken.ref.checkpoint)),
        ReportCheckpoint(report),
        *(AnswerRequest(token, RequestFailed(failure)) for token in taken.requests),
    )
    failures = run.failures_in_a_row + (1 if reason.counts else 0)
    since = (taken.base or BEFORE_ALL) if isinstance(flight, Storing) else None
    run = replace(
        run.landed(taken.ref),
        retention=run.retention.gave_up(taken.ref, written_chunks(taken.ref, taken.acks), since),
        failures_in_a_row=failures,
    )
    if reason is FailureReason.SUBSUMED:
        return run, effects, None
    if reason is FailureReason.STORE_UNKNOWN:
        # Its manifest may stand, or land later. A lower number completed now would be a branch that recovery passes over.
        run, more = overtaken(plan, run, now_ms, taken)
        effects = (*effects, *more)
    pause_ms = interval_ms(plan.config, far_behind=run.far_behind)
    trigger = run.trigger.ended(now_ms, plan.config.checkpoint_min_pause_ms).failed(now_ms, pause_ms)
    run = replace(run, trigger=trigger)
    if failures <= plan.config.checkpoint_failures_tolerated:
        return run, effects, None
    too_many = replace(
        failure, message=f"{failures} checkpoints in a row failed, the last one: {failure.message}", hint=""
    )
    return run, effects, Broken(too_many)


def _bug(message: str) -> Failure:
    return Failure(Bug.code, message, hint="please report it with the log of the driver", retryable=False)
