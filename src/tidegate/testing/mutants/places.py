"""Bugs in stored state, in the driver and the slots on Spark, and in connectors, where no simulated world comes. Unit and property tests judge them."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidegate.checkpoint import effects as fx
from tidegate.checkpoint.events import SinksCommitted, SinksFailed
from tidegate.model.errors import Unavailable
from tidegate.model.ids import Attempt
from tidegate.model.snapshot import Committable, Split
from tidegate.operators.source import SourceOperator
from tidegate.state.capture import Capture
from tidegate.state.chain import Chain
from tidegate.state.columns import Rows
from tidegate.state.table import KeyedTable
from tidegate.state.zones import ExpiryZones
from tidegate.testing.mutants.mutant import Catalogue, tests
from tidegate.testing.mutants.planting import Planting

places = mutant = Catalogue()


def shell(module: str) -> Any:
    """A module of the shell, by name: this package stands below it, and tests of the core need not load it."""
    return import_module(f"tidegate.{module}")


@mutant(
    "T70",
    "A reader counts as drained that has been told the time and has not passed it on: processAllAvailable returns too early.",
    tests("tests/unit/operators/test_source.py"),
)
def what_was_told_counts_as_passed_on(plant: Planting) -> None:
    def wrong(original: Any, self: SourceOperator) -> bool:
        self._has_news = False
        return original(self)

    plant.method(SourceOperator, "drained", wrong)


@mutant(
    "T23",
    "Rows that move when room is given back count as unchanged: the next delta chunk leaves them out.",
    tests("tests/property/test_keyed_table.py"),
)
def a_row_that_moves_counts_as_unchanged(plant: Planting) -> None:
    def wrong(original: Any, self: KeyedTable, *dead_rows_min: int) -> Rows | None:
        kept = original(self, *dead_rows_min)
        if kept is not None:
            self._changed_epoch = np.zeros_like(self._changed_epoch)
        return kept

    plant.method(KeyedTable, "compact", wrong)


@mutant(
    "T23",
    "The row that a snapshot would copy next is not copied before it changes: it is in the chunk as it is later, or not at all.",
    tests("tests/property/test_many_keys.py", "tests/property/test_keyed_table.py"),
)
def the_row_at_the_cursor_is_not_rescued(plant: Planting) -> None:
    def wrong(original: Any, self: Capture, rows: Rows, changed_epoch: NDArray[np.int32]) -> Rows:
        return original(self, rows[rows != self._cursor], changed_epoch)

    plant.method(Capture, "endangered", wrong)


@mutant(
    "T26",
    "Rows of a join that expire exactly at the watermark stay: they leave with the next one, or never.",
    tests("tests/unit/state/test_zones.py"),
)
def a_row_that_expires_now_stays(plant: Planting) -> None:
    plant.method(ExpiryZones, "expired", lambda original, self, until_us: original(self, until_us - 1))


@mutant(
    "T39",
    "A delta builds upon links that an unconfirmed checkpoint has left out, and whose files may be gone.",
    tests("tests/property/test_chain.py"),
)
def what_unconfirmed_checkpoints_left_out_counts_as_safe(plant: Planting) -> None:
    plant.method(Chain, "safe_links", lambda original, self: self.links)


@mutant(
    "T64",
    "A second process registers for a slot and is let in: its heartbeats hide that the first is gone.",
    tests("tests/unit/spark/test_copies.py"),
)
def a_second_copy_of_a_slot_is_let_in(plant: Planting) -> None:
    plant.function(shell("spark.copies").started_again, lambda original, known, now: None)


@mutant(
    "T11",
    "A slot tells the driver that a chunk is stored although the store has refused it: the checkpoint cannot be restored.",
    tests("tests/unit/spark/test_uploads.py"),
)
def a_refused_chunk_counts_as_stored(plant: Planting) -> None:
    def wrong(original: Any, self: Any, *chunk: Any) -> None:
        try:
            original(self, *chunk)
        except Unavailable:
            return

    plant.method(shell("spark.uploads").Uploader, "_put", wrong)


@mutant(
    "T3",
    "The driver takes a commit that failed for done: its output is never committed again, and lost.",
    tests("tests/unit/spark/test_outside.py"),
)
def a_failed_commit_counts_as_done(plant: Planting) -> None:
    def wrong(original: Any, self: Any, commit: fx.CommitSinks) -> Any:
        answer = original(self, commit)
        if isinstance(answer, SinksFailed):
            return SinksCommitted(answer.now_ms, commit.attempt, commit.checkpoint)
        return answer

    plant.method(shell("spark.outside").Outside, "_commit", wrong)


@mutant(
    "T54",
    "The clean-up of a file sink takes files that the restored checkpoint still has to publish: rows lost.",
    tests("tests/unit/connectors/test_file_sink.py", "tests/unit/connectors/test_file_sink_in_a_job.py"),
)
def a_sweep_of_files_keeps_nothing(plant: Planting) -> None:
    def wrong(original: Any, self: Any, older_than: Attempt, keep: tuple[Committable, ...]) -> None:
        original(self, older_than, keep[:0])

    plant.method(shell("connectors.files.committer").FileSinkCommitter, "sweep", wrong)


@mutant(
    "T35",
    "A restored source plans its splits anew instead of going on with those of the checkpoint: positions belong to others.",
    tests("tests/unit/connectors/test_rate.py"),
)
def restored_splits_are_planned_again(plant: Planting) -> None:
    def wrong(original: Any, self: Any, state: bytes, known: tuple[Split, ...]) -> tuple[Split, ...]:
        original(self, state, known)
        self._splits = None
        return self.discover(0)

    plant.method(shell("connectors.fixed_splits").FixedEnumerator, "restore", wrong)


@mutant(
    "T35",
    "Files that somebody was reading at the checkpoint are not remembered: they are found again and read twice.",
    tests("tests/unit/connectors/test_discovery.py"),
)
def open_files_are_found_again(plant: Planting) -> None:
    def wrong(original: Any, self: Any, state: bytes, known: tuple[Split, ...]) -> Any:
        return original(self, state, known[:0])

    plant.method(shell("connectors.files.discovery").FileEnumerator, "restore", wrong)


@mutant(
    "T74",
    "Kafka's note of a checkpoint is written after its transactions are committed. A driver that dies in between leaves rows that no note "
    "names: a location that is set back within its attempt is not recognised, and they come twice.",
    tests("tests/unit/connectors/test_kafka_publication_notes.py"),
)
def transactions_are_committed_before_their_note(plant: Planting) -> None:
    def wrong(original: Any, self: Any, committables: Any, handles: Any) -> None:
        self._wire.end_all(handles, commit=True)
        original(self, committables, handles)

    plant.method(shell("connectors.kafka.sink.committer").KafkaCommitter, "_note", wrong)
