"""One parallel instance of a stage: a chain, its outputs, and at most one element in the middle of being processed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

from tidegate.model.config import CheckpointMode, QueryConfig
from tidegate.model.elements import Output
from tidegate.model.ids import Attempt, CheckpointId, SlotIndex, SubtaskId
from tidegate.model.messages import OperatorMetrics
from tidegate.runtime.chain import Chain
from tidegate.runtime.effects import SlotEffect
from tidegate.runtime.outputs import Outputs
from tidegate.runtime.snapshotting import Snapshots
from tidegate.runtime.window import ROWS_MIN

QUANTUM_ELEMENTS = 16
"""A subtask that is given the loop processes at most so many elements …"""
QUANTUM_MS = 25.0
"""… and starts none after so long, if time is measured."""
WORK_TARGET_MS = 50.0
"""One batch should not keep the loop busy for longer."""


@dataclass(slots=True)
class SlotScope:
    """What the subtasks of one slot share."""

    slot: SlotIndex
    attempt: Attempt
    parallelism: int
    config: QueryConfig
    clock: Callable[[], float] | None
    now_ms: float = 0.0
    """The latest time the slot was told."""
    effects: list[SlotEffect] = field(default_factory=list)
    triggered_ms: dict[CheckpointId, float] = field(default_factory=dict)
    """When this slot first heard of a checkpoint, by its own clock."""

    @property
    def overtake_after_ms(self) -> float:
        """How long a barrier may stand behind rows; for ever, unless asked for otherwise. In at-least-once mode none overtakes: rows in
        flight would make the snapshot larger and the promise no stronger."""
        config = self.config
        on = config.aligned_timeout_ms > 0 and config.checkpoint_mode is CheckpointMode.EXACTLY_ONCE
        return float(config.aligned_timeout_ms) if on else float("inf")

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

    def overtake(self, now_ms: float) -> None:
        """Takes the cuts that may not wait any longer."""
        ...

    @property
    def next_overtake_ms(self) -> float:
        """When ``overtake`` has something to do, if nothing else happens."""
        ...

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
        self._rows_max = config.batch_rows_max

    @property
    def rows_max(self) -> int:
        """How many rows to take at once: fewer when they turned out to be slow, here or further down."""
        wanted = self._outputs.rows_wanted
        return self._rows_max if wanted is None else min(self._rows_max, wanted)

    @property
    def suspended(self) -> bool:
        return self._running is not None

    @property
    def resumable(self) -> bool:
        return self._running is not None and not self._outputs.full

    def begin(self, outputs: Iterator[Output], rows: int = 0) -> bool:
        """True when it is done already. ``rows``: how many go in."""
        assert self._running is None
        self._running = outputs
        began_ms = self._clock() if self._clock is not None else 0.0
        done = self.resume()
        if self._clock is not None:
            self._adapt(rows, self._clock() - began_ms)
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

    def finish(self) -> None:
        """Draws what is left to the end, room or not: a barrier that overtakes waits for nobody. At most one batch's outputs."""
        while self._running is not None:
            output = next(self._running, None)
            if output is None:
                self._running = None
            else:
                self._outputs.emit(output)

    def _adapt(self, rows: int, took_ms: float) -> None:
        if took_ms > WORK_TARGET_MS:
            in_time = int(rows * WORK_TARGET_MS / took_ms) or self._rows_max
            self._rows_max = max(ROWS_MIN, min(self._rows_max // 2, in_time))
        elif took_ms < WORK_TARGET_MS / 4:
            self._rows_max = min(self._rows_ceiling, self._rows_max * 2)


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
