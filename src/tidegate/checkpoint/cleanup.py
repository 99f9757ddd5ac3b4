"""Rounds of deleting what has become superfluous: one at a time, planned whole, limited in time."""

from __future__ import annotations

from dataclasses import replace

from tidegate.checkpoint.effects import Delete, Effect, SweepSinks
from tidegate.checkpoint.plan import CheckpointPlan
from tidegate.checkpoint.retention import BEFORE_ALL, Pins
from tidegate.checkpoint.running import Running, Turn


def begin(plan: CheckpointPlan, run: Running) -> tuple[Running, tuple[Effect, ...]]:
    """Plan a round and start it, unless the last one still runs. Everything in it is older than the newest looked manifest."""
    if run.cleaning:
        return run, ()
    retention = run.retention.plan_round(
        plan.config.checkpoints_retained, _pins(run), by_reference=plan.rules.retention_by_reference
    )
    run = replace(run, retention=retention)
    if not retention.garbage:
        return run, ()
    return replace(run, cleaning=True), (
        Delete(run.attempt, retention.garbage, plan.config.cleanup_timeout_ms),
        # A zombie of an older attempt may have prepared something after the sweep of the recovery.
        SweepSinks(
            run.attempt,
            older_than=run.attempt,
            keep=run.base.committables() if run.base is not None else (),
            numbering=run.numbering,
        ),
    )


def on_done(run: Running, untried: tuple[str, ...], undeletable: tuple[tuple[str, str], ...]) -> Turn:
    if not run.cleaning:
        return run, (), None
    retention = run.retention.round_done(untried, tuple(key for key, _ in undeletable))
    return replace(run, cleaning=False, retention=retention), (), None


def _pins(run: Running) -> Pins:
    """Snapshots of a checkpoint in flight may build upon what was complete when it started; savepoints are being copied."""
    bases = (one.taken.base or BEFORE_ALL for one in run.flights)
    return Pins(since=min(bases, default=None), exported=run.orders.pinned)
