"""Bugs in the order of output: everything comes once, and in the wrong place."""

from __future__ import annotations

from typing import Any

from tidegate.checkpoint.manifest import Manifest
from tidegate.testing.mutants.mutant import Catalogue, seeds
from tidegate.testing.mutants.planting import Planting
from tidegate.testing.simulation.faults import Faults
from tidegate.testing.simulation.sinks import SimulatedWriter

order = mutant = Catalogue()


@mutant(
    "T75",
    "Rows of the next checkpoint are sent while some of this one are still on their way: an older value of a key stands last.",
    seeds(114, 116, faults=Faults(send_slow=0.3)),
)
def the_next_transaction_does_not_wait(plant: Planting) -> None:
    def wrong(original: Any, self: SimulatedWriter) -> int:
        behind = self._sealed[-1][2].stop if self._sealed else 0
        return next((number for number in self._unsent if number >= behind), original(self))

    plant.method(SimulatedWriter, "_next_to_send", wrong)


@mutant(
    "T75",
    "Output that waits for its commit becomes visible newest first: an older value of a key stands last.",
    seeds(5, 9, faults=Faults(commit_fails=0.6, slot_crash=0.4)),
)
def the_newest_output_is_committed_first(plant: Planting) -> None:
    def wrong(original: Any, self: Manifest) -> Any:
        return tuple((sink, tuple(reversed(some))) for sink, some in original(self))

    plant.method(Manifest, "committables", wrong)
