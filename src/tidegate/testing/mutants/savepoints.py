"""Bugs around savepoints: what they hold, when they are written, and what may follow them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tidegate.checkpoint import committing
from tidegate.checkpoint import savepoint as real
from tidegate.checkpoint.events import Afterwards
from tidegate.checkpoint.orders import Orders
from tidegate.checkpoint.running import Running
from tidegate.testing.model.world import Bounds
from tidegate.testing.mutants.mutant import Catalogue, worlds
from tidegate.testing.mutants.planting import Planting

savepoints = mutant = Catalogue()

SAVEPOINT = Bounds("a savepoint", starts=1, attempts=1, checkpoints=2, savepoints=1, afterwards=tuple(Afterwards))
RUN_ON = Bounds("a savepoint of a running query", starts=1, attempts=1, checkpoints=3, savepoints=1)


@mutant(
    "rule 8",
    "A savepoint is exported before its output is visible: started elsewhere, rows are lost.",
    worlds(SAVEPOINT),
)
def a_savepoint_is_exported_before_the_commit(plant: Planting) -> None:
    def wrong(original: Any, run: Running, now_ms: int) -> Any:
        run, effects = original(run, now_ms)
        if run.base is None:
            return run, effects
        orders, export = run.orders.visible(run.attempt, run.base)
        return replace(run, orders=orders), (*export, *effects)

    plant.function(committing.ask_first, wrong)


@mutant(
    "rule 8",
    "A savepoint carries committables: whoever starts from it publishes them again, rows twice.",
    worlds(SAVEPOINT),
)
def a_savepoint_carries_committables(plant: Planting) -> None:
    plant.function(real.without_committables, lambda original, manifest: manifest)


@mutant(
    "T49, T50",
    "Checkpoints go on behind the savepoint to stop with: started from it, rows come twice.",
    worlds(SAVEPOINT),
)
def checkpoints_follow_the_savepoint_to_stop_with(plant: Planting) -> None:
    plant.method(Orders, "holds", lambda original, self: False)


@mutant("rule 9", "Files of a savepoint are deleted while they are being copied.", worlds(RUN_ON))
def a_checkpoint_is_retired_while_it_is_exported(plant: Planting) -> None:
    plant.method(Orders, "pinned", lambda original, self: frozenset())
