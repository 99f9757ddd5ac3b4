"""Bugs in what chunks hold of deleted keys, and in numbers and commits that are written down. The tests that own the place must find them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import polars as pl

from tidegate.checkpoint import effects as ef
from tidegate.checkpoint import ending, marking, recovering, recovery
from tidegate.checkpoint.events import Facts
from tidegate.checkpoint.phases import Ending
from tidegate.model.ids import CheckpointId
from tidegate.operators.horizon import Horizon
from tidegate.operators.sessions import SessionAggregateOperator
from tidegate.runtime.input_subtask import InputSubtask
from tidegate.state.chunk import RestoredChunk
from tidegate.state.entries import EntryTable
from tidegate.state.entries_in_memory import EntriesInMemory
from tidegate.state.table import KeyedTable
from tidegate.testing.model.worlds import LOST_MANIFEST
from tidegate.testing.mutants.barriers import CRASHES
from tidegate.testing.mutants.mutant import Catalogue, seeds, tests, worlds
from tidegate.testing.mutants.planting import Planting

stored = mutant = Catalogue()

MANY_KEYS = tests("tests/property/test_many_keys.py")


@mutant(
    "T80",
    "A table forgets what was deleted as soon as a checkpoint completes, although the base chunk has the keys: they come back.",
    MANY_KEYS,
)
def a_tombstone_goes_before_its_base_chunk(plant: Planting) -> None:
    def wrong(original: Any, self: KeyedTable, checkpoint: CheckpointId) -> None:
        original(self, checkpoint)
        self._tombstones = [entry for entry in self._tombstones if entry[0] > self._chain.until]

    plant.method(KeyedTable, "on_completed", wrong)


@mutant(
    "T80",
    "Point state forgets which entries changed below the newest chunk: a merge leaves their deletions out.",
    MANY_KEYS,
)
def changes_go_before_their_base_chunk(plant: Planting) -> None:
    def wrong(original: Any, self: EntryTable, checkpoint: CheckpointId) -> None:
        original(self, checkpoint)
        self._changed = {epoch: known for epoch, known in self._changed.items() if epoch > self._chain.until}

    plant.method(EntryTable, "on_completed", wrong)


@mutant("T80", "A key that was deleted and written again is buried at the restore: its row is lost.", MANY_KEYS)
def a_delete_is_buried_after_a_later_upsert(plant: Planting) -> None:
    def wrong(original: Any, self: KeyedTable, chunks: Any) -> None:
        original(self, [_buried(chunk, self._key_names()) for chunk in chunks])

    plant.method(KeyedTable, "restore", wrong)


def _buried(chunk: RestoredChunk, keys: list[str]) -> RestoredChunk:
    if "deleted" not in chunk.rows.columns or not keys:
        return chunk
    graves, live = chunk.rows.filter("deleted"), chunk.rows.filter(~pl.col("deleted"))
    return replace(chunk, rows=pl.concat([graves, live.join(graves, on=keys, how="anti", nulls_equal=True)]))


@mutant("T80", "A row that goes while a snapshot is being copied is not in it: lost by a restore.", MANY_KEYS)
def a_row_that_goes_is_not_rescued(plant: Planting) -> None:
    def wrong(original: Any, self: KeyedTable, rows: Any, *, tombstones: bool) -> None:
        capture, self._capture = self._capture, None
        original(self, rows, tombstones=tombstones)
        self._capture = capture

    plant.method(KeyedTable, "remove", wrong)


@mutant("T80", "An entry that goes while a snapshot is being copied is not in it: lost by a restore.", MANY_KEYS)
def an_entry_that_goes_is_not_rescued(plant: Planting) -> None:
    def wrong(original: Any, self: EntryTable, cell: bytes, sub: bytes = b"") -> bool:
        capture, self._capture = self._capture, None
        there = original(self, cell, sub)
        self._capture = capture
        return there

    plant.method(EntryTable, "delete", wrong)


@mutant("T80", "A cell that changes while everything is being copied is copied as it is afterwards.", MANY_KEYS)
def a_frozen_cell_is_not_rescued(plant: Planting) -> None:
    plant.method(EntriesInMemory, "_rescue", lambda original, self, cell: None)


@mutant(
    "T26",
    "A session that ended exactly at the watermark had left, and comes back with the state: rows twice.",
    tests(
        "tests/property/test_sessions.py::test_a_session_that_ends_exactly_at_the_watermark_has_left_and_does_not_come_back"
    ),
)
def a_session_at_the_watermark_comes_back(plant: Planting) -> None:
    class Short(Horizon):
        def restored_until_us(self, chunk: RestoredChunk) -> Any:
            return super().restored_until_us(chunk) - 1

    def wrong(original: Any, self: SessionAggregateOperator, chunk: RestoredChunk) -> RestoredChunk:
        self._horizon.__class__ = Short
        try:
            return original(self, chunk)
        finally:
            self._horizon.__class__ = Horizon

    plant.method(SessionAggregateOperator, "_without_closed", wrong)


@mutant(
    "T14",
    "An operator with two inputs reads on in the second while the first has its barrier: rows twice.",
    seeds(29, faults=CRASHES),
)
def the_second_input_is_not_held(plant: Planting) -> None:
    def wrong(original: Any, self: InputSubtask, following: Any) -> None:
        original(self, following)
        second = max(one.edge for one in self._channels)
        if second != min(one.edge for one in self._channels):
            self._held = frozenset(one for one in self._held if one.edge != second)

    plant.method(InputSubtask, "_align", wrong)


@mutant(
    "T73",
    "With its manifest a number has gone from the location, and is given out again: a sink that compares numbers skips the rows.",
    worlds(LOST_MANIFEST),
)
def a_number_that_a_target_knows_is_used_again(plant: Planting) -> None:
    def wrong(original: Any, facts: Facts) -> CheckpointId:
        restored = {attempt: msgspec.structs.replace(one, accepted=()) for attempt, one in facts.restored.items()}
        return original(replace(facts, published=(), restored=restored))

    plant.function(recovery._next, wrong)


MARKING = tests("tests/unit/checkpoint/test_marking.py")


@mutant(
    "T77",
    "The commit that a stop waited for is not written down: once the target has forgotten it, the next start reports lost output.",
    tests("tests/unit/checkpoint/test_lifecycle.py"),
)
def the_commit_of_a_stop_is_not_recorded(plant: Planting) -> None:
    def wrong(original: Any, state: Ending, now_ms: int, checkpoint: CheckpointId) -> Any:
        after, effects = original(state, now_ms, checkpoint)
        unmarked = replace(after, marking=None)
        return unmarked, tuple(one for one in effects if not isinstance(one, ef.MarkCommitted))

    plant.function(ending.committed, wrong)


@mutant(
    "T77",
    "A stop during a recovery leaves at once: the restored commit that was running is not written down.",
    MARKING,
)
def a_stop_does_not_wait_for_a_restored_commit(plant: Planting) -> None:
    def wrong(original: Any, plan: Any, state: Any, now_ms: int, outcome: ef.Outcome) -> Any:
        return ending.over(outcome, state.session)

    plant.function(ending.undeployed, wrong)


@mutant("T77", "A marker that the store refused once is never written.", MARKING)
def a_refused_marker_is_forgotten(plant: Planting) -> None:
    plant.function(marking.on_unmarked, lambda original, now, ref, now_ms: marking.on_marked(now, ref))


@mutant("T77", "A store that takes no marker holds up a stop for ever.", MARKING)
def a_stop_waits_for_ever(plant: Planting) -> None:
    plant.function(ending._until_ms, lambda original, *known: None)


@mutant("T74", "What a marker calls visible is committed again, to a target that was set back.", MARKING)
def marked_output_is_committed_again(plant: Planting) -> None:
    plant.function(
        recovering.act,
        lambda original, plan, session, attempt, choice, now_ms: original(
            plan, session, attempt, replace(choice, published=False), now_ms
        ),
    )
