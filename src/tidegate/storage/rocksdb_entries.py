"""Point state beyond memory: an ``EntryBackend`` over RocksDB, in a directory of its own that goes with it.

The directory is scratch: what counts is in checkpoints, so nothing is synchronised, there is no write-ahead log, and a restore starts empty.
"""

from __future__ import annotations

import importlib
import importlib.util
import itertools
import shutil
import struct
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from tidegate.model.errors import InvalidQuery
from tidegate.model.ids import Attempt, SlotIndex
from tidegate.state.entries import Entry, EntryBackend
from tidegate.storage.scratch import scratch_directory

_LENGTH = struct.Struct(">I")


class EntriesInRocksDb:
    """An ``EntryBackend``. A record's key is ``length of cell (4) · cell · sub-key``: the entries of a cell lie side by side, in order."""

    def __init__(self, directory: Path) -> None:
        rocksdict = _rocksdict()
        options = rocksdict.Options(raw_mode=True)
        options.create_if_missing(True)
        writing = rocksdict.WriteOptions()
        writing.disable_wal = True
        self._directory = directory
        self._new_batch = lambda: rocksdict.WriteBatch(raw_mode=True)
        self._db = rocksdict.Rdict(str(directory), options)
        self._db.set_write_options(writing)
        self._write_options = writing
        self._rows = 0

    @property
    def rows(self) -> int:
        return self._rows

    @property
    def size_bytes(self) -> int:
        names = ("rocksdb.estimate-live-data-size", "rocksdb.cur-size-all-mem-tables")
        return sum(self._db.property_int_value(name) or 0 for name in names) if self._rows else 0

    def get(self, cell: bytes, sub: bytes) -> bytes | None:
        return self._db.get(_record(cell, sub))

    def put(self, cell: bytes, sub: bytes, value: bytes) -> None:
        key = _record(cell, sub)
        if self._db.get(key) is None:
            self._rows += 1
        self._db.put(key, value)

    def put_many(self, entries: Sequence[Entry]) -> None:
        records = {_record(cell, sub): value for cell, sub, value in entries}
        known = self._db.get(list(records))
        self._rows += sum(value is None for value in known)
        batch = self._new_batch()
        for key, value in records.items():
            batch.put(key, value)
        self._db.write(batch, self._write_options)

    def delete(self, cell: bytes, sub: bytes) -> None:
        self._rows -= 1
        self._db.delete(_record(cell, sub))

    def items(self, cell: bytes) -> list[tuple[bytes, bytes]]:
        prefix = _record(cell, b"")
        found: list[tuple[bytes, bytes]] = []
        for key, value in self._db.items(from_key=prefix):
            if not key.startswith(prefix):
                break
            if len(key) > len(prefix):
                found.append((key[len(prefix) :], value))
        return found

    def frozen(self) -> Iterator[Entry]:
        records = self._db.items()  # An iterator of RocksDB sees the database as it was when it was made.

        def drawn() -> Iterator[Entry]:
            for key, value in records:
                end = _LENGTH.size + _LENGTH.unpack_from(key)[0]
                yield key[_LENGTH.size : end], key[end:], value

        return drawn()

    def close(self) -> None:
        self._db.close()
        shutil.rmtree(self._directory, ignore_errors=True)


def backend_factory(name: str, attempt: Attempt, slot: SlotIndex) -> Callable[[], EntryBackend]:
    """What makes the backends of a slot: ``memory``, or ``rocksdb`` under the directory Spark gives its tasks and clears after them."""
    if name == "memory":
        from tidegate.state.entries_in_memory import EntriesInMemory

        return EntriesInMemory
    check_backend(name)
    numbers = itertools.count()

    def make() -> EntryBackend:
        prefix = f"tidegate-state-{attempt}-{slot}-{next(numbers)}-"
        return EntriesInRocksDb(Path(tempfile.mkdtemp(prefix=prefix, dir=scratch_directory())))

    return make


def check_backend(name: str) -> None:
    """Raises InvalidQuery when the package that ``name`` needs is not there."""
    if name == "rocksdb":
        _rocksdict()


def _rocksdict() -> Any:
    """The module. Its own types allow keys of many kinds; in raw mode they are bytes."""
    if importlib.util.find_spec("rocksdict") is None:
        raise InvalidQuery(
            'option("stateBackend", "rocksdb") needs the package rocksdict, which is not installed here',
            hint="pip install 'tidegate[rocksdb]' on the driver and on every executor, or leave state in memory",
        )
    return importlib.import_module("rocksdict")


def _record(cell: bytes, sub: bytes) -> bytes:
    return _LENGTH.pack(len(cell)) + cell + sub
