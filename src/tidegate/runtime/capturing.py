"""Snapshots whose rows are still being copied out of the tables. They leave for storage when the last row is there.

A bit of it is done every turn, so that a barrier keeps a subtask for no longer than the noting of two numbers, whatever the size
of its state.
"""

from __future__ import annotations

from collections.abc import Callable

from tidegate.model.ids import CheckpointId, SubtaskId
from tidegate.runtime.chain import Chain
from tidegate.runtime.effects import Persist
from tidegate.state.chunk import NewChunk

CAPTURE_MS = 4.0
"""Copying takes no longer than this of one turn, if time is measured; otherwise it is one step of each operator."""


class Capturing:
    """The ``Persist`` effects of one slot that cannot leave yet."""

    def __init__(self, clock: Callable[[], float] | None) -> None:
        self._clock = clock
        self._waiting: list[tuple[Persist, Chain, float]] = []
        self._took_ms: dict[tuple[CheckpointId, SubtaskId], float] = {}

    @property
    def busy(self) -> bool:
        return bool(self._waiting)

    def add(self, persist: Persist, chain: Chain, now_ms: float) -> bool:
        """False: it is complete and may leave at once."""
        if complete(persist):
            return False
        self._waiting.append((persist, chain, now_ms))
        return True

    def advance(self, now_ms: float) -> tuple[Persist, ...]:
        """Copies some more; those that are complete now."""
        if not self._waiting:
            return ()
        clock = self._clock
        until_ms = clock() + CAPTURE_MS if clock is not None else 0.0
        first, chain, _ = self._waiting[0]
        chain.capture()
        while clock is not None and not complete(first) and clock() < until_ms:
            chain.capture()
        waiting, self._waiting = self._waiting, []
        done: list[Persist] = []
        for entry in waiting:
            persist, _, since_ms = entry
            if complete(persist):
                self._took_ms[persist.checkpoint, persist.subtask] = now_ms - since_ms
                done.append(persist)
            else:
                self._waiting.append(entry)
        return tuple(done)

    def took_ms(self, checkpoint: CheckpointId, subtask: SubtaskId) -> float:
        """How long the copying took; asked once."""
        return self._took_ms.pop((checkpoint, subtask), 0.0)

    def abandon(self, checkpoint: CheckpointId) -> None:
        """The checkpoint was given up: nobody wants its rows."""
        for persist, chain, _ in self._waiting:
            if persist.checkpoint == checkpoint:
                chain.abandon_capture(checkpoint)
        self._waiting = [entry for entry in self._waiting if entry[0].checkpoint != checkpoint]
        self._took_ms = {key: took_ms for key, took_ms in self._took_ms.items() if key[0] != checkpoint}


def complete(persist: Persist) -> bool:
    return all(chunk.complete for _, state in persist.states for chunk in state.chunks if isinstance(chunk, NewChunk))
