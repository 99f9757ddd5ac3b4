"""Bugs with several checkpoints in flight: subsumption, order, what their snapshots build upon."""

from __future__ import annotations

from tidegate.checkpoint import assembly, cleanup, flight
from tidegate.checkpoint.retention import NOTHING_PINNED, Retention
from tidegate.testing.model.world import Bounds
from tidegate.testing.mutants.mutant import Catalogue, worlds
from tidegate.testing.mutants.planting import Planting

flights = mutant = Catalogue()

TWO = Bounds("two in flight", starts=1, attempts=1, checkpoints=3, concurrent=2)
TWO_AND_AN_ANSWER = Bounds(
    "two in flight, a lost answer", starts=1, attempts=1, checkpoints=3, concurrent=2, lost_answers=1
)
TWO_AND_A_CRASH = Bounds("two in flight, a crash", starts=2, attempts=2, checkpoints=2, concurrent=2, crashes=1)


@mutant(
    "T7",
    "A late acknowledgement completes a checkpoint that a newer one has overtaken: recovery goes back.",
    worlds(TWO),
)
def a_subsumed_checkpoint_completes_late(plant: Planting) -> None:
    plant.function(flight.overtaken, lambda original, plan, run, now_ms, by: (run, ()))


@mutant("T22, T36", "What a checkpoint in flight builds upon is deleted.", worlds(TWO, TWO_AND_A_CRASH))
def the_base_of_a_checkpoint_in_flight_is_retired(plant: Planting) -> None:
    plant.function(cleanup._pins, lambda original, run: NOTHING_PINNED)
    # The coordinator itself would notice that the chunk is not among those it knows.
    plant.function(assembly.strangers, lambda original, ref, known, acks: frozenset())


@mutant(
    "rule 3, T36",
    "A manifest that landed unseen names chunks of a checkpoint that is retired meanwhile.",
    worlds(TWO_AND_AN_ANSWER),
)
def the_base_of_an_unknown_manifest_is_retired(plant: Planting) -> None:
    plant.method(Retention, "gave_up", lambda original, self, ref, chunks, since=None: original(self, ref, chunks))
