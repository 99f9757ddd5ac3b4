"""Keyed state of one subtask: rows addressed by key, changed in place, handed out as immutable chunks.

Single-threaded. Row numbers are valid until the next ``upsert``, ``compact`` or ``restore``: removing rows moves nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tidegate.model.ids import CheckpointId
from tidegate.model.snapshot import ChunkHandle, KeyGroupRange
from tidegate.state.capture import Capture
from tidegate.state.chain import Chain, Link
from tidegate.state.chunk import NewChunk, RestoredChunk, cut_to
from tidegate.state.columns import FixedColumn, Mask, Rows, StateColumn, grown, new_column
from tidegate.state.index import MISSING, KeyIndex
from tidegate.state.keygroups import key_groups

HashKeys = Callable[[pl.DataFrame], NDArray[np.uint64]]
_DEAD_ROWS_MIN = 1 << 12
CAPTURE_ROWS = 1 << 14
"""Rows walked over at once while a snapshot is copied: a millisecond or two."""


class KeyedTable:
    """Key and value columns by position; ``hash_keys`` maps a frame of keys to the hashes that also choose the key group.

    Float keys come normalised (no ``-0.0``); null is a key like any other; without key columns there is one key.
    """

    def __init__(
        self,
        keys: Sequence[pl.DataType],
        values: Sequence[pl.DataType],
        *,
        hash_keys: HashKeys,
        groups: KeyGroupRange,
        max_parallelism: int,
        capture_rows: int = CAPTURE_ROWS,
    ) -> None:
        self._keys: list[StateColumn] = [new_column(dtype) for dtype in keys]
        self._values: list[StateColumn] = [new_column(dtype) for dtype in values]
        self._hash_keys = hash_keys
        self._groups = groups
        self._max_parallelism = max_parallelism
        self._index = KeyIndex()
        self._alive: Mask = np.zeros(0, np.bool_)
        self._live = 0
        self._changed_epoch: NDArray[np.int32] = np.zeros(0, np.int32)
        self._scratch: Rows = np.zeros(0, np.int64)
        self._epoch = 1
        self._touched: dict[int, int] = {}
        """How many rows were changed in each epoch that no complete checkpoint covers."""
        self._tombstones: list[tuple[int, pl.DataFrame]] = []
        self._chain = Chain()
        self._capture_rows = capture_rows
        self._capture: Capture | None = None

    # -- reading and writing rows

    @property
    def live_rows(self) -> int:
        return self._live

    @property
    def size_bytes(self) -> int:
        columns = sum(column.size_bytes for column in (*self._keys, *self._values))
        return columns + self._index.size_bytes + self._index.rows * 5

    def upsert(self, keys: pl.DataFrame) -> tuple[Rows, Rows]:
        """The row of each key, and the rows that are new (their values are null). A key that occurs twice gets one row."""
        self.compact()
        columns = keys.get_columns()
        probe = _KeyProbe(self._keys, columns, self._alive)
        first_new = self._index.rows
        found, added = self._index.find_or_add(self._hash_keys(keys), probe.equals_row, probe.equals)
        if len(added):
            for mine, theirs in zip(self._keys, columns, strict=True):
                # Picking by an array is far cheaper than ``gather``, which starts the query engine.
                mine.append(theirs[added])
            for value in self._values:
                value.append_nulls(len(added))
            end = self._index.rows
            self._alive = grown(self._alive, end).view(np.bool_)
            self._changed_epoch = grown(self._changed_epoch, end).view(np.int32)
            self._alive[first_new:end] = True
            self._changed_epoch[first_new:end] = self._epoch
            self._live += len(added)
            self._touch(len(added))
        return found, np.arange(first_new, self._index.rows)

    def find(self, keys: pl.DataFrame) -> Rows:
        """The row of each key, or MISSING."""
        probe = _KeyProbe(self._keys, keys.get_columns(), self._alive)
        return self._index.find(self._hash_keys(keys), probe.equals_row)

    def all_distinct(self, rows: Rows) -> bool:
        """Whether no row occurs twice: each writes its position, and reads it back unless another came after it."""
        self._scratch = grown(self._scratch, self._index.rows).view(np.int64)
        positions = np.arange(len(rows))
        self._scratch[rows] = positions
        return bool((self._scratch[rows] == positions).all())

    def keys_of(self, rows: Rows) -> pl.DataFrame:
        return _frame("k", self._keys, rows)

    def values_of(self, rows: Rows) -> pl.DataFrame:
        return _frame("v", self._values, rows)

    def some_values_of(self, rows: Rows, columns: Sequence[int]) -> list[pl.Series]:
        """Of the value columns ``columns`` only, in their order."""
        return [self._values[column].gather(rows) for column in columns]

    def values_probe(self, columns: Sequence[int], values: Sequence[pl.Series]) -> Callable[[Rows, Rows], Mask]:
        """Compares ``values`` at positions with value columns ``columns`` at rows: null equals null, NaN equals NaN.

        Good until rows are added or change."""
        probes = [self._values[column].probe(series) for column, series in zip(columns, values, strict=True)]

        def same(positions: Rows, rows: Rows) -> Mask:
            equal = np.ones(len(rows), np.bool_)
            for probe in probes:
                equal &= probe.equals_row(positions, rows)
            return equal

        return same

    def alive(self, rows: Rows) -> Mask:
        """Which of ``rows`` are there; every one of them was at some time."""
        return self._alive[rows]

    def write(self, rows: Rows, values: pl.DataFrame) -> None:
        """Replaces all values of ``rows`` (none of them twice)."""
        self._before_write(rows)
        for mine, theirs in zip(self._values, values.get_columns(), strict=True):
            mine.scatter(rows, theirs)

    def write_one(self, rows: Rows, value: int, values: pl.Series) -> None:
        """Replaces value column ``value`` of ``rows`` (none of them twice)."""
        self._before_write(rows)
        self._values[value].scatter(rows, values)

    def _before_write(self, rows: Rows) -> None:
        self._rescue(rows)
        self._touch(int(np.count_nonzero(self._changed_epoch[rows] != self._epoch)))
        self._changed_epoch[rows] = self._epoch

    def all_rows(self) -> Rows:
        return np.flatnonzero(self._alive[: self._index.rows])

    def rows_at_most(self, key: int, bound: int) -> Rows:
        """Rows whose key column ``key`` (physically an integer) is not null and at most ``bound``."""
        return self._at_most(self._keys[key], bound)

    def rows_with_value_at_most(self, value: int, bound: int) -> Rows:
        """The same of value column ``value``."""
        return self._at_most(self._values[value], bound)

    def smallest(self, key: int) -> int | None:
        """The smallest value of key column ``key`` (physically an integer), None without one."""
        return self._smallest(self._keys[key])

    def smallest_value(self, value: int) -> int | None:
        """The same of value column ``value``."""
        return self._smallest(self._values[value])

    def _at_most(self, column: StateColumn, bound: int) -> Rows:
        assert isinstance(column, FixedColumn)
        data, valid = column.raw(self._index.rows)
        return np.flatnonzero((data <= bound) & valid & self._alive[: self._index.rows])

    def _smallest(self, column: StateColumn) -> int | None:
        assert isinstance(column, FixedColumn)
        data, valid = column.raw(self._index.rows)
        present = data[valid & self._alive[: self._index.rows]]
        return int(present.min()) if len(present) else None

    def remove(self, rows: Rows, *, tombstones: bool) -> None:
        """Without tombstones the caller can tell from its own snapshot, at restore, that these keys are gone."""
        if tombstones and len(rows):
            self._tombstones.append((self._epoch, self.keys_of(rows)))
        self._rescue(rows)
        self._alive[rows] = False
        self._live -= len(rows)

    def compact(self, dead_rows_min: int = _DEAD_ROWS_MIN) -> Rows | None:
        """Gives back the room of removed rows once they are the majority, and at least so many.

        If it does, returns the rows that stay: row ``kept[i]`` is row ``i`` from now on."""
        dead = self._index.rows - self._live
        if dead < dead_rows_min or dead < self._live or self._capture is not None:
            return None
        keep = self.all_rows()
        self._index.rebuild(keep)
        for column in (*self._keys, *self._values):
            column.keep(keep)
        self._changed_epoch = self._changed_epoch[keep]
        self._alive = np.ones(len(keep), np.bool_)
        return keep

    # -- snapshots

    def snapshot(self, checkpoint: CheckpointId) -> tuple[ChunkHandle | NewChunk, ...]:
        """The table as it is now, oldest chunk first: stored chunks, and what changed since them as a new one.

        However large the table, this takes no time: ``capture`` copies the rows of the new chunk afterwards, unless there are few.
        """
        self.finish_capture()
        cut = self._chain.cut(self._rows_since, self._live)
        # Nothing stored lies below a full rewrite, so there is nothing a tombstone could hide.
        buried = tuple(keys for epoch, keys in self._tombstones if epoch > cut.since) if cut.since else ()
        changed = self._rows_since(cut.since) > 0
        self._chain = self._chain.handed_out(checkpoint, cut, self._epoch)
        handles = tuple(link.handle for link in cut.kept)
        if changed:
            chunk = NewChunk(None, self._groups)
            self._capture = Capture(checkpoint, cut.since, self._epoch, self._index.rows, chunk, buried)
            handles = (*handles, chunk)
        self._epoch += 1
        if self._index.rows <= self._capture_rows:
            self.finish_capture()
        return handles

    @property
    def capturing(self) -> bool:
        """Rows of the last snapshot are still to be copied."""
        return self._capture is not None

    def capture(self) -> None:
        """Copies some more rows of the last snapshot."""
        capture = self._capture
        if capture is None:
            return
        rows = capture.next_rows(self._alive, self._changed_epoch, self._capture_rows)
        if len(rows) or not capture.pieces:
            capture.pieces.append(self._copied(rows))
        if capture.done:
            capture.chunk.fill(self._with_graves(pl.concat(capture.pieces), capture.buried))
            self._capture = None

    def finish_capture(self) -> None:
        while self._capture is not None:
            self.capture()

    def abandon_capture(self, checkpoint: CheckpointId) -> None:
        """The snapshot of this checkpoint is not wanted any more; its new chunk is never completed."""
        if self._capture is not None and self._capture.checkpoint == checkpoint:
            self._capture = None

    def _rescue(self, rows: Rows) -> None:
        """Copies what the snapshot being captured still needs of ``rows`` before they change."""
        if self._capture is not None:
            endangered = self._capture.endangered(rows, self._changed_epoch)
            if len(endangered):
                self._capture.pieces.append(self._copied(endangered))

    def _touch(self, rows: int) -> None:
        self._touched[self._epoch] = self._touched.get(self._epoch, 0) + rows

    def on_stored(self, checkpoint: CheckpointId, handles: tuple[ChunkHandle, ...]) -> None:
        self._chain = self._chain.stored(checkpoint, handles)

    def on_completed(self, checkpoint: CheckpointId) -> None:
        self._chain = self._chain.completed(checkpoint)
        oldest = self._chain.links[0].until if self._chain.links else self._chain.until
        # What was removed before the base chunk was written is not in it.
        self._tombstones = [entry for entry in self._tombstones if entry[0] > oldest]
        self._touched = {epoch: rows for epoch, rows in self._touched.items() if epoch > self._chain.until}

    def _rows_since(self, epoch: int) -> int:
        """An upper bound from what was counted on the way; looking at the rows themselves would take longer than a barrier may."""
        stored = sum(link.rows for link in self._chain.links if link.since >= epoch)
        since = max(epoch, self._chain.until)
        fresh = sum(rows for at, rows in self._touched.items() if at > since)
        buried = sum(keys.height for at, keys in self._tombstones if at > since)
        return min(stored + fresh, self._live) + buried if epoch else min(stored + fresh, self._live)

    def _copied(self, rows: Rows) -> pl.DataFrame:
        return pl.concat(
            [self._group_column(self._index.hashes_of(rows)), self.keys_of(rows), self.values_of(rows)],
            how="horizontal",
        )

    def _with_graves(self, live: pl.DataFrame, buried: tuple[pl.DataFrame, ...]) -> pl.DataFrame:
        if not buried:
            return live
        # Deletions first: a key that was removed and came back is in both.
        keys = pl.concat(buried).unique() if self._keys else buried[0].head(1)
        graves = pl.concat([self._group_column(self._hash_keys(keys)), keys], how="horizontal").with_columns(
            deleted=True
        )
        return pl.concat([graves, live.with_columns(deleted=False)], how="diagonal").select(*live.columns, "deleted")

    def _group_column(self, hashes: NDArray[np.uint64]) -> pl.DataFrame:
        return pl.DataFrame({"kg": key_groups(hashes, self._max_parallelism).astype(np.uint32)})

    def restore(self, chunks: Sequence[RestoredChunk]) -> None:
        """Into an empty table: later chunks override earlier ones; rows of foreign key groups, or outside the handle's, are skipped."""
        links: list[Link] = []
        for chunk in chunks:
            shared = chunk.handle.groups.intersect(self._groups)
            if shared is None:
                continue
            mine = chunk.rows.filter((pl.col("kg") >= shared.start) & (pl.col("kg") < shared.stop))
            stored_rows = mine.height
            if "deleted" in mine.columns:
                self._bury(mine.filter("deleted").select(self._key_names()))
                mine = mine.filter(~pl.col("deleted"))
            if mine.height:
                rows, _ = self.upsert(mine.select(self._key_names()))
                self.write(rows, mine.select(f"v{i}" for i in range(len(self._values))))
            handle = cut_to(chunk.handle, shared)
            links.append(Link(handle, self._epoch - 1, self._epoch, stored_rows))
            self._epoch += 1
        self._chain = Chain(tuple(links), self._epoch - 1)
        self._touched.clear()

    def _bury(self, keys: pl.DataFrame) -> None:
        if not keys.height:
            return
        rows = self.find(keys)
        self._tombstones.append((self._epoch, keys))
        self.remove(rows[rows != MISSING], tombstones=False)

    def _key_names(self) -> list[str]:
        return [f"k{i}" for i in range(len(self._keys))]


class _KeyProbe:
    """Whole keys of a batch against live rows and one another. A removed row equals nothing."""

    def __init__(self, stored: list[StateColumn], keys: list[pl.Series], alive: Mask) -> None:
        self._columns = [column.probe(values) for column, values in zip(stored, keys, strict=True)]
        self._alive = alive

    def equals_row(self, positions: Rows, rows: Rows) -> Mask:
        same = self._alive[rows]
        for column in self._columns:
            same &= column.equals_row(positions, rows)
        return same

    def equals(self, left: Rows, right: Rows) -> Mask:
        same = np.ones(len(left), np.bool_)
        for column in self._columns:
            same &= column.equals(left, right)
        return same


def _frame(prefix: str, columns: list[StateColumn], rows: Rows) -> pl.DataFrame:
    return pl.DataFrame([column.gather(rows).alias(f"{prefix}{i}") for i, column in enumerate(columns)])
