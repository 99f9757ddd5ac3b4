"""Bugs between a claim and the first deploy: numbers, lineage, the repeated commits, sweeps."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tidegate.checkpoint import effects as ef
from tidegate.checkpoint import events as ev
from tidegate.checkpoint import lifecycle, recovering
from tidegate.checkpoint import recovery as real
from tidegate.checkpoint.events import Event, Facts
from tidegate.checkpoint.layout import ManifestRef
from tidegate.checkpoint.phases import Claiming, LookingFirst, Session, State, WritingRestored
from tidegate.checkpoint.plan import CheckpointPlan
from tidegate.checkpoint.recovery import Choice
from tidegate.model.ids import Attempt, CheckpointId
from tidegate.testing.model.world import Bounds
from tidegate.testing.model.worlds import harmful
from tidegate.testing.mutants.mutant import Catalogue, seeds, worlds
from tidegate.testing.mutants.planting import Planting
from tidegate.testing.mutants.publication import CRASH, RIVALS, TWO_CHECKPOINTS, without_rule
from tidegate.testing.simulation.faults import Faults

recovery = mutant = Catalogue()

THREE_DRIVERS = Bounds("three drivers", starts=3, attempts=3, checkpoints=1)
DELAYED = Faults(message_delayed=0.6, message_repeated=0.3, slot_crash=0.5)


@mutant("rule 2", "A manifest whose transactions a later attempt aborted is restored: rows lost.", worlds(harmful(2)))
def a_dead_branch_is_restored(plant: Planting) -> None:
    without_rule(plant, 2)


@mutant(
    "rule 2", "The restored checkpoint is preferred to newer ones built upon it: rows twice.", worlds(TWO_CHECKPOINTS)
)
def the_named_checkpoint_beats_newer_ones(plant: Planting) -> None:
    def wrong(original: Any, facts: Facts, attempt: Attempt) -> tuple[ManifestRef, ...]:
        lineage = original(facts, attempt)
        writer = max((one for one in facts.restored if one < attempt), default=None)
        named = facts.restored[writer].ref if writer is not None else None
        if named is None or named not in lineage:
            return lineage
        return (named, *(ref for ref in lineage if ref != named))

    plant.function(real.lineage_of, wrong)


@mutant(
    "rule 2",
    "What an attempt restores is not written down, so its choice binds nobody: rows lost.",
    worlds(THREE_DRIVERS),
)
def restored_is_not_written(plant: Planting) -> None:
    def wrong(original: Any, plan: CheckpointPlan, state: State, event: Event) -> Any:
        after, effects = original(plan, state, event)
        if isinstance(after, WritingRestored) and not isinstance(state, WritingRestored):
            looking = LookingFirst(after.session, after.attempt, after.choice)
            return looking, (ef.LookForClaim(after.attempt, None),)
        return after, effects

    plant.function(lifecycle.step, wrong)


@mutant("rule 5", "A late abort hits transactions of the attempt that took over: rows lost.", worlds(harmful(5)))
def a_sweep_touches_newer_attempts(plant: Planting) -> None:
    without_rule(plant, 5)


@mutant("T1", "Transactions of the restored checkpoint are aborted instead of committed: rows lost.", worlds(CRASH))
def the_restored_checkpoint_is_swept_and_not_committed(plant: Planting) -> None:
    def wrong(
        original: Any, plan: CheckpointPlan, session: Session, attempt: Attempt, choice: Choice, now_ms: int
    ) -> Any:
        sweeping, _ = recovering.sweep(plan, session, attempt, choice)
        return sweeping, (ef.SweepSinks(attempt, attempt, ()),)

    plant.function(recovering.act, wrong)


@mutant(
    "rule 6",
    "An older checkpoint is restored though the newer one's output is visible: rows twice.",
    worlds(harmful(6)),
)
def a_fall_back_without_proof(plant: Planting) -> None:
    without_rule(plant, 6)


@mutant("rule 7", "Two drivers fence each other for ever, and each restart repeats work.", worlds(harmful(7)))
def a_restart_takes_any_free_number(plant: Planting) -> None:
    without_rule(plant, 7)


@mutant("T10", "Two coordinators believe they are the same attempt: rows twice.", worlds(RIVALS))
def a_claimed_number_is_used_again(plant: Planting) -> None:
    def wrong(original: Any, plan: CheckpointPlan, state: State, event: Event) -> Any:
        if isinstance(state, Claiming) and isinstance(event, ev.ClaimRefused):
            event = ev.ClaimRefused(event.now_ms, event.attempt, state.session.process)
        return original(plan, state, event)

    plant.function(lifecycle.step, wrong)


@mutant("rule 8", "Recovery passes over a checkpoint that a person asked for: rows twice.", worlds(harmful(8)))
def a_requested_checkpoint_is_not_restored(plant: Planting) -> None:
    without_rule(plant, 8)


@mutant(
    "T4",
    "Numbers of checkpoints start again after a restart: a sink that compares them skips rows.",
    worlds(TWO_CHECKPOINTS),
)
def checkpoint_numbers_are_used_again(plant: Planting) -> None:
    plant.function(real._next, lambda original, facts: CheckpointId(1))


@mutant(
    "T8",
    "An acknowledgement is matched by number alone: one of the last attempt completes a checkpoint of this one.",
    seeds(28, faults=DELAYED),
)
def acknowledgements_are_matched_by_number_alone(plant: Planting) -> None:
    def wrong(original: Any, plan: CheckpointPlan, state: State, event: Event) -> Any:
        run = getattr(state, "run", None)
        if isinstance(event, ev.SlotSaid) and run is not None:
            fields = {name: getattr(event.message, name) for name in event.message.__struct_fields__}
            event = ev.SlotSaid(event.now_ms, type(event.message)(**{**fields, "attempt": run.attempt}))
        after, effects = original(plan, state, event)
        session = getattr(after, "session", None)
        if session is not None:
            after = replace(after, session=replace(session, next_checkpoint=CheckpointId(1)))
        return after, effects

    plant.function(lifecycle.step, wrong)
