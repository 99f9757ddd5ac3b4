"""The checkpoint in flight: trigger, collect acknowledgements, store the manifest, or give up for a named reason."""

from __future__ import annotations

from dataclasses import replace

from tidegate.checkpoint.assembly import assemble, missing_operators, strangers, written_chunks
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
from tidegate.checkpoint.plan import CheckpointPlan
from tidegate.checkpoint.running import Broken, Collecting, Idle, Looking, Running, Storing, Taken, Turn
from tidegate.checkpoint.statistics import CheckpointReport, FailureReason, Outcome, acked_times, late_subtasks
from tidegate.model.errors import Bug, Unavailable
from tidegate.model.ids import CheckpointId
from tidegate.model.messages import CheckpointAborted, SubtaskAcked, SubtaskDeclined, TriggerCheckpoint

RETRY_DELAY_MS = 200


def start_if_due(plan: CheckpointPlan, run: Running, now_ms: int) -> Turn:
    """Trigger a checkpoint when one is due and nothing forbids it.

    Forbidden while one is in flight, while a cleanup round runs, and while a completed one waits behind another whose
    commits are still running: a sink that cannot keep up slows the trigger down instead of piling up transactions.
    """
    if not isinstance(run.flight, Idle) or run.cleaning or len(run.commits) > 1 or run.concluded:
        return run, (), None
    interval_ms = plan.config.checkpoint_interval_ms
    readers = len(plan.sources) * plan.parallelism
    kind = run.trigger.kind_due(now_ms, interval_ms, all_exhausted=0 < readers == len(run.exhausted))
    if kind is None:
        return run, (), None
    ref = ManifestRef(run.next_checkpoint, run.attempt)
    taken = Taken(ref, kind, now_ms, requests=run.trigger.requests)
    return (
        replace(
            run,
            next_checkpoint=CheckpointId(ref.checkpoint + 1),
            trigger=run.trigger.triggered(now_ms, interval_ms),
            flight=Collecting(taken, now_ms + plan.config.checkpoint_timeout_ms),
        ),
        (SendToSlots(TriggerCheckpoint(attempt=run.attempt, checkpoint=ref.checkpoint, kind=kind)),),
        None,
    )


def on_ack(plan: CheckpointPlan, run: Running, now_ms: int, ack: SubtaskAcked) -> Turn:
    """Count an acknowledgement of this attempt, once; those of checkpoints given up only leave files to delete."""
    match run.flight:
        case Collecting(taken, deadline_ms) if taken.ref.checkpoint == ack.checkpoint:
            known = {one.subtask for one in taken.acks}
            if ack.subtask in known or ack.subtask not in plan.subtasks:
                return run, (), None
            acks = tuple(sorted((*taken.acks, ack), key=lambda one: one.subtask))
            run = replace(run, flight=Collecting(replace(taken, acks=acks), deadline_ms))
            if len(acks) < len(plan.subtasks):
                return run, (), None
            return _all_acked(plan, run, now_ms, replace(taken, acks=acks))
        case Storing(taken) | Looking(taken) if taken.ref.checkpoint == ack.checkpoint:
            return run, (), None
        case Idle() | Collecting() | Storing() | Looking():
            ref = ManifestRef(ack.checkpoint, run.attempt)
            if ack.checkpoint >= run.next_checkpoint or any(one.ref == ref for one in run.retention.kept):
                return run, (), None
            return replace(run, retention=run.retention.gave_up(ref, written_chunks(ref, (ack,)))), (), None


def on_declined(plan: CheckpointPlan, run: Running, now_ms: int, message: SubtaskDeclined) -> Turn:
    match run.flight:
        case Collecting(taken) if taken.ref.checkpoint == message.checkpoint:
            return give_up(plan, run, now_ms, FailureReason.DECLINED, f"subtask {message.subtask}: {message.reason}")
        case Idle() | Collecting() | Storing() | Looking():
            return run, (), None


def _all_acked(plan: CheckpointPlan, run: Running, now_ms: int, taken: Taken) -> Turn:
    stale = strangers(taken.ref, run.base, taken.acks)
    if stale:
        return give_up(plan, run, now_ms, FailureReason.UNCONFIRMED_CHUNK, min(stale))
    missing = missing_operators(plan, taken.acks)
    if missing:
        return run, (), Broken(_bug(f"no subtask sent a snapshot of {', '.join(missing)}"))
    try:
        manifest = assemble(plan, taken.ref, taken.kind, run.base, taken.acks, run.sources)
    except ValueError as error:
        return run, (), Broken(_bug(f"the acknowledgements of checkpoint {taken.ref} contradict each other: {error}"))
    return replace(run, flight=Storing(taken, manifest)), (StoreManifest(manifest),), None


def on_stored(run: Running, ref: ManifestRef) -> Turn:
    """The manifest is there for certain: made by us just now, or seen with our content."""
    match run.flight:
        case Storing(taken, manifest) if taken.ref == ref:
            # Look after the write, before any outside effect: either we see the newer claim or its owner sees our manifest.
            return replace(run, flight=Looking(taken, manifest)), (LookForClaim(run.attempt, ref.checkpoint),), None
        case Idle() | Collecting() | Storing() | Looking():
            return run, (), None


def on_store_unknown(plan: CheckpointPlan, run: Running, now_ms: int, ref: ManifestRef) -> Turn:
    """Try to create it again; made, or refused with our content, both mean that it is there.

    When tries run out the checkpoint counts as not complete. It may still land: its committables stay with the slots
    and in the next manifest, and its chunks stay until a later checkpoint is complete.
    """
    match run.flight:
        case Storing(taken, _, tries) if taken.ref == ref:
            if tries >= plan.store_tries_max:
                return give_up(plan, run, now_ms, FailureReason.STORE_UNKNOWN, manifest_key(ref))
            return replace(run, flight=replace(run.flight, retry_at_ms=now_ms + RETRY_DELAY_MS)), (), None
        case Idle() | Collecting() | Storing() | Looking():
            return run, (), None


def on_foreign(run: Running, ref: ManifestRef) -> Turn:
    match run.flight:
        case Storing(taken) if taken.ref == ref:
            return (
                run,
                (),
                Broken(_bug(f"{manifest_key(ref)} exists with another content; only we can have written it")),
            )
        case Idle() | Collecting() | Storing() | Looking():
            return run, (), None


def on_look_failed(run: Running, now_ms: int, about: CheckpointId | None) -> Turn:
    match run.flight:
        case Looking(taken) if taken.ref.checkpoint == about:
            return replace(run, flight=replace(run.flight, retry_at_ms=now_ms + RETRY_DELAY_MS)), (), None
        case Idle() | Collecting() | Storing() | Looking():
            return run, (), None


def on_tick(plan: CheckpointPlan, run: Running, now_ms: int) -> Turn:
    """Timeouts and tries that are due."""
    match run.flight:
        case Collecting(_, deadline_ms) if now_ms >= deadline_ms:
            return give_up(plan, run, now_ms, FailureReason.TIMED_OUT)
        case Storing(_, manifest, tries, retry_at_ms) if retry_at_ms is not None and now_ms >= retry_at_ms:
            again = replace(run.flight, tries=tries + 1, retry_at_ms=None)
            return replace(run, flight=again), (StoreManifest(manifest),), None
        case Looking(taken, _, retry_at_ms) if retry_at_ms is not None and now_ms >= retry_at_ms:
            look = LookForClaim(run.attempt, taken.ref.checkpoint)
            return replace(run, flight=replace(run.flight, retry_at_ms=None)), (look,), None
        case Idle() | Collecting() | Storing() | Looking():
            return run, (), None


def give_up(plan: CheckpointPlan, run: Running, now_ms: int, reason: FailureReason, detail: str = "") -> Turn:
    """End the checkpoint in flight without completing it. Nothing of it is deleted before a later one is complete."""
    match run.flight:
        case Idle():
            return run, (), None
        case Collecting(taken) | Storing(taken) | Looking(taken):
            pass
    late = late_subtasks(plan.subtasks, plan.upstream, taken.acks)
    report = CheckpointReport(
        checkpoint=taken.ref.checkpoint,
        attempt=taken.ref.attempt,
        kind=taken.kind,
        outcome=Outcome.FAILED,
        triggered_ms=taken.triggered_ms,
        ended_ms=now_ms,
        acks=acked_times(taken.acks),
        reason=reason,
        detail=detail,
        late=late,
    )
    failure = Failure(
        Unavailable.code,
        str(report),
        hint="the query goes on and tries again at the next trigger",
    )
    effects: tuple[Effect, ...] = (
        SendToSlots(CheckpointAborted(attempt=run.attempt, checkpoint=taken.ref.checkpoint)),
        ReportCheckpoint(report),
        *(AnswerRequest(token, RequestFailed(failure)) for token in taken.requests),
    )
    failures = run.failures_in_a_row + (1 if reason.counts else 0)
    run = replace(
        run,
        flight=Idle(),
        trigger=run.trigger.failed(now_ms, plan.config.checkpoint_interval_ms),
        retention=run.retention.gave_up(taken.ref, written_chunks(taken.ref, taken.acks)),
        failures_in_a_row=failures,
    )
    if failures <= plan.config.checkpoint_failures_tolerated:
        return run, effects, None
    too_many = replace(
        failure, message=f"{failures} checkpoints in a row failed, the last one: {failure.message}", hint=""
    )
    return run, effects, Broken(too_many)


def _bug(message: str) -> Failure:
    return Failure(Bug.code, message, hint="please report it with the log of the driver", retryable=False)
