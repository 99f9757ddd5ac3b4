"""Making the output of completed checkpoints visible: in order, one at a time, again and again. A checkpoint that waits for
this is durable and never aborted; a commit that cannot be done ends the attempt, and recovery repeats it from the manifest.

Sinks are independent. Only what is not known to be visible is tried again: what one sink handed back, all that another one raised for.
"""

from __future__ import annotations

from collections.abc import Set
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
from tidegate.model.snapshot import Committable, CommittablesBySink

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
    commit = CommitSinks(run.attempt, manifest.checkpoint, first.owed, numbering=numbering_of(manifest))
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


def on_failed(
    plan: CheckpointPlan,
    run: Running,
    now_ms: int,
    checkpoint: CheckpointId,
    failure: Failure,
    left: CommittablesBySink | None = None,
) -> Turn:
    """A commit is repeatable, so what is left of it is repeated; then the attempt ends and recovery repeats it from the manifest."""
    if not run.commits or run.commits[0].manifest.checkpoint != checkpoint:
        return run, (), None
    first, *waiting = run.commits
    if left is not None:
        first = replace(first, left=still_owed(first.owed, left))
        if not first.left:
            return on_committed(plan, run, now_ms, checkpoint)
    if not failure.retryable or first.tries >= TRIES_MAX:
        return run, (), Broken(not_visible(checkpoint, first.owed, failure))
    again = replace(first, tries=first.tries + 1, asked_ms=None, retry_at_ms=now_ms + pause_ms(first.tries))
    return replace(run, commits=(again, *waiting)), (), None


def pause_ms(tries: int) -> int:
    """Between this try and the next one."""
    return RETRY_DELAY_MS * tries


def still_owed(owed: CommittablesBySink, left: CommittablesBySink) -> CommittablesBySink:
    """What is tried again. ``left``: what an answer of the sinks leaves, early, late or repeated: what is visible stays visible.

    A sink's output becomes visible in checkpoint order. So everything behind the first checkpoint that is left counts as left, too,
    should a sink have handed back something in front of output that it calls visible.
    """
    by_sink = dict(left)
    rest = ((sink, _from_first_left(some, frozenset(by_sink.get(sink, ())))) for sink, some in owed)
    return tuple((sink, some) for sink, some in rest if some)


def _from_first_left(owed: tuple[Committable, ...], left: Set[Committable]) -> tuple[Committable, ...]:
    first = next((one.checkpoint for one in owed if one in left), None)
    return tuple(one for one in owed if first is not None and (one in left or one.checkpoint > first))


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
        return on_failed(plan, run, now_ms, first.manifest.checkpoint, unanswered(timeout_ms))
    return run, (), None


def unanswered(timeout_ms: int) -> Failure:
    return Failure(Unavailable.code, f"the sinks have not answered for {timeout_ms / 1_000:g} s")


def not_visible(checkpoint: CheckpointId, owed: CommittablesBySink, failure: Failure) -> Failure:
    """Says which output is stuck; the sink's own words name the item."""
    sinks = ", ".join(sink for sink, _ in owed)
    message = f"output of {sinks} up to checkpoint {checkpoint} cannot be made visible: {failure.message}"
    return replace(failure, message=message)
