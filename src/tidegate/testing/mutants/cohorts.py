"""Bugs in how the driver makes time of whole splits: a cohort settles too early, too late, or with the wrong watermark."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from msgspec.structs import replace as changed

from tidegate.checkpoint import sources
from tidegate.checkpoint.cohorts import LOOKS_MAX, Cohorts
from tidegate.checkpoint.manifest import SourceState
from tidegate.checkpoint.sources import SplitAssigner
from tidegate.eventtime import delay
from tidegate.eventtime.delay import MILLISECOND_US
from tidegate.model.elements import WATERMARK_MIN_US
from tidegate.model.snapshot import FinishedSplit
from tidegate.testing.mutants.mutant import Catalogue, tests, timed
from tidegate.testing.mutants.planting import Planting
from tidegate.testing.simulation.faults import Faults

cohorts = mutant = Catalogue()

SETTLING = Faults(settling_crash=0.06, rescale=0.5)


@mutant(
    "T69",
    "A cohort settles when all of it is assigned: rows that nobody has read yet are late, lost.",
    timed(2, 4, faults=Faults()),
)
def a_cohort_settles_when_it_is_assigned(plant: Planting) -> None:
    def assigns(original: Any, self: SplitAssigner, *args: Any, **named: Any) -> Any:
        after, messages = original(self, *args, **named)
        given = tuple(FinishedSplit(one.split.number) for message in messages for one in message.splits)
        return (after if after.ordered else replace(after, cohorts=after.cohorts.finished(given))), messages

    def finishes(original: Any, self: Cohorts, splits: tuple[FinishedSplit, ...]) -> Cohorts:
        after = original(self, splits)
        largest_us = max((one.largest_us for one in splits), default=WATERMARK_MIN_US)
        settled_us = max(after.settled_us, largest_us)
        return replace(after, settled_us=settled_us, granted_us=after._granted(settled_us))

    plant.method(SplitAssigner, "assign", assigns)
    plant.method(Cohorts, "finished", finishes)


@mutant(
    "T86",
    "The manifest takes what the driver has granted, not what the acknowledgements say: rows behind the cut are late, lost.",
    timed(57, 80, faults=SETTLING),
)
def the_manifest_takes_the_live_cohorts(plant: Planting) -> None:
    stored: dict[SourceState, int] = {}

    def folds(original: Any, self: SplitAssigner, progress: Any) -> SourceState:
        state = original(self, progress)
        stored[state] = self.cohorts.granted_us
        return state

    def restores(original: Any, state: SourceState, *args: Any, **named: Any) -> SplitAssigner:
        after = original(state, *args, **named)
        granted_us = max(stored.get(state, WATERMARK_MIN_US), after.cohorts.granted_us)
        return replace(after, cohorts=replace(after.cohorts, granted_us=granted_us))

    plant.method(SplitAssigner, "fold", folds)
    plant.function(sources.restored, restores)


@mutant(
    "T86",
    "What has been read is not stored: after a restore nothing closes, windows stay open.",
    timed(71, 99, faults=SETTLING),
)
def what_was_read_is_not_stored(plant: Planting) -> None:
    def wrong(original: Any, self: SplitAssigner, progress: Any) -> SourceState:
        return changed(original(self, progress), read_us=WATERMARK_MIN_US)

    plant.method(SplitAssigner, "fold", wrong)


@mutant(
    "T69",
    "A cohort is granted at once, although the next one is known: with a limit its rows are late where Spark keeps them, lost.",
    timed(2, 32, faults=Faults()),
)
def grants_are_not_one_behind(plant: Planting) -> None:
    def wrong(original: Any, self: Cohorts) -> Cohorts:
        after = original(self)
        return replace(after, granted_us=after._granted(after.settled_us))

    plant.method(Cohorts, "_settled", wrong)


@mutant("T85", "Microseconds count: a row that Spark keeps is late, lost.", timed(3, 0, faults=Faults()))
def watermarks_have_microseconds(plant: Planting) -> None:
    plant.function(delay.watermark_at, lambda original, largest_us, delay_us: largest_us - delay_us)


@mutant(
    "T69",
    "Time goes on to the very row where an unread split begins: that row is late, lost.",
    timed(10, 67, faults=Faults()),
)
def time_reaches_the_first_unread_row(plant: Planting) -> None:
    def wrong(original: Any, self: Cohorts) -> Cohorts:
        return _shifted(original(_shifted(self, MILLISECOND_US)), -MILLISECOND_US)

    plant.method(Cohorts, "_within_statistics", wrong)


def _shifted(now: Cohorts, by_us: int) -> Cohorts:
    return replace(now, earliest=tuple((at_us + by_us, number) for at_us, number in now.earliest))


@mutant(
    "T70",
    "A cohort closes at the look that found it: a burst is cut, and its second half is late, lost.",
    timed(45, 119, faults=Faults()),
)
def a_cohort_closes_at_the_look_that_found_it(plant: Planting) -> None:
    def wrong(original: Any, self: Cohorts, fresh: Any, *, found: bool, last: bool = False) -> Cohorts:
        del found
        return original(self, fresh, found=False, last=last)

    plant.method(Cohorts, "looked", wrong)


@mutant(
    "T69",
    "A cohort stays open while files come: those that never stop coming stop time.",
    timed(1, 5, faults=Faults()),
)
def a_cohort_stays_open_while_files_come(plant: Planting) -> None:
    def wrong(original: Any, self: Cohorts) -> Cohorts:
        return original(replace(self, looks=min(self.looks, LOOKS_MAX - 1)))

    plant.method(Cohorts, "_closed", wrong)


@mutant(
    "T86",
    "What returns after a restore counts with the next cohort, however far behind it lies: what follows it is late, lost.",
    tests("tests/unit/checkpoint/test_cohorts.py"),
)
def what_is_read_early_counts_with_the_next_cohort(plant: Planting) -> None:
    def wrong(original: Any, self: Cohorts, splits: Any) -> tuple[tuple[int, int], ...]:
        later = original(self, splits)
        return ((self.stop, max(at_us for _, at_us in later)),) if later and self.stop is not None else later

    plant.method(Cohorts, "_with_later", wrong)
