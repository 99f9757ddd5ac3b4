"""Bugs in keyed state and its chunks: when they are copied, what they are called, how they come back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from tidegate.checkpoint import layout
from tidegate.model.errors import Unavailable
from tidegate.model.ids import Attempt, CheckpointId, OperatorId, SlotIndex
from tidegate.model.snapshot import ChunkHandle, KeyGroupRange
from tidegate.operators.aggregate import AggregateOperator
from tidegate.runtime import persisting, restore
from tidegate.state.chain import Chain
from tidegate.state.chunk import NewChunk, RestoredChunk
from tidegate.state.table import KeyedTable
from tidegate.testing.mutants.barriers import CRASHES
from tidegate.testing.mutants.mutant import Catalogue, seeds, tests
from tidegate.testing.mutants.planting import Planting
from tidegate.testing.simulation.faults import Faults

state = mutant = Catalogue()

STORE_FAILS = Faults(create_fails=0.3, create_answer_lost=0.2, slot_crash=0.2, driver_crash=0.1)
QUICK_DEATHS = Faults(slot_crash=0.9, driver_crash=0.5)
LOST_NOTICES = Faults(notice_lost=0.6, slot_crash=0.3, create_fails=0.1)
RESCALES = Faults(driver_crash=0.5, rescale=1.0)


class _LateChunk(NewChunk):
    """Reads the table when it is uploaded, not when the barrier passed."""

    __slots__ = ("_since", "_table")

    def __init__(self, table: KeyedTable, since: int, groups: KeyGroupRange) -> None:
        super().__init__(None, groups)
        self._table = table
        self._since = since

    @property
    def complete(self) -> bool:
        return True

    @property
    def rows(self) -> pl.DataFrame:
        table, count = self._table, self._table._index.rows
        changed = table._alive[:count] & (table._changed_epoch[:count] > self._since)
        return table._copied(np.flatnonzero(changed))


@mutant("T23", "State is encoded after later rows have changed it: rows twice.", seeds(faults=CRASHES))
def state_is_copied_at_the_upload(plant: Planting) -> None:
    def wrong(original: Any, self: KeyedTable, checkpoint: CheckpointId) -> Any:
        since = self._chain.cut(self._rows_since, self._live).since
        chunks = original(self, checkpoint)
        return tuple(_LateChunk(self, since, one.groups) if isinstance(one, NewChunk) else one for one in chunks)

    plant.method(KeyedTable, "snapshot", wrong)


@mutant(
    "T9",
    "Two attempts give their chunks the same names; the older content stays: wrong state.",
    seeds(9, faults=QUICK_DEATHS),
)
def chunk_names_do_not_carry_the_attempt(plant: Planting) -> None:
    def wrong(
        original: Any, operator: OperatorId, attempt: Attempt, subtask: SlotIndex, checkpoint: CheckpointId, n: int
    ) -> str:
        return original(operator, Attempt(1), subtask, checkpoint, n)

    plant.function(layout.chunk_name, wrong)


@mutant(
    "T39", "A delta is built upon a chunk of a checkpoint that was never confirmed.", seeds(145, faults=STORE_FAILS)
)
def a_delta_builds_upon_an_unconfirmed_chunk(plant: Planting) -> None:
    def wrong(original: Any, self: Chain, checkpoint: CheckpointId, handles: tuple[ChunkHandle, ...]) -> Chain:
        return original(self, checkpoint, handles).completed(checkpoint)

    plant.method(Chain, "stored", wrong)


@mutant(
    "T11",
    "A chunk that could not be stored is acknowledged all the same: the state cannot be read back.",
    seeds(faults=STORE_FAILS),
)
def a_failed_upload_is_acknowledged(plant: Planting) -> None:
    def wrong(original: Any, persist: Any, name: Any, put: Any, *rest: Any) -> Any:
        def quietly(chunk: str, data: Any) -> None:
            try:
                put(chunk, data)
            except Unavailable:
                return

        return original(persist, name, quietly, *rest)

    plant.function(persisting.persist_states, wrong)


@mutant(
    "T24",
    "A subtask acknowledges a checkpoint before the rows that its sink prepared are durable: lost with the slot.",
    seeds(faults=CRASHES),
)
def a_snapshot_does_not_wait_for_its_output(plant: Planting) -> None:
    def wrong(original: Any, persist: Any, *rest: Any) -> Any:
        unsettled = tuple((operator, replace(state, settle=None)) for operator, state in persist.states)
        return original(replace(persist, states=unsettled), *rest)

    plant.function(persisting.persist_states, wrong)


@mutant("T36", "Chunks come back newest first: old values override new ones.", seeds(faults=CRASHES))
def chunks_are_restored_in_the_wrong_order(plant: Planting) -> None:
    def wrong(original: Any, self: KeyedTable, chunks: Any) -> None:
        original(self, tuple(reversed(tuple(chunks))))

    plant.method(KeyedTable, "restore", wrong)


@mutant("T45", "Every subtask gets the state of all key groups: rows twice.", seeds(faults=RESCALES))
def key_groups_are_ignored_at_restore(plant: Planting) -> None:
    def everything(original: Any, handle: ChunkHandle, groups: KeyGroupRange, load: Any) -> RestoredChunk:
        return RestoredChunk(handle, load(handle))

    def all_mine(original: Any, self: KeyedTable, chunks: Any) -> None:
        own, self._groups = self._groups, KeyGroupRange(0, self._max_parallelism)
        original(self, chunks)
        self._groups = own

    plant.function(restore._cut, everything)
    plant.method(KeyedTable, "restore", all_mine)


@mutant("T45", "Key groups at the edge of a range belong to nobody after a rescale: rows lost.", seeds(faults=RESCALES))
def key_group_ranges_do_not_tile(plant: Planting) -> None:
    def wrong(original: Any, handle: ChunkHandle, groups: KeyGroupRange, load: Any) -> RestoredChunk | None:
        narrow = KeyGroupRange(groups.start, max(groups.stop - 1, groups.start + 1))
        return original(handle, narrow, load)

    plant.function(restore._cut, wrong)


@mutant(
    "T26",
    "Windows that were closed before the barrier come back with the state: rows twice.",
    tests("tests/unit/operators/test_aggregate.py"),
)
def closed_windows_come_back(plant: Planting) -> None:
    plant.method(AggregateOperator, "_without_closed", lambda original, self, chunk: chunk)


@mutant("T57", "A checkpoint without changes forgets the state it did not change: rows lost.", seeds(faults=CRASHES))
def an_unchanged_table_is_stored_as_empty(plant: Planting) -> None:
    def wrong(original: Any, self: KeyedTable, checkpoint: CheckpointId) -> Any:
        return tuple(one for one in original(self, checkpoint) if not isinstance(one, ChunkHandle))

    plant.method(KeyedTable, "snapshot", wrong)
