"""Driver side of sources whose splits are known at the start and never change in number."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from tidegate.model.errors import CorruptSnapshot
from tidegate.model.snapshot import Split
from tidegate.operators.values import decoded


class FixedSplits(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="fixed-splits/1"):
    payloads: tuple[bytes, ...]


class FixedEnumerator:
    """Discovers all splits in the first round. Restored splits win over the options: their number is fixed at first start."""

    endless = True
    """All splits are dealt out at once: they move through time together, so none may wait for another to end."""
    ordered = True
    """Rows of a split come in the order of their time, or nearly."""

    def __init__(self, plan: Callable[[], tuple[bytes, ...]], *, bounded: bool) -> None:
        self._plan = plan
        self._stops = bounded
        self._splits: tuple[Split, ...] | None = None

    @property
    def bounded(self) -> bool:
        return self._stops and self._splits is not None

    def discover(self, now_ms: int) -> tuple[Split, ...]:
        if self._splits is not None:
            return ()
        self._splits = _numbered(self._plan())
        return self._splits

    def snapshot(self) -> bytes:
        return msgspec.msgpack.encode(FixedSplits(payloads=tuple(split.payload for split in self._splits or ())))

    def restore(self, state: bytes, known: tuple[Split, ...]) -> tuple[Split, ...]:
        stored = decoded(state, FixedSplits, "the source's list of splits").payloads if state else ()
        if not stored and not known:
            return ()  # The checkpoint was taken before the first discovery: everything is still to be found.
        found = dict(enumerate(stored)) | {split.number: split.payload for split in known}
        if sorted(found) != list(range(len(found))):
            raise CorruptSnapshot(f"the source knows {len(found)} splits, but their numbers have gaps")
        self._splits = _numbered(tuple(found[number] for number in range(len(found))))
        return self._splits


def _numbered(payloads: tuple[bytes, ...]) -> tuple[Split, ...]:
    return tuple(Split(number=number, payload=payload) for number, payload in enumerate(payloads))
