"""One parallel instance of a stage: a chain, its outputs, and at most one element in the middle of being processed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

from tidegate.model.config import QueryConfig
from tidegate.model.elements import Output
from tidegate.model.ids import Attempt, CheckpointId, SlotIndex, SubtaskId
from tidegate.model.messages import OperatorMetrics
from tidegate.runtime.chain import Chain
from tidegate.runtime.effects import SlotEffect
from tidegate.runtime.outputs import Outputs
from tidegate.runtime.snapshotting import Snapshots

QUANTUM_ELEMENTS = 16
"""A subtask that is given the loop processes at most so many elements …"""
QUANTUM_MS = 25.0
"""… and starts none after so long, if time is measured."""
WORK_TARGET_MS = 50.0
"""One batch should not keep the loop busy for longer."""
ROWS_MIN = 64


@dataclass(slots=True)
class SlotScope:
    """What the subtasks of one slot share."""

    slot: SlotIndex
    attempt: Attempt
    parallelism: int
    config: QueryConfig
    clock: Callable[[], float] | None
    effects: list[SlotEffect] = field(default_factory=list)
    triggered_ms: dict[CheckpointId, float] = field(default_factory=dict)
    """When this slot first heard of a checkpoint, by its own clock."""

    def start_delay_ms(self, checkpoint: CheckpointId, now_ms: float) -> float:
        return max(0.0, now_ms - self.triggered_ms.get(checkpoint, now_ms))


class Runnable(Protocol):
    """What the loop knows about a subtask of either kind."""

    id: SubtaskId
    chain: Chain
    outputs: Outputs
    snapshots: Snapshots

    def runnable(self, now_ms: float) -> bool:
        """Something can be done now, without any new event."""
        ...

    def run(self, now_ms: float) -> None:
        """Do some of it: one bounded quantum."""
        ...

    def cancel(self, checkpoint: CheckpointId) -> None: ...

    def metrics(self) -> tuple[OperatorMetrics, ...]: ...


class Work:
    """The element being processed. Its outputs are drawn while the outputs have room; in between it is suspended.

    Nothing else is begun before it is done, and above all no snapshot: half an element is in no state and in no channel.
    """

    def __init__(self, outputs: Outputs, config: QueryConfig, clock: Callable[[], float] | None) -> None:
        self._outputs = outputs
        self._clock = clock
        self._running: Iterator[Output] | None = None
        self._rows_ceiling = config.batch_rows_max
        self._began_ms = 0.0
        self.rows_max = config.batch_rows_max
        """How many rows to take at once: fewer when they turned out to be slow."""

    @property
    def suspended(self) -> bool:
        return self._running is not None

    @property
    def resumable(self) -> bool:
        return self._running is not None and not self._outputs.full

    def begin(self, outputs: Iterator[Output]) -> bool:
        """True when it is done already."""
        assert self._running is None
        self._running = outputs
        self._began_ms = self._clock() if self._clock is not None else 0.0
        done = self.resume()
        if self._clock is not None:
            self._adapt(self._clock() - self._began_ms)
        return done

    def resume(self) -> bool:
        assert self._running is not None
        while not self._outputs.full:
            output = next(self._running, None)
            if output is None:
                self._running = None
                return True
            self._outputs.emit(output)
        return False

    def _adapt(self, took_ms: float) -> None:
        if took_ms > WORK_TARGET_MS:
            self.rows_max = max(ROWS_MIN, self.rows_max // 2)
        elif took_ms < WORK_TARGET_MS / 4:
            self.rows_max = min(self._rows_ceiling, self.rows_max * 2)


class Quantum:
    """Counts down what is left of a turn."""

    def __init__(self, clock: Callable[[], float] | None) -> None:
        self._left = QUANTUM_ELEMENTS
        self._clock = clock
        self._until_ms = clock() + QUANTUM_MS if clock is not None else 0.0

    def spend(self) -> bool:
        """True while there is something left."""
        self._left -= 1
        return self._left > 0 and (self._clock is None or self._clock() < self._until_ms)
