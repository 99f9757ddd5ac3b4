"""Bugs in what is said of files when they are found: where a batch begins, and which times they hold."""

from __future__ import annotations

from typing import Any

from tidegate.eventtime.batches import Batches
from tidegate.testing.mutants.mutant import Catalogue, tests, timed
from tidegate.testing.mutants.places import shell
from tidegate.testing.mutants.planting import Planting
from tidegate.testing.simulation.faults import Faults

batches = mutant = Catalogue()


@mutant(
    "T69",
    "Batches are counted over a source's whole life: those of a burst lie askew, and its last rows are late, lost.",
    timed(85, faults=Faults()),
)
def a_burst_is_cut_in_the_middle_of_its_first_batch(plant: Planting) -> None:
    plant.method(Batches, "rest", lambda original, self: None)


@mutant(
    "T86",
    "What has been read fills a batch after a restore: those of the next burst lie askew, and its last rows are late, lost.",
    tests("tests/unit/connectors/test_discovery.py"),
)
def what_was_read_fills_a_batch_after_a_restore(plant: Planting) -> None:
    def wrong(original: Any, self: Batches, size_bytes: int, *, cut: bool | None, done: bool) -> bool:
        return original(self, size_bytes, cut=cut, done=False)

    plant.method(Batches, "resume", wrong)


@mutant(
    "T86",
    "A restart cuts anew from the first file that is unread: rows are late that are on time without it, lost.",
    tests("tests/unit/connectors/test_discovery.py"),
)
def a_restart_cuts_other_batches(plant: Planting) -> None:
    def wrong(original: Any, self: Batches, size_bytes: int, *, cut: bool | None, done: bool) -> bool:
        return original(self, size_bytes, cut=None, done=done)

    plant.method(Batches, "resume", wrong)


@mutant(
    "T69",
    "A file that arrives alone never says its times: event time stops until all of a backlog has been read, state holds all of it.",
    tests("tests/unit/connectors/test_file_times.py"),
)
def a_live_file_ends_the_bound_of_a_backlog(plant: Planting) -> None:
    def wrong(original: Any, self: Any, *args: Any) -> Any:
        self._backlog_stop = 0
        return original(self, *args)

    plant.method(shell("connectors.files.discovery").FileEnumerator, "_timed", wrong)
