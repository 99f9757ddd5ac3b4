"""What follows a stored manifest: the answer to its look completes it; orders for savepoints are served."""

from __future__ import annotations

from dataclasses import replace

from tidegate.checkpoint import committing, orders
from tidegate.checkpoint.effects import (
    Effect,
    ReportCheckpoint,
    SendToSlots,
)
from tidegate.checkpoint.events import Afterwards, Failure
from tidegate.checkpoint.flight import overtaken
from tidegate.checkpoint.manifest import Manifest
from tidegate.checkpoint.plan import CheckpointPlan
from tidegate.checkpoint.running import (
    ALONE,
    Commit,
    Complete,
    FencedOut,
    Looking,
    Running,
    Suspended,
    Taken,
    Turn,
)
from tidegate.checkpoint.statistics import Outcome
from tidegate.model.ids import Attempt, CheckpointId
from tidegate.model.messages import CheckpointCompleted


def on_looked(plan: CheckpointPlan, run: Running, now_ms: int, about: CheckpointId | None, *, newer: bool) -> Turn:
    """The answer to the look after a manifest. Only now is the checkpoint complete; a fenced coordinator does nothing more."""
    match run.flight(about):
        case Looking(taken, manifest):
            if newer:
                return run, (), FencedOut(Attempt(run.attempt + 1))
            return _complete(plan, run, now_ms, taken, manifest)
        case _:
            return run, (), None


def _complete(plan: CheckpointPlan, run: Running, now_ms: int, taken: Taken, manifest: Manifest) -> Turn:
    # Whoever waits for an older one asked before this one started: this one answers them all.
    older = tuple(one for one in run.flights if one.taken.ref < taken.ref)
    taken = replace(taken, requests=(*(token for one in older for token in one.taken.requests), *taken.requests))
    for one in older:
        run = run.moved(replace(one, taken=replace(one.taken, requests=())))
    run, subsumed = overtaken(plan, run.landed(taken.ref), now_ms, taken)
    states = {state.operator: state for state in manifest.sources}
    effects: tuple[Effect, ...] = (
        SendToSlots(CheckpointCompleted(attempt=run.attempt, checkpoint=manifest.checkpoint)),
        ReportCheckpoint(taken.report(Outcome.COMPLETED, now_ms)),
        *subsumed,
    )
    completed = replace(
        run,
        base=manifest,
        trigger=run.trigger.ended(now_ms, plan.config.checkpoint_min_pause_ms),
        commits=(*run.commits, Commit(taken, manifest)),
        sources=tuple(assigner.on_completed(states[assigner.operator]) for assigner in run.sources),
        retention=run.retention.completed(manifest),
        restarts=run.restarts.completed(),
        failures_in_a_row=0,
        orders=run.orders.completed(taken.ref) if taken.kind in ALONE else run.orders,
    )
    completed, commit = committing.ask_first(completed, now_ms)
    return completed, (*effects, *commit), None


def on_exported(run: Running, checkpoint: CheckpointId, target: str, failure: Failure | None) -> Turn:
    """A savepoint is exported, or cannot be: its order is answered. What it was to end ends, unless it failed to suspend."""
    order = run.orders.exports(checkpoint, target)
    if order is None:
        return run, (), None
    drained = order.afterwards is Afterwards.DRAIN
    answer = (
        orders.done(order, checkpoint)
        if failure is None
        else orders.failed(order, checkpoint, failure, ends=drained or run.concluded)
    )
    run = replace(run, orders=run.orders.answered())
    if run.concluded:
        return export_next(run, (answer,))
    if drained:
        return run, (answer,), Complete()
    return run, (answer,), Suspended() if order.afterwards is Afterwards.SUSPEND and failure is None else None


def export_next(run: Running, effects: tuple[Effect, ...] = ()) -> Turn:
    """Serve the first order with the checkpoint the attempt stands upon, if that is the one: restored, or final."""
    if run.base is None or run.commits:
        return run, effects, None
    waiting, export = run.orders.visible(run.attempt, run.base, final=run.concluded)
    return replace(run, orders=waiting), (*effects, *export), None
