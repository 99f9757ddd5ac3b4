"""Point state of one subtask: small binary entries that user code reads and writes one at a time, handed out as immutable chunks.

An entry is addressed by a *cell* and a *sub-key* within it, both bytes. A cell begins with its key group, two bytes, big endian: whatever is stored
can be cut to key groups without knowing what it means. Sub-keys of a cell are kept in order. Where entries live is a backend's business
(``EntryBackend``); what changed since which checkpoint is known here, so a snapshot reads what changed and nothing else.

Single-threaded, like everything a slot's loop calls.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Protocol, TypeAlias

import polars as pl

from tidegate.model.ids import CheckpointId
from tidegate.model.snapshot import ChunkHandle, KeyGroupRange
from tidegate.state.chain import Chain, Link
from tidegate.state.chunk import NewChunk, RestoredChunk, cut_to

Address: TypeAlias = tuple[bytes, bytes]
"""Cell and sub-key."""
Entry: TypeAlias = tuple[bytes, bytes, bytes]
"""Cell, sub-key, value."""

CHUNK_SCHEMA = pl.Schema({"kg": pl.UInt32(), "k0": pl.Binary(), "k1": pl.Binary(), "v0": pl.Binary()})
_RESTORE_ROWS = 1 << 14


class EntryBackend(Protocol):
    """Where entries live."""

    def get(self, cell: bytes, sub: bytes) -> bytes | None: ...

    def put(self, cell: bytes, sub: bytes, value: bytes) -> None: ...

    def put_many(self, entries: Sequence[Entry]) -> None: ...

    def delete(self, cell: bytes, sub: bytes) -> None:
        """An entry that exists."""
        ...

    def items(self, cell: bytes) -> list[tuple[bytes, bytes]]:
        """Sub-keys and values of a cell in the order of the sub-keys, without the empty one."""
        ...

    def frozen(self) -> Iterator[Entry]:
        """All entries as they are now, whatever is written while they are drawn. At most one such iterator is in use at a time."""
        ...

    @property
    def rows(self) -> int: ...

    @property
    def size_bytes(self) -> int:
        """About, in memory."""
        ...

    def close(self) -> None: ...


class EntryTable:
    """Entries over a backend, with incremental snapshots: as ``KeyedTable`` is for rows in columns."""

    def __init__(self, backend: EntryBackend, groups: KeyGroupRange, capture_rows: int) -> None:
        self._backend = backend
        self._groups = groups
        self._capture_rows = capture_rows
        self._epoch = 1
        self._changed: dict[int, dict[Address, None]] = {1: {}}
        """What was written or removed in each epoch after the oldest stored chunk."""
        self._chain = Chain()
        self._capture: _Capture | None = None

    @property
    def rows(self) -> int:
        return self._backend.rows

    @property
    def size_bytes(self) -> int:
        return self._backend.size_bytes

    def get(self, cell: bytes, sub: bytes = b"") -> bytes | None:
        return self._backend.get(cell, sub)

    def items(self, cell: bytes) -> list[tuple[bytes, bytes]]:
        return self._backend.items(cell)

    def put(self, cell: bytes, sub: bytes, value: bytes) -> None:
        self._change((cell, sub))
        self._backend.put(cell, sub, value)

    def delete(self, cell: bytes, sub: bytes = b"") -> bool:
        """False: there was no such entry."""
        if self._backend.get(cell, sub) is None:
            return False
        self._change((cell, sub))
        self._backend.delete(cell, sub)
        return True

    def all_entries(self) -> Iterator[Entry]:
        self.finish_capture()
        return self._backend.frozen()

    def close(self) -> None:
        self._capture = None
        self._backend.close()

    def _change(self, address: Address) -> None:
        if self._capture is not None:
            self._capture.rescue(address, self._backend)
        self._changed[self._epoch][address] = None

    # -- snapshots

    def snapshot(self, checkpoint: CheckpointId) -> tuple[ChunkHandle | NewChunk, ...]:
        """Stored chunks, oldest first, and what changed since them as a new one, which ``capture`` fills."""
        self.finish_capture()
        cut = self._chain.cut(self._rows_since, self.rows)
        # Without a chunk to build upon it is everything, also when the table was empty for its first epochs: which of the entries in
        # the chunks that are given up came when is no longer known.
        since = cut.since if cut.kept else 0
        changed = self._rows_since(since) > 0
        handles: tuple[ChunkHandle | NewChunk, ...] = tuple(link.handle for link in cut.kept)
        self._chain = self._chain.handed_out(checkpoint, cut, self._epoch)
        if changed:
            chunk = NewChunk(None, self._groups)
            handles = (*handles, chunk)
            if since:
                epochs = [known for epoch, known in self._changed.items() if epoch > since]
                self._capture = _Changes(checkpoint, chunk, epochs, self._backend)
            else:
                self._capture = _Everything(checkpoint, chunk, self._backend)
        self._epoch += 1
        self._changed[self._epoch] = {}
        if self._capture is not None and self._capture.rows_at_most <= self._capture_rows:
            self.finish_capture()
        return handles

    def capture(self) -> None:
        if self._capture is not None and self._capture.step(self._capture_rows):
            self._capture = None

    def finish_capture(self) -> None:
        while self._capture is not None:
            self.capture()

    def abandon_capture(self, checkpoint: CheckpointId) -> None:
        if self._capture is not None and self._capture.checkpoint == checkpoint:
            self._capture = None

    def on_stored(self, checkpoint: CheckpointId, handles: tuple[ChunkHandle, ...]) -> None:
        self._chain = self._chain.stored(checkpoint, handles)

    def on_completed(self, checkpoint: CheckpointId) -> None:
        self._chain = self._chain.completed(checkpoint)
        base = self._chain.links[0].until if self._chain.links else self._chain.until
        # Whatever lies in the base chunk is only ever written again with everything else.
        self._changed = {epoch: known for epoch, known in self._changed.items() if epoch > base}

    def _rows_since(self, epoch: int) -> int:
        if epoch == 0:
            return self.rows
        return sum(len(known) for at, known in self._changed.items() if at > epoch)

    # -- restoring

    def restore(self, chunks: Sequence[RestoredChunk]) -> None:
        """Into an empty table: later chunks override earlier ones; entries of foreign key groups are skipped."""
        links: list[Link] = []
        for chunk in chunks:
            shared = chunk.handle.groups.intersect(self._groups)
            if shared is None:
                continue
            mine = chunk.rows.filter((pl.col("kg") >= shared.start) & (pl.col("kg") < shared.stop))
            known = self._changed[self._epoch]
            for piece in mine.iter_slices(_RESTORE_ROWS):
                self._restore_rows(piece, known)
            handle = cut_to(chunk.handle, shared)
            links.append(Link(handle, self._epoch - 1, self._epoch, mine.height))
            self._epoch += 1
            self._changed[self._epoch] = {}
        if links:
            self._changed.pop(links[0].until)
        self._chain = Chain(tuple(links), self._epoch - 1)

    def _restore_rows(self, rows: pl.DataFrame, known: dict[Address, None]) -> None:
        columns = [rows.get_column(name).to_list() for name in ("k0", "k1", "v0")]
        if "deleted" in rows.columns:
            kept: list[Entry] = []
            for cell, sub, value, gone in zip(*columns, rows.get_column("deleted").to_list(), strict=True):
                if not gone:
                    kept.append((cell, sub, value))
                elif self._backend.get(cell, sub) is not None:
                    self._backend.delete(cell, sub)
            self._backend.put_many(kept)
        else:
            self._backend.put_many(list(zip(*columns, strict=True)))
        known.update(dict.fromkeys(zip(columns[0], columns[1], strict=True)))


class _Capture(Protocol):
    """A snapshot that is being copied, as it was at the barrier, while the table goes on changing."""

    checkpoint: CheckpointId

    @property
    def rows_at_most(self) -> int: ...

    def rescue(self, address: Address, backend: EntryBackend) -> None:
        """This entry is about to change."""
        ...

    def step(self, rows_max: int) -> bool:
        """Copies some more; True: that was the last of it."""
        ...


class _Everything:
    """All entries: the backend itself keeps what is overwritten meanwhile."""

    def __init__(self, checkpoint: CheckpointId, chunk: NewChunk, backend: EntryBackend) -> None:
        self.checkpoint = checkpoint
        self.rows_at_most = backend.rows
        self._chunk = chunk
        self._entries = backend.frozen()
        self._pieces: list[pl.DataFrame] = []

    def rescue(self, address: Address, backend: EntryBackend) -> None:
        return None

    def step(self, rows_max: int) -> bool:
        piece = list(islice(self._entries, rows_max))
        self._pieces.append(_frame(piece))
        if len(piece) == rows_max:
            return False
        self._chunk.fill(pl.concat(self._pieces))
        return True


class _Changes:
    """Entries changed in some epochs; those that are gone become tombstones."""

    def __init__(
        self, checkpoint: CheckpointId, chunk: NewChunk, epochs: list[dict[Address, None]], backend: EntryBackend
    ) -> None:
        self.checkpoint = checkpoint
        self.rows_at_most = sum(map(len, epochs))
        self._chunk = chunk
        self._epochs = epochs
        self._backend = backend
        self._left = (address for known in epochs for address in known)
        self._copied: set[Address] = set()
        self._live: list[Entry] = []
        self._gone: list[Address] = []
        self._pieces: list[pl.DataFrame] = []

    def rescue(self, address: Address, backend: EntryBackend) -> None:
        if address not in self._copied and any(address in known for known in self._epochs):
            self._copy(address)

    def step(self, rows_max: int) -> bool:
        seen = 0
        for address in islice(self._left, rows_max):
            seen += 1
            if address not in self._copied:
                self._copy(address)
        self._pieces.append(_frame(self._live))
        self._live.clear()
        if seen == rows_max:
            return False
        self._chunk.fill(self._with_graves(pl.concat(self._pieces)))
        return True

    def _copy(self, address: Address) -> None:
        self._copied.add(address)
        value = self._backend.get(*address)
        if value is None:
            self._gone.append(address)
        else:
            self._live.append((*address, value))

    def _with_graves(self, live: pl.DataFrame) -> pl.DataFrame:
        if not self._gone:
            return live
        graves = _frame([(cell, sub, b"") for cell, sub in self._gone])
        return pl.concat([graves.with_columns(deleted=pl.lit(True)), live.with_columns(deleted=pl.lit(False))])


def group_of(cell: bytes) -> int:
    """The key group of a cell."""
    return cell[0] << 8 | cell[1]


def _frame(entries: Sequence[Entry]) -> pl.DataFrame:
    columns = list(zip(*entries, strict=True)) or [(), (), ()]
    groups = [group_of(cell) for cell in columns[0]]
    data = zip(CHUNK_SCHEMA, (groups, *columns), strict=True)
    return pl.DataFrame({name: pl.Series(name, values, CHUNK_SCHEMA[name]) for name, values in data})
