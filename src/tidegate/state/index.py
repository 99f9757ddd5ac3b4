"""Hash → row number for whole batches of keys: open addressing with linear probing, in NumPy.

The index trusts no hash: a match is a match only when the table's own comparison of the keys says so, hence even a full
64-bit collision costs a probe and never a wrong row. Rows die without telling the index: the comparison refuses them, and
a rebuild drops their entries.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Rows: TypeAlias = NDArray[np.int64]
Hashes: TypeAlias = NDArray[np.uint64]
SameKey: TypeAlias = Callable[[Rows, Rows], NDArray[np.bool_]]

MISSING = -1
_EMPTY = np.uint64(0)
_ROW_MASK = np.uint64(0xFFFFFFFF)
_TAG_MASK = np.uint64(0xFFFFFFFF00000000)
_TAG_UNIT = np.uint64(1 << 32)
_SPREAD = np.uint64(0x9E3779B97F4A7C15)
_SLOTS_MIN = 1 << 10
_SLOTS_PER_ROW = 3
"""At most a third of the slots are used: probe sequences stay short."""
_ROWS_MAX = (1 << 32) - 2


class KeyIndex:
    """A slot holds ``hash's upper half | row + 1``; 0 is empty. The loop runs over probe rounds, never over rows."""

    def __init__(self) -> None:
        self._hashes: Hashes = np.zeros(0, np.uint64)
        self._rows = 0
        self._reset(_SLOTS_MIN)

    @property
    def rows(self) -> int:
        """Row numbers given out so far."""
        return self._rows

    def hashes_of(self, rows: Rows) -> Hashes:
        return self._hashes[rows]

    def find(self, hashes: Hashes, same_as_row: SameKey) -> Rows:
        """The row of each key, or MISSING. ``same_as_row(positions, rows)`` compares key ``positions[i]`` with row ``rows[i]``."""
        found = np.full(len(hashes), MISSING, np.int64)
        pending = np.arange(len(hashes))
        slots = self._home(hashes)
        while len(pending):
            entries = self._slots.take(slots)
            used = np.flatnonzero(entries != _EMPTY)
            pending, slots, entries = pending.take(used), slots.take(used), entries.take(used)
            pending, slots = self._resolve(found, pending, slots, entries, hashes, same_as_row)
        return found

    def find_or_add(self, hashes: Hashes, same_as_row: SameKey, same_key: SameKey) -> tuple[Rows, Rows]:
        """The row of each key and, per added row in order, the position of its key. Equal keys in one call share a row.

        ``same_key(i, j)`` compares two keys of this call, for rows that are only just being added.
        """
        self._make_room(len(hashes))
        first_new = self._rows
        owners: list[Rows] = []
        owner_of = np.empty(len(hashes), np.int64)

        def same(positions: Rows, rows: Rows) -> NDArray[np.bool_]:
            fresh = rows >= first_new
            if not fresh.any():
                return same_as_row(positions, rows)
            result = np.empty(len(rows), np.bool_)
            result[~fresh] = same_as_row(positions[~fresh], rows[~fresh])
            result[fresh] = same_key(positions[fresh], owner_of[rows[fresh] - first_new])
            return result

        found = np.full(len(hashes), MISSING, np.int64)
        pending = np.arange(len(hashes))
        slots = self._home(hashes)
        while len(pending):
            entries = self._slots.take(slots)
            empty = entries == _EMPTY
            if empty.any():
                # Several keys may want one empty slot: all write their mark, the last one wins, the others look again.
                asking, wanted = pending[empty], slots[empty]
                marks = (asking + 1).astype(np.uint64)
                self._slots[wanted] = marks
                won = self._slots.take(wanted) == marks
                winners = asking[won]
                rows = self._rows + np.arange(len(winners))
                owner_of[rows - first_new] = winners
                owners.append(winners)
                self._hashes[rows] = hashes[winners]
                self._rows += len(winners)
                self._slots[wanted[won]] = (hashes[winners] & _TAG_MASK) | (rows + 1).astype(np.uint64)
                found[winners] = rows
                unresolved = np.flatnonzero(found.take(pending) == MISSING)
                pending, slots = pending.take(unresolved), slots.take(unresolved)
                entries = self._slots.take(slots)
            pending, slots = self._resolve(found, pending, slots, entries, hashes, same)
        added = np.concatenate(owners) if owners else np.zeros(0, np.int64)
        return found, added

    def rebuild(self, keep: Rows) -> None:
        """Row ``keep[i]`` becomes row ``i``; all others are forgotten."""
        self._hashes = self._hashes[keep]
        self._rows = len(keep)
        self._reset(len(self._slots) if _SLOTS_PER_ROW * len(keep) > len(self._slots) // 4 else len(self._slots) // 2)

    @property
    def size_bytes(self) -> int:
        return self._slots.nbytes + self._rows * 8

    def _resolve(
        self, found: Rows, pending: Rows, slots: Rows, entries: Hashes, hashes: Hashes, same: SameKey
    ) -> tuple[Rows, Rows]:
        """Notes the rows of the keys that stand in their slot (none is empty); the others move on to the next slot."""
        # Upper half of the hash first, the key itself second.
        alike = np.flatnonzero((entries ^ hashes.take(pending)) < _TAG_UNIT)
        keys, rows = pending.take(alike), (entries.take(alike) & _ROW_MASK).astype(np.int64) - 1
        if len(alike):
            equal = same(keys, rows)
            if not equal.all():
                alike, keys, rows = alike[equal], keys[equal], rows[equal]
        found[keys] = rows
        on = np.ones(len(pending), np.bool_)
        on[alike] = False
        rest = np.flatnonzero(on)
        return pending.take(rest), (slots.take(rest) + 1) & self._mask

    def _home(self, hashes: Hashes) -> Rows:
        # A subtask owns few key groups, so the low bits of its hashes are not uniform: spread all bits first.
        return ((hashes * _SPREAD) >> self._shift).astype(np.int64)

    def _make_room(self, more: int) -> None:
        needed = self._rows + more
        if needed > _ROWS_MAX:
            raise OverflowError(f"{needed} keys in one subtask; raise the parallelism")
        if needed > len(self._hashes):
            larger = np.zeros(max(needed, 2 * len(self._hashes)), np.uint64)
            larger[: self._rows] = self._hashes[: self._rows]
            self._hashes = larger
        slots = len(self._slots)
        while slots < _SLOTS_PER_ROW * needed:
            slots *= 2
        if slots != len(self._slots):
            self._reset(slots)

    def _reset(self, slots: int) -> None:
        """Empty slots, then all rows again. They are known to differ, so nothing is compared."""
        slots = max(slots, _SLOTS_MIN)
        self._slots: Hashes = np.zeros(slots, np.uint64)
        self._mask = slots - 1
        self._shift = np.uint64(64 - (slots.bit_length() - 1))
        pending = np.arange(self._rows)
        hashes = self._hashes[: self._rows]
        entries = (hashes & _TAG_MASK) | (pending + 1).astype(np.uint64)
        at = self._home(hashes)
        while len(pending):
            free = self._slots[at] == _EMPTY
            self._slots[at[free]] = entries[pending[free]]
            lost = self._slots[at] != entries[pending]
            pending, at = pending[lost], (at[lost] + 1) & self._mask
