"""Driver side of sources whose splits are known at the start and never change in number."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from tidegate.model.errors import CorruptSnapshot
from tidegate.model.snapshot import Split
from tidegate.operators.values import decoded
from tidegate.ports.source import SplitEnumerator


class FixedSplits(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="fixed-splits/1"):
    payloads: tuple[bytes, ...]


class FixedEnumerator(SplitEnumerator):
    """Discovers all splits in the first round. Restored splits win over the options: their number is fixed at first start."""

    endless = True
    ordered = True

    def __init__(
        self,
        plan: Callable[[], tuple[bytes, ...]],
        *,
        bounded: bool,
        asked: str | None = None,
        check: Callable[[int, int, bytes], None] = lambda _number, _count, _payload: None,
    ) -> None:
        """``asked``: as in ``SplitEnumerator``. ``check``: raises CorruptSnapshot for a restored split, one of ``count``, that cannot
        be read."""
        self._plan = plan
        self._stops = bounded
        self._check = check
        self.asked = asked
        self._splits: tuple[Split, ...] | None = None

    @property
    def bounded(self) -> bool:
        return self._stops and self._splits is not None

    def discover(self, now_ms: int) -> tuple[Split, ...]:
        if self._splits is not None:
            return ()
        self._splits = _numbered(self._plan())
        return self._splits

    def begin(self, now_ms: int) -> bytes:
        return msgspec.msgpack.encode(FixedSplits(payloads=self._plan()))

    def snapshot(self) -> bytes:
        return msgspec.msgpack.encode(FixedSplits(payloads=tuple(split.payload for split in self._splits or ())))

    def restore(self, state: bytes, known: tuple[Split, ...]) -> tuple[Split, ...]:
        stored = decoded(state, FixedSplits, "the source's list of splits").payloads if state else ()
        if not stored and not known:
            return ()  # The checkpoint was taken before the first discovery: everything is still to be found.
        found = dict(enumerate(stored)) | {split.number: split.payload for split in known}
        if sorted(found) != list(range(len(found))):
            raise CorruptSnapshot(f"the source knows {len(found)} splits, but their numbers have gaps")
        for number, payload in found.items():
            self._check(number, len(found), payload)
        self._splits = _numbered(tuple(found[number] for number in range(len(found))))
        return self._splits


def check_part(what: str, number: int, count: int, part: int, of: int) -> None:
    """Raises CorruptSnapshot for a split that is another part than the one it stands for: values would be missing or come twice."""
    if (part, of) != (number, count):
        raise CorruptSnapshot(
            f"split {number} of {count} of the {what} says that it is part {part} of {of}",
            hint="restore an older checkpoint: this one was not written by Tidegate",
        )


def _numbered(payloads: tuple[bytes, ...]) -> tuple[Split, ...]:
    return tuple(Split(number=number, payload=payload) for number, payload in enumerate(payloads))
