"""Bugs of barriers that overtake rows, and of what may not hold rows back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tidegate.model.config import CheckpointMode
from tidegate.runtime import alignment, in_flight
from tidegate.runtime import overtaking as real
from tidegate.runtime.alignment import Alignment
from tidegate.runtime.effects import Persist
from tidegate.runtime.in_flight import Restored
from tidegate.testing.mutants.barriers import CRASHES
from tidegate.testing.mutants.mutant import Catalogue, seeds
from tidegate.testing.mutants.planting import Planting

overtaking = mutant = Catalogue()

SLOW_CRASHES = replace(CRASHES, channel_slow=0.3)


@mutant("T52", "Alignment is switched off where exactly once was promised: rows twice.", seeds(6, faults=CRASHES))
def exactly_once_holds_nothing(plant: Planting) -> None:
    def wrong(original: Any, mode: CheckpointMode) -> Alignment:
        return original(CheckpointMode.AT_LEAST_ONCE)

    plant.function(alignment.at_start, wrong)


@mutant("T14", "Rows that a barrier overtook are not read back: rows lost.", seeds(41, 17, faults=SLOW_CRASHES))
def overtaken_rows_are_not_restored(plant: Planting) -> None:
    plant.function(in_flight.restored_rows, lambda original, *args, **named: Restored([]))


@mutant("T14", "Rows that a barrier overtook come back twice.", seeds(41, 17, faults=SLOW_CRASHES))
def overtaken_rows_are_restored_twice(plant: Planting) -> None:
    def wrong(original: Any, *args: Any, **named: Any) -> Restored:
        restored = original(*args, **named)
        return Restored([*restored.overtaken, *restored.overtaken])

    plant.function(in_flight.restored_rows, wrong)


@mutant(
    "T14",
    "Rows still on their way when a barrier overtook them are in no snapshot: rows lost.",
    seeds(41, 17, faults=SLOW_CRASHES),
)
def rows_on_their_way_are_not_noted(plant: Planting) -> None:
    def wrong(original: Any, self: Any) -> Persist:
        self.rows.clear()
        return original(self)

    plant.method(real._Recording, "finished", wrong)
