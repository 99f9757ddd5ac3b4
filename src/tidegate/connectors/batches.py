"""What waits beside the checkpoints for code of the user on the driver, and which checkpoints that code has been through."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tidegate.checkpoint import layout
from tidegate.checkpoint.layout import ManifestRef
from tidegate.model.errors import CorruptSnapshot, Unavailable
from tidegate.model.ids import Attempt, OperatorId, SlotIndex
from tidegate.model.snapshot import Published
from tidegate.ports.store import BlobStore
from tidegate.state.encoded import Encoded

DONE_RETAINED = 2_000
"""Twice as many as checkpoints can be retained: whichever of them is restored, its batches are known to be done."""
TRIM_EVERY = 100


@dataclass(frozen=True, slots=True)
class WaitingObject:
    """``number``: whatever the writer counts."""

    key: str
    attempt: Attempt
    subtask: SlotIndex
    number: int


class Batches:
    """The part of the checkpoint location that belongs to one sink. Objects are created once and never changed."""

    def __init__(self, store: BlobStore, sink: OperatorId) -> None:
        self._store = store
        self._sink = sink
        self._marked = 0

    def put(self, attempt: Attempt, subtask: SlotIndex, number: int, data: bytes) -> str:
        """The key under which ``data`` is durable. Raises ``Unavailable`` when that is not known."""
        key = layout.waiting_key(self._sink, attempt, subtask, number)
        # Refused means that our own earlier try landed: nobody else can form this name.
        self._store.put_own(key, Encoded.of(data))
        return key

    def read(self, key: str) -> bytes:
        data = self._store.read(key)
        if data is None:
            raise CorruptSnapshot(
                f"{key} was prepared by a completed checkpoint, but is not in the checkpoint location",
                hint="somebody deleted it: bring it back, or accept the loss and start from a new checkpoint location",
            )
        return data

    def older_than(self, attempt: Attempt) -> list[WaitingObject]:
        """What attempts before this one left; in the order of their names."""
        keys = self._store.list(f"{layout.BATCHES_PREFIX}{self._sink}/waiting/")
        found = [(key, origin) for key in keys if (origin := layout.waiting_origin(key)) is not None]
        return [WaitingObject(key, *origin) for key, origin in found if origin[0] < attempt]

    def delete(self, keys: Iterable[str]) -> None:
        """Raises ``Unavailable`` when some of them could not be deleted."""
        if problems := self._store.delete_many(tuple(keys)):
            key, problem = next(iter(problems.items()))
            raise Unavailable(f"cannot delete {key}: {problem}", hint="it is tried again")

    def is_done(self, ref: ManifestRef) -> bool:
        return self._store.read(layout.done_key(self._sink, ref)) is not None

    def mark_done(self, ref: ManifestRef) -> None:
        """From now on nobody, however late, does it again."""
        self._store.create(layout.done_key(self._sink, ref), b"")
        self._marked += 1
        if self._marked % TRIM_EVERY == 0:
            self._trim()

    def newest_done(self) -> Published | None:
        """Of the newest attempt that has marked any. None: no batch was ever done, as far as is known."""
        return max((Published(ref.attempt, ref.checkpoint) for ref in self._done()), default=None)

    def _trim(self) -> None:
        for ref in self._done()[:-DONE_RETAINED]:
            self._store.delete(layout.done_key(self._sink, ref))

    def _done(self) -> list[ManifestRef]:
        """Oldest first."""
        keys = self._store.list(f"{layout.BATCHES_PREFIX}{self._sink}/done/")
        return sorted(ref for key in keys if (ref := layout.done_ref(key)) is not None)
