"""Making the output of completed checkpoints visible: in order, one at a time, again and again. A checkpoint that waits for
this is durable and never aborted; a commit that cannot be done ends the attempt, and recovery repeats it from the manifest."""

from __future__ import annotations

from dataclasses import replace

from tidegate.checkpoint import cleanup
from tidegate.checkpoint import marking as marks
from tidegate.checkpoint.effects import (
    AnswerRequest,
    CommitSinks,
    Effect,
    ForgetSplits,
    ReportCheckpoint,
    RequestDone,
    SendToSlots,
)
from tidegate.checkpoint.events import Failure
from tidegate.checkpoint.intervals import done_prefix
from tidegate.checkpoint.manifest import Manifest
from tidegate.checkpoint.numbering import numbering_of
from tidegate.checkpoint.plan import CheckpointPlan
from tidegate.checkpoint.running import Broken, Running, Turn
from tidegate.checkpoint.statistics import Outcome
from tidegate.model.errors import Unavailable
from tidegate.model.ids import CheckpointId
from tidegate.model.messages import CheckpointCommitted

TRIES_MAX = 5
RETRY_DELAY_MS = 500


def ask_first(run: Running, now_ms: int) -> tuple[Running, tuple[Effect, ...]]:
    """Ask the sinks for the oldest completed checkpoint, unless they are being asked already or have a pause."""
    if not run.commits:
        return run, ()
    first, *waiting = run.commits
    if first.asked_ms is not None or (first.retry_at_ms is not None and now_ms < first.retry_at_ms):
        return run, ()
    manifest = first.manifest
    commit = CommitSinks(run.attempt, manifest.checkpoint, manifest.committables(), numbering=numbering_of(manifest))
    return replace(run, commits=(replace(first, asked_ms=now_ms, retry_at_ms=None), *waiting)), (commit,)


def on_committed(plan: CheckpointPlan, run: Running, now_ms: int, checkpoint: CheckpointId) -> Turn:
    """All sinks confirmed: tell everybody, let the next one commit, clean up behind it."""
    if not run.commits or run.commits[0].manifest.checkpoint != checkpoint:
        return run, (), None
    done, *waiting = run.commits
    marking, mark = marks.begin(done.manifest.ref)
    run = replace(run, commits=tuple(waiting), marking=marking)
    run, following = ask_first(run, now_ms)
    served, export = run.orders.visible(run.attempt, done.manifest, final=run.concluded and not waiting)
    run, deletes = cleanup.begin(plan, replace(run, orders=served))
    return (
        run,
        (
            *mark,
            SendToSlots(CheckpointCommitted(attempt=run.attempt, checkpoint=checkpoint)),
            ReportCheckpoint(done.taken.report(Outcome.COMMITTED, now_ms)),
            *(AnswerRequest(token, RequestDone(checkpoint)) for token in done.taken.requests),
            *following,
            *export,
            *deletes,
            *forgettable(run, done.manifest),
        ),
        None,
    )


def forgettable(run: Running, manifest: Manifest) -> tuple[ForgetSplits, ...]:
    """Only now: every manifest that follows has these splits in its ``done``, older ones carry their own enumerator state, and a source
    that lets go of what it has been told is done lets go of nothing whose output may still be lost."""
    return tuple(
        ForgetSplits(run.attempt, source.operator, below)
        for source in manifest.sources
        if (below := done_prefix(source.done)) > 0
    )


def on_failed(run: Running, now_ms: int, checkpoint: CheckpointId, failure: Failure) -> Turn:
    """A commit is repeatable, so it is repeated; then the attempt ends and recovery repeats it from the manifest."""
    if not run.commits or run.commits[0].manifest.checkpoint != checkpoint:
        return run, (), None
    first, *waiting = run.commits
    if not failure.retryable or first.tries >= TRIES_MAX:
        return run, (), Broken(not_visible(first.manifest, failure))
    again = replace(first, tries=first.tries + 1, asked_ms=None, retry_at_ms=now_ms + RETRY_DELAY_MS * first.tries)
    return replace(run, commits=(again, *waiting)), (), None


def on_tick(plan: CheckpointPlan, run: Running, now_ms: int) -> Turn:
    """Repeat a commit that failed when its pause is over; one without an answer for too long counts as failed."""
    if not run.commits:
        return run, (), None
    first = run.commits[0]
    if first.retry_at_ms is not None and now_ms >= first.retry_at_ms:
        run, effects = ask_first(run, now_ms)
        return run, effects, None
    timeout_ms = plan.config.commit_timeout_ms
    if first.asked_ms is not None and now_ms - first.asked_ms >= timeout_ms:
        return on_failed(run, now_ms, first.manifest.checkpoint, unanswered(timeout_ms))
    return run, (), None


def unanswered(timeout_ms: int) -> Failure:
    return Failure(Unavailable.code, f"the sinks have not answered for {timeout_ms / 1_000:g} s")


def not_visible(manifest: Manifest, failure: Failure) -> Failure:
    """Says which output is stuck; the sink's own words name the item."""
    sinks = ", ".join(sink for sink, _ in manifest.committables())
    message = f"output of {sinks} up to checkpoint {manifest.checkpoint} cannot be made visible: {failure.message}"
    return replace(failure, message=message)
