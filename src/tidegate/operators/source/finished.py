"""Splits that a reader has read to their ends, until everybody knows."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tidegate.model.ids import CheckpointId
from tidegate.model.snapshot import FinishedSplit


@dataclass(frozen=True, slots=True)
class _Finished:
    split: FinishedSplit
    checkpoint: CheckpointId | None = None
    """The first that reported it."""
    told: int | None = None
    """The number of the first message that told the assigner."""
    heard: bool = False
    done: bool = False
    """A completed checkpoint has it as done."""


@dataclass(slots=True)
class FinishedSplits:
    """Reported with every checkpoint until one is complete, and to the assigner until it has heard of them."""

    _by_number: dict[int, _Finished]

    def add(self, split: FinishedSplit) -> None:
        self._by_number[split.number] = _Finished(split)

    @property
    def all(self) -> tuple[FinishedSplit, ...]:
        """Those that no completed checkpoint has as done."""
        return tuple(sorted(one.split for one in self._by_number.values() if not one.done))

    @property
    def unheard(self) -> tuple[FinishedSplit, ...]:
        return tuple(sorted(one.split for one in self._by_number.values() if not one.heard))

    def told(self, message: int) -> None:
        """Message number ``message`` names all that are unheard."""
        for number, one in self._by_number.items():
            if one.told is None:
                self._by_number[number] = replace(one, told=message)

    def heard(self, messages: int) -> bool:
        """The assigner has taken in the message before number ``messages``. Whether nothing is left to be heard of."""
        for number, one in self._by_number.items():
            if not one.heard and one.told is not None and one.told < messages:
                self._by_number[number] = replace(one, heard=True)
        self._forget()
        return not self.unheard

    def reported(self, checkpoint: CheckpointId) -> None:
        for number, one in self._by_number.items():
            if one.checkpoint is None:
                self._by_number[number] = replace(one, checkpoint=checkpoint)

    def completed(self, checkpoint: CheckpointId) -> tuple[int, ...]:
        """The numbers of those that the checkpoint has as done. The assigner is told of them all the same: what it has not heard
        of holds event time, and the end of a bounded run."""
        done = [
            number
            for number, one in self._by_number.items()
            if not one.done and one.checkpoint is not None and one.checkpoint <= checkpoint
        ]
        for number in done:
            self._by_number[number] = replace(self._by_number[number], done=True)
        self._forget()
        return tuple(done)

    def _forget(self) -> None:
        for number in [number for number, one in self._by_number.items() if one.done and one.heard]:
            del self._by_number[number]
