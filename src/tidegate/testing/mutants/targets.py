"""Bugs in what the targets of files, Delta and Iceberg remember. The tests of their memory judge them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tidegate.checkpoint import remembered
from tidegate.checkpoint.events import Facts
from tidegate.model.ids import CheckpointId
from tidegate.model.snapshot import NOTHING_PUBLISHED, Published
from tidegate.testing.mutants.mutant import Catalogue, tests
from tidegate.testing.mutants.places import shell
from tidegate.testing.mutants.planting import Planting

targets = mutant = Catalogue()

REMEMBERED = tests("tests/unit/checkpoint/test_remembered.py")
LAKES = tests("tests/integration/connectors/test_lake_memory.py")
LAKE_NUMBERS = tests("tests/unit/connectors/test_lake_memory.py")
FILES = tests("tests/unit/connectors/test_published_files.py", "tests/unit/connectors/test_file_sink.py")


def attempt_only(original: Any, self: Any) -> Published | None:
    found = original(self)
    return None if found is None else Published(found.attempt, CheckpointId(0))


@mutant(
    "T73", "A Delta table tells its attempt and no number: a lost manifest is not noticed, and rows come twice.", LAKES
)
def delta_tells_no_number(plant: Planting) -> None:
    plant.method(shell("connectors.delta.committer").DeltaCommitter, "published", attempt_only)


@mutant(
    "T73",
    "An Iceberg table tells its attempt and no number: a lost manifest is not noticed, and rows come twice.",
    LAKES,
)
def iceberg_tells_no_number(plant: Planting) -> None:
    plant.method(shell("connectors.iceberg.committer").IcebergCommitter, "published", attempt_only)


@mutant(
    "T73", "A directory tells its attempt and no number: a lost manifest is not noticed, and rows come twice.", FILES
)
def files_tell_no_number(plant: Planting) -> None:
    plant.method(shell("connectors.files.committer").FileSinkCommitter, "published", attempt_only)


@mutant(
    "T73", "A lake table compares attempts alone: the next checkpoint of the same attempt is skipped.", LAKE_NUMBERS
)
def a_lake_compares_attempts_alone(plant: Planting) -> None:
    def wrong(original: Any, one: Published, than: Published | None) -> bool:
        return than is None or one.attempt > than.attempt

    plant.function(shell("connectors.lake.memory").is_newer, wrong)


@mutant(
    "T73",
    "A lake table compares numbers alone: a number that a later attempt was given again is skipped.",
    LAKE_NUMBERS,
)
def a_lake_compares_numbers_alone(plant: Planting) -> None:
    def wrong(original: Any, one: Published, than: Published | None) -> bool:
        return than is None or one.checkpoint > than.checkpoint

    plant.function(shell("connectors.lake.memory").is_newer, wrong)


@mutant("T73", "A directory compares attempts alone: the next checkpoint of the same attempt is skipped.", FILES)
def files_compare_attempts_alone(plant: Planting) -> None:
    module = shell("connectors.files.committer")

    def wrong(original: Any, self: Any, committables: Any) -> None:
        try:
            newest = self._ledger.newest()
        except OSError:
            return original(self, committables)
        return original(self, tuple(one for one in committables if _attempt(module, one) > newest.attempt))

    plant.method(module.FileSinkCommitter, "commit", wrong)


def _attempt(module: Any, one: Any) -> int:
    files = module.decode(one.payload).files
    return max((module.attempt_of(file.staged.rpartition("/")[2]) or 0 for file in files), default=0)


@mutant("T74", "A lake table that is set back while the query runs gets again what slots hand on once more.", LAKES)
def a_lake_forgets_what_this_driver_brought(plant: Planting) -> None:
    plant.method(shell("connectors.lake.memory").Known, "newest", lambda original, self, found: found)


@mutant("T74", "A directory that is set back while the query runs gets again what slots hand on once more.", FILES)
def files_forget_what_this_driver_brought(plant: Planting) -> None:
    ledgers = shell("connectors.files.ledger")

    def wrong(original: Any, self: Any) -> Any:
        self._newest = ledgers.NOTHING
        return original(self)

    plant.method(ledgers.RecordLedger, "newest", wrong)


@mutant(
    "T74",
    "A target that was dropped and made again is not mentioned: what is missing from it is missed by people.",
    REMEMBERED,
)
def a_target_made_again_is_not_mentioned(plant: Planting) -> None:
    def wrong(original: Any, facts: Facts, *history: Any) -> Any:
        known = tuple((sink, one) for sink, one in facts.published if one != NOTHING_PUBLISHED)
        return original(replace(facts, published=known), *history)

    plant.function(remembered.brought_back, wrong)


@mutant(
    "T74", "An attempt that published nothing hides that a target was set back: only its own marker counts.", REMEMBERED
)
def an_attempt_without_output_hides_a_target_that_was_set_back(plant: Planting) -> None:
    def wrong(original: Any, facts: Facts, manifest: Any, history: Any) -> Any:
        return original(facts, manifest, history[:1])

    plant.function(remembered.brought_back, wrong)
