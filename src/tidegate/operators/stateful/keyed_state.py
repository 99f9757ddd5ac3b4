"""State as user code sees it: of one key at a time, through values, lists, maps and timers.

Layout of the entries: the cell is ``key group (2) · length of name (1) · name · key``. A value lies at the empty sub-key; list elements at their number (8), with
the next number at the empty sub-key; map entries at the encoded map key. Timers are a nameless cell with times (8) as sub-keys.
Every entry of a variable begins with the time it expires at (8), zero: never.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import Any

from tidegate.model import types as t
from tidegate.operators.stateful.codec import Codec
from tidegate.operators.stateful.deadlines import Deadlines
from tidegate.operators.stateful.variables import ValueCodec, VariableKind, Variables
from tidegate.operators.user_functions import RowMaker
from tidegate.state.entries import EntryTable

_NUMBER = struct.Struct(">Q")
_BIAS = 1 << 63
"""Times before 1970 sort before later ones."""
_GROUP = struct.Struct(">H")
_TIMERS = b"\x00"


class KeyedState:
    """Everything an operator keeps. ``enter`` chooses the key that variables and timers then speak of."""

    def __init__(self, table: EntryTable, variables: Variables, make_row: RowMaker) -> None:
        self.table = table
        self.variables = variables
        self.make_row = make_row
        self.timers = Deadlines()
        self.expiring = Deadlines()
        self.now_ms = 0
        self.watermark_ms = 0
        self._group = b""
        self._key = b""

    def enter(self, group: int, key: bytes) -> None:
        self._group = _GROUP.pack(group)
        self._key = key

    def cell(self, prefix: bytes) -> bytes:
        return self._group + prefix + self._key

    def reload(self) -> None:
        """After the table was restored: what falls due and when."""
        timers: list[tuple[int, tuple[bytes, bytes]]] = []
        expiring: list[tuple[int, tuple[bytes, bytes]]] = []
        for cell, sub, value in self.table.all_entries():
            if not cell[2]:
                timers.append((_time_of(sub), (cell, sub)))
            elif at_ms := _NUMBER.unpack_from(value)[0]:
                expiring.append((at_ms, (cell, sub)))
        self.timers.load(timers)
        self.expiring.load(expiring)

    # -- declaring

    def value(self, name: str, schema: t.Schema, ttl_ms: int | None = None) -> ValueVariable:
        return ValueVariable(self, name, VariableKind.VALUE, schema, ttl_ms)

    def list(self, name: str, schema: t.Schema, ttl_ms: int | None = None) -> ListVariable:
        return ListVariable(self, name, VariableKind.LIST, schema, ttl_ms)

    def map(self, name: str, key: t.Schema, schema: t.Schema, ttl_ms: int | None = None) -> MapVariable:
        return MapVariable(self, name, VariableKind.MAP, schema, ttl_ms, key)

    def forget(self, name: str) -> None:
        """Removes a variable and its entries of all keys, if there is one of that name."""
        if self.variables.forget(name):
            prefix = _prefix(name)
            for cell, sub, _ in self.table.all_entries():
                if cell.startswith(prefix, 2):
                    self.table.delete(cell, sub)

    # -- timers of the key

    def register_timer(self, at_ms: int) -> None:
        """Once per time, however often it is registered."""
        address = self.cell(_TIMERS), _time(at_ms)
        if self.table.get(*address) is None:
            self.table.put(*address, b"")
            self.timers.add(at_ms, address)

    def delete_timer(self, at_ms: int) -> None:
        self.table.delete(self.cell(_TIMERS), _time(at_ms))

    def list_timers(self) -> list[int]:
        return [_time_of(sub) for sub, _ in self.table.items(self.cell(_TIMERS))]

    def due_timers(self, until_ms: int) -> Iterator[tuple[int, int, bytes]]:
        """Time, key group and key of every timer that is due, in order. One that was deleted on the way is left out."""
        for at_ms, (cell, sub) in self.timers.due(until_ms):
            if self.table.get(cell, sub) is not None:
                yield at_ms, _GROUP.unpack_from(cell)[0], cell[3:]

    def drop_expired(self) -> None:
        """Nobody sees an entry past its time; this gives back its room."""
        shrunk: dict[bytes, None] = {}
        for at_ms, (cell, sub) in self.expiring.due(self.now_ms):
            value = self.table.get(cell, sub)
            if value is not None and _NUMBER.unpack_from(value)[0] == at_ms:
                self.table.delete(cell, sub)
                if sub:
                    shrunk[cell] = None
        for cell in shrunk:
            if not self.table.items(cell):
                self.table.delete(cell)  # The head of a list that is empty now.


class _Variable:
    def __init__(
        self,
        state: KeyedState,
        name: str,
        kind: VariableKind,
        schema: t.Schema,
        ttl_ms: int | None,
        key: t.Schema = (),
    ) -> None:
        declared = state.variables.declare(name, kind, schema, key)
        self._state = state
        self._table = state.table
        self._codec = ValueCodec(declared, state.make_row)
        self._prefix = _prefix(name)
        self._ttl_ms = ttl_ms

    def _cell(self) -> bytes:
        return self._state.cell(self._prefix)

    def _put(self, cell: bytes, sub: bytes, values: Iterable[Any]) -> None:
        self._put_written(cell, sub, self._codec.encode(values))

    def _put_written(self, cell: bytes, sub: bytes, written: bytes) -> None:
        at_ms = 0
        if self._ttl_ms is not None:
            at_ms = self._state.now_ms + self._ttl_ms
            self._state.expiring.add(at_ms, (cell, sub))
        self._table.put(cell, sub, _NUMBER.pack(at_ms) + written)

    def _alive(self, value: bytes | None) -> bool:
        if value is None:
            return False
        at_ms = _NUMBER.unpack_from(value)[0]
        return at_ms == 0 or at_ms > self._state.now_ms

    def _read(self, value: bytes) -> tuple[Any, ...]:
        return self._codec.decode(value[8:])

    def _items(self) -> list[tuple[bytes, bytes]]:
        return [(sub, value) for sub, value in self._table.items(self._cell()) if self._alive(value)]

    def clear(self) -> None:
        cell = self._cell()
        self._table.delete(cell)
        for sub, _ in self._table.items(cell):
            self._table.delete(cell, sub)


class ValueVariable(_Variable):
    def exists(self) -> bool:
        return self._alive(self._table.get(self._cell()))

    def get(self) -> tuple[Any, ...] | None:
        value = self._table.get(self._cell())
        return self._read(value) if value is not None and self._alive(value) else None

    def update(self, values: Iterable[Any]) -> None:
        self._put(self._cell(), b"", values)

    def clear(self) -> None:
        self._table.delete(self._cell())


class ListVariable(_Variable):
    def exists(self) -> bool:
        return bool(self._items())

    def get(self) -> list[tuple[Any, ...]]:
        return [self._read(value) for _, value in self._items()]

    def put(self, rows: Iterable[Iterable[Any]]) -> None:
        written = [self._codec.encode(row) for row in rows]
        self.clear()
        self._append(written)

    def append(self, rows: Iterable[Iterable[Any]]) -> None:
        self._append([self._codec.encode(row) for row in rows])

    def _append(self, written: list[bytes]) -> None:
        cell = self._cell()
        head = self._table.get(cell)
        number = 0 if head is None else _NUMBER.unpack_from(head, 8)[0]
        for one in written:
            self._put_written(cell, _NUMBER.pack(number), one)
            number += 1
        self._table.put(cell, b"", _HEAD + _NUMBER.pack(number))


class MapVariable(_Variable):
    def __init__(
        self, state: KeyedState, name: str, kind: VariableKind, schema: t.Schema, ttl_ms: int | None, key: t.Schema
    ) -> None:
        super().__init__(state, name, kind, schema, ttl_ms, key)
        self._keys = Codec(key, f"a key of state variable {name!r}", state.make_row)

    def exists(self) -> bool:
        return bool(self._items())

    def get(self, key: Iterable[Any]) -> tuple[Any, ...] | None:
        value = self._table.get(self._cell(), self._keys.encode(key))
        return self._read(value) if value is not None and self._alive(value) else None

    def contains(self, key: Iterable[Any]) -> bool:
        return self._alive(self._table.get(self._cell(), self._keys.encode(key)))

    def update(self, key: Iterable[Any], values: Iterable[Any]) -> None:
        self._put(self._cell(), self._keys.encode(key), values)

    def remove(self, key: Iterable[Any]) -> None:
        self._table.delete(self._cell(), self._keys.encode(key))

    def items(self) -> list[tuple[tuple[Any, ...], tuple[Any, ...]]]:
        return [(self._keys.decode(sub), self._read(value)) for sub, value in self._items()]


_HEAD = _NUMBER.pack(0)


def _prefix(name: str) -> bytes:
    encoded = name.encode()
    return bytes((len(encoded),)) + encoded


def _time(at_ms: int) -> bytes:
    return _NUMBER.pack(at_ms + _BIAS)


def _time_of(sub: bytes) -> int:
    return _NUMBER.unpack(sub)[0] - _BIAS
