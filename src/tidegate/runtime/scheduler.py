"""Which subtask is next. Downstream first keeps queues short; reserved turns keep everyone alive."""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.runtime.source_subtask import SourceSubtask
from tidegate.runtime.subtask import Runnable

RESERVED_EVERY = 4
"""One turn in so many belongs to the sources, one to whoever waited longest. With "downstream first" alone, a slot that gets
most of the rows is always busy with those of others, and its own source almost never runs."""


class Scheduler:
    """Deterministic: the same subtasks runnable in the same turns give the same order."""

    def __init__(self, subtasks: Sequence[Runnable]) -> None:
        self._downstream_first = tuple(reversed(subtasks))
        self._sources = [one for one in subtasks if isinstance(one, SourceSubtask)]
        self._rotation = list(self._downstream_first)
        self._turn = 0

    def pick(self, now_ms: float) -> Runnable | None:
        self._turn += 1
        match self._turn % RESERVED_EVERY:
            case 0:
                reserved = self._first_in_turn(self._sources, now_ms)
            case 2:
                reserved = self._first_in_turn(self._rotation, now_ms)
            case _:
                reserved = None
        if reserved is not None:
            return reserved
        return next((one for one in self._downstream_first if one.runnable(now_ms)), None)

    def any_runnable(self, now_ms: float) -> bool:
        return any(one.runnable(now_ms) for one in self._downstream_first)

    @staticmethod
    def _first_in_turn(waiting: list[Runnable] | list[SourceSubtask], now_ms: float) -> Runnable | None:
        for index, one in enumerate(waiting):
            if one.runnable(now_ms):
                waiting.append(waiting.pop(index))  # pyright: ignore[reportArgumentType]
                return one
        return None
