"""All mutants, and those that every test run hunts."""

from __future__ import annotations

from tidegate.testing.mutants.barriers import barriers
from tidegate.testing.mutants.batches import batches
from tidegate.testing.mutants.cohorts import cohorts
from tidegate.testing.mutants.event_time import event_time
from tidegate.testing.mutants.flights import flights
from tidegate.testing.mutants.keyed import keyed
from tidegate.testing.mutants.mutant import Mutant, Tests, TimedSeeds
from tidegate.testing.mutants.order import order
from tidegate.testing.mutants.overtaking import overtaking
from tidegate.testing.mutants.places import places
from tidegate.testing.mutants.publication import publication
from tidegate.testing.mutants.recovery import recovery
from tidegate.testing.mutants.retention import retention
from tidegate.testing.mutants.savepoints import savepoints
from tidegate.testing.mutants.sources import sources
from tidegate.testing.mutants.state import state
from tidegate.testing.mutants.stored import stored
from tidegate.testing.mutants.targets import targets

MUTANTS: tuple[Mutant, ...] = (
    *publication.mutants,
    *recovery.mutants,
    *retention.mutants,
    *flights.mutants,
    *savepoints.mutants,
    *barriers.mutants,
    *overtaking.mutants,
    *state.mutants,
    *keyed.mutants,
    *stored.mutants,
    *places.mutants,
    *targets.mutants,
    *sources.mutants,
    *event_time.mutants,
    *cohorts.mutants,
    *batches.mutants,
    *order.mutants,
)
BY_NAME: dict[str, Mutant] = {mutant.name: mutant for mutant in MUTANTS}
QUICK: tuple[Mutant, ...] = tuple(
    BY_NAME[name]
    for name in (
        "commit-before-the-look",
        "look-before-the-write",
        "commit-before-the-manifest",
        "an-unknown-write-counts-as-failed",
        "a-manifest-carries-only-its-own-committables",
        "a-hand-back-is-forgotten",
        "a-later-checkpoint-passes-one-that-was-handed-back",
        "what-is-visible-is-tried-again-with-a-hand-back",
        "a-dead-branch-is-restored",
        "a-shared-chunk-is-deleted",
        "a-savepoint-carries-committables",
        "the-final-checkpoint-is-skipped",
        "one-exhausted-reader-counts-for-all",
        "the-second-input-is-not-held",
        "a-number-that-a-target-knows-is-used-again",
    )
)
"""Seconds: part of every test run."""
TIMED: tuple[Mutant, ...] = (
    *(
        mutant
        for mutant in (*cohorts.mutants, *batches.mutants, *event_time.mutants)
        if isinstance(mutant.judge, TimedSeeds)
    ),
    *order.mutants,
)
"""Bugs that only a judge of event time, or of order, can see; part of every test run as well."""
TESTED: tuple[Mutant, ...] = tuple(mutant for mutant in MUTANTS if isinstance(mutant.judge, Tests))
"""Bugs that no simulated world sees, and the tests of their place do."""
