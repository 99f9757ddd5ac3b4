"""Bugs in what is deleted, and when."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tidegate.checkpoint import effects as ef
from tidegate.checkpoint import events as ev
from tidegate.checkpoint import lifecycle
from tidegate.checkpoint.events import Event
from tidegate.checkpoint.phases import Active, State
from tidegate.checkpoint.plan import CheckpointPlan
from tidegate.checkpoint.retention import Retention
from tidegate.checkpoint.running import Looking
from tidegate.model.messages import CheckpointAborted
from tidegate.testing.model.world import Bounds
from tidegate.testing.model.worlds import harmful
from tidegate.testing.mutants.mutant import Catalogue, worlds
from tidegate.testing.mutants.planting import Planting
from tidegate.testing.mutants.publication import LOST_ANSWER, TWO_CHECKPOINTS, without_rule

retention = mutant = Catalogue()

RIVAL_LATER = Bounds("a rival after the first checkpoint", starts=2, attempts=2, checkpoints=2)


@mutant("rule 9, T36", "A chunk that the newest checkpoint shares with a retired one is deleted.", worlds(harmful(9)))
def a_shared_chunk_is_deleted(plant: Planting) -> None:
    without_rule(plant, 9)


@mutant("rule 9", "A fenced coordinator deletes the checkpoint its successor restored.", worlds(RIVAL_LATER))
def retired_before_the_newer_one_passed_its_look(plant: Planting) -> None:
    def wrong(original: Any, plan: CheckpointPlan, state: State, event: Event) -> Any:
        after, effects = original(plan, state, event)
        if isinstance(event, ev.ManifestStored) and isinstance(after, Active):
            run = after.run
            stored = next((one.manifest for one in run.flights if isinstance(one, Looking)), None)
            if stored is not None:
                round_ = run.retention.completed(stored).plan_round(plan.config.checkpoints_retained)
                effects = (*effects, ef.Delete(run.attempt, round_.garbage, 1_000))
        return after, effects

    plant.function(lifecycle.step, wrong)


@mutant(
    "rule 3, T36", "Chunks of a checkpoint given up are deleted at once; its manifest lands later.", worlds(LOST_ANSWER)
)
def a_checkpoint_given_up_is_deleted_at_once(plant: Planting) -> None:
    def wrong(original: Any, plan: CheckpointPlan, state: State, event: Event) -> Any:
        after, effects = original(plan, state, event)
        aborted = any(isinstance(e, ef.SendToSlots) and isinstance(e.message, CheckpointAborted) for e in effects)
        if aborted and isinstance(after, Active) and after.run.retention.abandoned:
            chunks = tuple(sorted(after.run.retention.abandoned[-1].chunks))
            effects = (*effects, ef.Delete(after.run.attempt, chunks, 1_000))
        return after, effects

    plant.function(lifecycle.step, wrong)


@mutant("T43", "The newest checkpoint is retired instead of the oldest.", worlds(TWO_CHECKPOINTS))
def the_newest_checkpoint_is_retired(plant: Planting) -> None:
    def wrong(original: Any, self: Retention, *args: Any, **named: Any) -> Retention:
        if len(self.kept) < 2:
            return original(self, *args, **named)
        return original(replace(self, kept=tuple(reversed(self.kept))), *args, **named)

    plant.method(Retention, "plan_round", wrong)
