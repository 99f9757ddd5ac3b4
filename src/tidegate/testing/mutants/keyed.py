"""Bugs in the state of sessions, deduplication and joins of streams: what is forgotten, and what comes back."""

from __future__ import annotations

from typing import Any

import polars as pl

from tidegate.operators.deduplicate import DeduplicateOperator
from tidegate.operators.horizon import Horizon
from tidegate.operators.join_state import StoredSide
from tidegate.operators.sessions import SessionAggregateOperator
from tidegate.operators.stream_join import StreamJoinOperator
from tidegate.state.chunk import RestoredChunk
from tidegate.testing.mutants.barriers import CRASHES
from tidegate.testing.mutants.mutant import Catalogue, seeds, tests
from tidegate.testing.mutants.planting import Planting

keyed = mutant = Catalogue()


@mutant(
    "T26",
    "Sessions that had left before the barrier come back with the state: rows twice.",
    tests(
        "tests/property/test_sessions.py::test_a_session_that_ends_exactly_at_the_watermark_has_left_and_does_not_come_back"
    ),
)
def closed_sessions_come_back(plant: Planting) -> None:
    plant.method(SessionAggregateOperator, "_without_closed", lambda original, self, chunk: chunk)


@mutant("T59", "A deduplication starts empty after a restore: rows twice.", seeds(30, faults=CRASHES))
def a_deduplication_forgets_its_keys_at_restore(plant: Planting) -> None:
    def wrong(original: Any, self: DeduplicateOperator, restored: Any) -> None:
        original(self, type(restored)(values=restored.values))

    plant.method(DeduplicateOperator, "_restore", wrong)


@mutant(
    "T26",
    "Rows that had expired before the barrier come back and expire again: rows twice.",
    tests("tests/property/test_stream_join.py"),
)
def expired_rows_of_a_join_come_back(plant: Planting) -> None:
    class Oblivious(Horizon):
        def without_closed(self, chunk: RestoredChunk, time: pl.Expr) -> RestoredChunk:
            return chunk

    def wrong(original: Any, self: StoredSide, chunks: Any, horizon: Horizon) -> None:
        horizon.__class__ = Oblivious
        original(self, chunks, horizon)

    plant.method(StoredSide, "restore", wrong)


@mutant("T59", "One side of a join starts empty after a restore: partners are never found.", seeds(3, faults=CRASHES))
def a_join_forgets_one_side_at_restore(plant: Planting) -> None:
    def wrong(original: Any, self: StreamJoinOperator, restored: Any) -> None:
        original(self, restored)
        self._stored[0].take(self._stored[0]._table.all_rows())

    plant.method(StreamJoinOperator, "_restore", wrong)


@mutant("T59", "That a row has found a partner is not kept: it leaves alone as well, when it expires.", seeds(83))
def a_join_forgets_who_has_met(plant: Planting) -> None:
    plant.method(StoredSide, "mark", lambda original, self, rows: None)
