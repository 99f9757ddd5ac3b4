"""What happens to stored state in a run, counted: merges of chunks, deletions that meet an older chunk, entries deleted while they are copied."""

from __future__ import annotations

import polars as pl

from tidegate.model.snapshot import ChunkHandle, OperatorSnapshot
from tidegate.state.entries_in_memory import EntriesInMemory
from tidegate.testing.simulation.faults import Tally

MERGED = "state: chunks merged"
DELETED_BELOW = "state: a deletion restored over an older chunk with its key"
DELETED_WHILE_COPIED = "state: an entry deleted while it was being copied"


class StateWatch:
    """Of one slot."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self._chunks: dict[tuple[str, int], set[str]] = {}
        """Operator and subtask → the chunks of its last snapshot."""
        self._read: dict[tuple[str, ...], list[pl.DataFrame]] = {}
        """Key columns of what was read back, per operator and kind of its rows."""

    def stored(self, snapshots: tuple[OperatorSnapshot, ...]) -> None:
        for one in snapshots:
            place, now = (one.operator, one.subtask), {chunk.name for chunk in one.chunks}
            before = self._chunks.get(place, set())
            if now - before and len(before - now) > 1:
                self._tally.path(MERGED)
            self._chunks[place] = now

    def restored(self, handle: ChunkHandle, rows: pl.DataFrame) -> None:
        """Chunks of an operator come back oldest first, one old subtask after the other."""
        keys = [name for name in rows.columns if name.startswith("k") and name != "kg"]
        if not keys:
            return
        place = (handle.name.rsplit("/", 1)[0], *keys)
        older = self._read.setdefault(place, [])
        if "deleted" in rows.columns:
            gone = rows.filter("deleted").select(keys)
            if any(one.join(gone, on=keys, how="semi", nulls_equal=True).height for one in older):
                self._tally.path(DELETED_BELOW)
            rows = rows.filter(~pl.col("deleted"))
        older.append(rows.select(keys))

    def entries(self) -> EntriesInMemory:
        return WatchedEntries(self._tally)


class WatchedEntries(EntriesInMemory):
    """Notices deletions of timers that a snapshot had still to copy. A timer that is due is asked for when it is taken, and again when it is
    deleted; a third time only to rescue it for the snapshot.
    """

    def __init__(self, tally: Tally) -> None:
        super().__init__()
        self._tally = tally
        self._asked: tuple[tuple[bytes, bytes], ...] = ()

    def get(self, cell: bytes, sub: bytes) -> bytes | None:
        self._asked = (*self._asked[-2:], (cell, sub))
        return super().get(cell, sub)

    def delete(self, cell: bytes, sub: bytes) -> None:
        if self._asked == ((cell, sub),) * 3:
            self._tally.path(DELETED_WHILE_COPIED)
        super().delete(cell, sub)
