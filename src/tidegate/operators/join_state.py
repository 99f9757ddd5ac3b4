"""One side of a join of two streams: its rows by key, until they can find no more partner.

Rows never change, except for a mark that says a row has found a partner. Each has a number of its own in its key group for ever, so that
snapshots are increments and several old subtasks may become one. A row that has expired needs no tombstone: the watermark in the
snapshot says that it is gone.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tidegate.model.elements import WATERMARK_MAX_US, WATERMARK_MIN_US
from tidegate.model.ids import CheckpointId
from tidegate.model.snapshot import ChunkHandle
from tidegate.model.types import Field, Schema
from tidegate.operators.columns import polars_type
from tidegate.operators.horizon import Horizon
from tidegate.operators.pieces import pieces
from tidegate.operators.protocol import OperatorContext
from tidegate.plan.keyed import JoinSide, Moment
from tidegate.state.chunk import NewChunk, RestoredChunk
from tidegate.state.columns import Mask, Rows
from tidegate.state.hashing import hash_columns
from tidegate.state.index import Hashes
from tidegate.state.keygroups import key_groups
from tidegate.state.leaves import leaves_of, put_together, take_apart
from tidegate.state.row_index import Pairs, RowIndex, Times
from tidegate.state.table import KeyedTable
from tidegate.state.zones import NEVER_US, ExpiryZones

_SIDE, _GROUP, _NUMBER, _EXPIRES = range(4)
"""Key columns of the table. A row is found by its number; the others lie beside it so that chunks explain themselves."""
_KEY_TYPES = (pl.Int8(), pl.Int32(), pl.Int64(), pl.Int64())
_SPREAD = np.uint64(0x9E3779B97F4A7C15)
_INDEXED_AT_ONCE = 1 << 17


def times_of(rows: pl.DataFrame, moment: Moment) -> pl.Series:
    """Microseconds; null where the row has no such time."""
    column = rows.get_column(moment.column)
    if moment.field is not None:
        column = column.struct.field(moment.field)
    return column.to_physical() + moment.plus_us if moment.plus_us else column.to_physical()


def keys_of(rows: pl.DataFrame, keys: Schema) -> pl.DataFrame:
    """The key columns taken apart, in the way that ``hashes_of`` and the stored rows know them."""
    return take_apart(rows, keys)


def key_schema(side: JoinSide) -> Schema:
    """Alike on both sides, so that their leaves are: any struct may be null."""
    types = {field.name: field.type for field in side.schema}
    return tuple(Field(name, types[name], nullable=True) for name in side.keys)


def hashes_of(leaves: pl.DataFrame, keys: Schema) -> Hashes:
    """As the exchange hashes whole keys."""
    hashed = [
        (name, leaf.type) for name, leaf in zip(leaves.columns, leaves_of(keys), strict=True) if not leaf.presence
    ]
    return hash_columns(leaves.select(name for name, _ in hashed), tuple(of for _, of in hashed))


class StoredSide:
    """The rows of one input. ``marked``: whether it matters if they have found a partner; ``ordered_by``: the time that narrows a lookup."""

    def __init__(
        self, side: JoinSide, number: int, context: OperatorContext, *, marked: bool, ordered_by: str | None
    ) -> None:
        self._side = side
        self._number = number
        self._max_parallelism = context.max_parallelism
        self._marked = marked
        self._ordered_by = None if ordered_by is None else Moment(ordered_by)
        self._keys = key_schema(side)
        self._schema = tuple(Field(field.name, field.type, nullable=True) for field in side.schema)
        leaves = leaves_of(self._schema)
        self._first_value = 1 if marked else 0
        self._leaf_places = [
            [self._first_value + i for i, leaf in enumerate(leaves) if leaf.path[0] == field.name]
            for field in self._schema
        ]
        self._places = {field.name: places for field, places in zip(self._schema, self._leaf_places, strict=True)}
        self._key_places = [place for name in side.keys for place in self._places[name]]
        self._table = KeyedTable(
            _KEY_TYPES,
            [*([pl.Boolean()] if marked else []), *(polars_type(leaf.type) for leaf in leaves)],
            hash_keys=self._hash_numbers,
            groups=context.groups,
            max_parallelism=context.max_parallelism,
            capture_rows=context.capture_rows,
        )
        self._index = RowIndex(self._table.alive)
        self._zones = ExpiryZones()

    @property
    def live_rows(self) -> int:
        return self._table.live_rows

    @property
    def size_bytes(self) -> int:
        return self._table.size_bytes + self._index.size_bytes + self._zones.size_bytes

    # -- rows

    def add(self, rows: pl.DataFrame, hashes: Hashes, numbers_from: int, expires: pl.Series, matched: Mask) -> None:
        """``expires``: microseconds, null for never."""
        kept = self._table.compact()
        if kept is not None:
            self._index.rebuild(kept)
            self._zones.rebuild(kept)
        height = rows.height
        keys = pl.DataFrame(
            [
                pl.Series("k0", np.full(height, self._number, np.int8)),
                pl.Series("k1", key_groups(hashes, self._max_parallelism).astype(np.int32)),
                pl.Series("k2", np.arange(numbers_from, numbers_from + height)),
                expires.alias("k3"),
            ]
        )
        values = take_apart(rows, self._schema, "v")
        if self._marked:
            values = values.insert_column(0, pl.Series("matched", matched))
        stored, _ = self._table.upsert(keys)
        self._table.write(stored, values)
        self._index.add(hashes, self._order(rows), stored)
        self._zones.add(stored, _never_if_null(expires))

    def lookup(
        self, leaves: pl.DataFrame, hashes: Hashes, low_us: Times | None, high_us: Times | None
    ) -> Iterator[Pairs]:
        """Pairs (position, row) with equal keys, in bounded portions."""
        same = self._table.values_probe(self._key_places, leaves.get_columns())
        for positions, rows in self._index.lookup(hashes, low_us, high_us):
            equal = same(positions, rows)
            yield (positions, rows) if equal.all() else (positions[equal], rows[equal])

    def rows(self, rows: Rows) -> pl.DataFrame:
        return self.columns(rows, [field.name for field in self._schema])

    def columns(self, rows: Rows, names: list[str]) -> pl.DataFrame:
        fields = tuple(field for field in self._schema if field.name in names)
        places = [place for field in fields for place in self._places[field.name]]
        parts = self._table.some_values_of(rows, places)
        return put_together(pl.DataFrame([part.alias(f"v{i}") for i, part in enumerate(parts)]), fields)

    def mark(self, rows: Rows) -> None:
        """They have found a partner."""
        rows = np.unique(rows)
        fresh = rows[~self._matched(rows)]
        if len(fresh):
            self._table.write_one(fresh, 0, pl.Series(np.ones(len(fresh), np.bool_)))

    def take(self, rows: Rows) -> Rows:
        """Removes them for good, and says which they were, each once."""
        rows = np.unique(rows)
        self._table.remove(rows, tombstones=True)
        return rows

    def expire(self, watermark_us: int) -> Iterator[Rows]:
        """Forgets rows that can find no more partner; those that never found one, in slices. Their content can be read until the next ``add``."""
        if watermark_us >= WATERMARK_MAX_US:
            gone = self._table.all_rows()
        else:
            due = self._zones.expired(watermark_us)
            gone = due[self._table.alive(due)]
        for part in pieces(len(gone)):
            piece = gone[part]
            self._table.remove(piece, tombstones=False)
            if self._marked:
                alone = piece[~self._matched(piece)]
                if len(alone):
                    yield alone

    def _matched(self, rows: Rows) -> Mask:
        return self._table.some_values_of(rows, [0])[0].to_numpy()

    def _order(self, rows: pl.DataFrame) -> Times:
        if self._ordered_by is None:
            return np.zeros(rows.height, np.int64)
        return times_of(rows, self._ordered_by).fill_null(WATERMARK_MIN_US).to_numpy()

    def _hash_numbers(self, keys: pl.DataFrame) -> NDArray[np.uint64]:
        """The row's number, spread, with the key group where the table looks for it."""
        groups = keys.to_series(_GROUP).to_numpy().astype(np.uint64)
        spread = (keys.to_series(_NUMBER).to_numpy().astype(np.uint64) * _SPREAD) >> np.uint64(1)
        return spread - spread % np.uint64(self._max_parallelism) + groups

    # -- snapshots

    def snapshot(self, checkpoint: CheckpointId) -> tuple[ChunkHandle | NewChunk, ...]:
        return self._table.snapshot(checkpoint)

    def on_stored(self, checkpoint: CheckpointId, handles: tuple[ChunkHandle, ...]) -> None:
        self._table.on_stored(checkpoint, handles)

    def capture(self) -> None:
        self._table.capture()

    def abandon_capture(self, checkpoint: CheckpointId) -> None:
        self._table.abandon_capture(checkpoint)

    def on_completed(self, checkpoint: CheckpointId) -> None:
        self._table.on_completed(checkpoint)

    def restore(self, chunks: tuple[RestoredChunk, ...], horizon: Horizon) -> None:
        """``horizon``: what each old owner had forgotten. After a drain nothing is left, whenever it would have expired."""
        expires = pl.col(f"k{_EXPIRES}").fill_null(WATERMARK_MAX_US)
        mine = [chunk for chunk in chunks if chunk.rows.height and chunk.rows["k0"][0] == self._number]
        self._table.restore([horizon.without_closed(chunk, expires) for chunk in mine])
        live = self._table.all_rows()
        for start in range(0, len(live), _INDEXED_AT_ONCE):
            rows = live[start : start + _INDEXED_AT_ONCE]
            whole = self.rows(rows)
            self._index.add(hashes_of(keys_of(whole, self._keys), self._keys), self._order(whole), rows)
            self._zones.add(rows, _never_if_null(self._table.keys_of(rows).to_series(_EXPIRES)))


def _never_if_null(expires: pl.Series) -> Times:
    return expires.fill_null(NEVER_US).to_numpy()
