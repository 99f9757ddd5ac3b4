"""What follows a stored manifest: the look's answer, commits in order, the marker, one round of cleanup."""

from __future__ import annotations

from dataclasses import replace

from tidegate.checkpoint.effects import (
    AnswerRequest,
    CommitSinks,
    Delete,
    Effect,
    ForgetSplits,
    MarkCommitted,
    ReportCheckpoint,
    RequestDone,
    SendToSlots,
    SweepSinks,
)
from tidegate.checkpoint.events import Failure
from tidegate.checkpoint.manifest import Manifest
from tidegate.checkpoint.plan import CheckpointPlan
from tidegate.checkpoint.running import (
    Broken,
    Collecting,
    Commit,
    FencedOut,
    Idle,
    Looking,
    Running,
    Storing,
    Taken,
    Turn,
)
from tidegate.checkpoint.sources import done_prefix
from tidegate.checkpoint.statistics import CheckpointReport, Outcome, acked_times
from tidegate.model.ids import Attempt, CheckpointId
from tidegate.model.messages import CheckpointCommitted, CheckpointCompleted

COMMIT_TRIES_MAX = 5
COMMIT_RETRY_DELAY_MS = 500


def on_looked(run: Running, now_ms: int, about: CheckpointId | None, *, newer: bool) -> Turn:
    """The answer to the look after a manifest. Only now is the checkpoint complete; a fenced coordinator does nothing more."""
    match run.flight:
        case Looking(taken, manifest) if taken.ref.checkpoint == about:
            if newer:
                return run, (), FencedOut(Attempt(run.attempt + 1))
            return _complete(run, now_ms, taken, manifest)
        case Idle() | Collecting() | Storing() | Looking():
            return run, (), None


def _complete(run: Running, now_ms: int, taken: Taken, manifest: Manifest) -> Turn:
    states = {state.operator: state for state in manifest.sources}
    effects: list[Effect] = [
        SendToSlots(CheckpointCompleted(attempt=run.attempt, checkpoint=manifest.checkpoint)),
        ReportCheckpoint(_report(taken, Outcome.COMPLETED, now_ms)),
    ]
    if not run.commits:
        effects.append(_commit(run, manifest))
    # Only now: every manifest that follows has these splits in its ``done``, and older ones carry their own enumerator state.
    effects.extend(
        ForgetSplits(run.attempt, before.operator, below)
        for before in run.sources
        if (below := done_prefix(states[before.operator].done)) > done_prefix(before.done)
    )
    return (
        replace(
            run,
            base=manifest,
            flight=Idle(),
            commits=(*run.commits, Commit(taken, manifest)),
            sources=tuple(assigner.on_completed(states[assigner.operator]) for assigner in run.sources),
            retention=run.retention.completed(manifest),
            restarts=run.restarts.completed(),
            failures_in_a_row=0,
        ),
        tuple(effects),
        None,
    )


def on_committed(plan: CheckpointPlan, run: Running, now_ms: int, checkpoint: CheckpointId) -> Turn:
    """All sinks confirmed: tell everybody, let the next one commit, clean up behind it."""
    if not run.commits or run.commits[0].manifest.checkpoint != checkpoint:
        return run, (), None
    done, *waiting = run.commits
    run = replace(run, commits=tuple(waiting))
    effects: list[Effect] = [
        MarkCommitted(done.manifest.ref),
        SendToSlots(CheckpointCommitted(attempt=run.attempt, checkpoint=checkpoint)),
        ReportCheckpoint(_report(done.taken, Outcome.COMMITTED, now_ms)),
        *(AnswerRequest(token, RequestDone(checkpoint)) for token in done.taken.requests),
        *(_commit(run, one.manifest) for one in waiting[:1]),
    ]
    run, cleanup = _clean(plan, run)
    return run, (*effects, *cleanup), None


def on_commit_failed(run: Running, now_ms: int, checkpoint: CheckpointId, failure: Failure) -> Turn:
    """A commit is repeatable, so it is repeated; then the attempt ends and recovery repeats it from the manifest."""
    if not run.commits or run.commits[0].manifest.checkpoint != checkpoint:
        return run, (), None
    first, *waiting = run.commits
    if not failure.retryable or first.tries >= COMMIT_TRIES_MAX:
        return run, (), Broken(failure)
    again = replace(first, retry_at_ms=now_ms + COMMIT_RETRY_DELAY_MS * first.tries)
    return replace(run, commits=(again, *waiting)), (), None


def on_tick(run: Running, now_ms: int) -> Turn:
    """Repeat a commit that failed, when its pause is over."""
    if not run.commits:
        return run, (), None
    first, *waiting = run.commits
    if first.retry_at_ms is None or now_ms < first.retry_at_ms:
        return run, (), None
    again = replace(first, tries=first.tries + 1, retry_at_ms=None)
    return replace(run, commits=(again, *waiting)), (_commit(run, first.manifest),), None


def on_cleaned(run: Running, untried: tuple[str, ...], undeletable: tuple[tuple[str, str], ...]) -> Turn:
    if not run.cleaning:
        return run, (), None
    retention = run.retention.round_done(untried, tuple(key for key, _ in undeletable))
    return replace(run, cleaning=False, retention=retention), (), None


def _clean(plan: CheckpointPlan, run: Running) -> tuple[Running, tuple[Effect, ...]]:
    """Plan a round and start it, unless the last one still runs. Everything in it is older than the newest looked manifest."""
    if run.cleaning:
        return run, ()
    retention = run.retention.plan_round(
        plan.config.checkpoints_retained, by_reference=plan.rules.retention_by_reference
    )
    run = replace(run, retention=retention)
    if not retention.garbage:
        return run, ()
    return replace(run, cleaning=True), (
        Delete(run.attempt, retention.garbage, plan.config.cleanup_timeout_ms),
        # A zombie of an older attempt may have prepared something after the sweep of the recovery.
        SweepSinks(run.attempt, older_than=run.attempt, keep=run.base.committables() if run.base is not None else ()),
    )


def _commit(run: Running, manifest: Manifest) -> CommitSinks:
    return CommitSinks(run.attempt, manifest.checkpoint, manifest.committables())


def _report(taken: Taken, outcome: Outcome, now_ms: int) -> CheckpointReport:
    return CheckpointReport(
        checkpoint=taken.ref.checkpoint,
        attempt=taken.ref.attempt,
        kind=taken.kind,
        outcome=outcome,
        triggered_ms=taken.triggered_ms,
        ended_ms=now_ms,
        acks=acked_times(taken.acks),
    )
