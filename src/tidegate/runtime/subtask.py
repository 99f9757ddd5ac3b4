"""One parallel instance of a stage: a chain, its outputs, and at most one element in the middle of being processed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

from tidegate.model.config import CheckpointMode, QueryConfig
from tidegate.model.elements import Output
from tidegate.model.ids import Attempt, CheckpointId, OperatorId, SlotIndex, SubtaskId
from tidegate.model.messages import OperatorMetrics
from tidegate.runtime.chain import Chain
from tidegate.runtime.effects import SlotEffect
from tidegate.runtime.outputs import Outputs
from tidegate.runtime.pace import Pace
from tidegate.runtime.snapshotting import Snapshots

QUANTUM_ELEMENTS = 16
"""A subtask that is given the loop processes at most so many elements …"""
QUANTUM_MS = 25.0
"""… and starts none after so long, if time is measured."""


@dataclass(slots=True)
class SlotScope:
    """What the subtasks of one slot share."""

    slot: SlotIndex
    attempt: Attempt
    parallelism: int
    config: QueryConfig
    clock: Callable[[], float] | None
    whole_results: bool = False
    """Rows leave at the barrier, before it. A barrier that one subtask has passed must then pass all of them, in order."""
    sources_meet: bool = False
    """Readers of logs say where their event time stands: others have to know."""
    far_sources: frozenset[OperatorId] = frozenset()
    """Sources whose time is told behind an exchange."""
    now_ms: float = 0.0
    """The latest time the slot was told."""
    wall_offset_ms: float = 0.0
    """From the slot's clock to milliseconds since the epoch. Fixed for the attempt: a clock that is set meanwhile moves no timer."""
    effects: list[SlotEffect] = field(default_factory=list)
    triggered_ms: dict[CheckpointId, float] = field(default_factory=dict)
    """When this slot first heard of a checkpoint, by its own clock."""

    @property
    def overtake_after_ms(self) -> float:
        """How long a barrier may stand behind rows; for ever, unless asked for otherwise. In at-least-once mode none overtakes: rows in
        flight would make the snapshot larger and the promise no stronger. Nor does one that follows a whole result."""
        config = self.config
        exactly_once = config.checkpoint_mode is CheckpointMode.EXACTLY_ONCE
        on = config.aligned_timeout_ms > 0 and exactly_once and not self.whole_results
        return float(config.aligned_timeout_ms) if on else float("inf")

    def wall_ms(self, now_ms: float) -> int:
        return int(now_ms + self.wall_offset_ms)

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

    @property
    def next_timer_ms(self) -> float:
        """When a timer in processing time is due, by the slot's clock."""
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
        self._rows = 0
        self._spent_ms = 0.0
        """On what is running; not while it was suspended."""
        self._pace = Pace(config.batch_rows_max, measured=clock is not None)

    @property
    def rows_max(self) -> int:
        """How many rows to take at once: fewer when they turned out to be slow, here or further down."""
        wanted = self._outputs.rows_wanted
        return self._pace.rows_max if wanted is None else min(self._pace.rows_max, wanted)

    @property
    def suspended(self) -> bool:
        return self._running is not None

    @property
    def resumable(self) -> bool:
        return self._running is not None and not self._outputs.full

    def begin(self, outputs: Iterator[Output], rows: int = 0) -> bool:
        """True when it is done already. ``rows``: how many go in."""
        assert self._running is None
        self._running, self._rows, self._spent_ms = outputs, rows, 0.0
        return self.resume()

    def resume(self) -> bool:
        return self._draw(beyond_room=False)

    def finish(self) -> None:
        """Draws what is left to the end, room or not: a barrier that overtakes waits for nobody. At most one batch's outputs."""
        if self._running is not None:
            self._draw(beyond_room=True)

    def _draw(self, *, beyond_room: bool) -> bool:
        running, outputs, clock = self._running, self._outputs, self._clock
        assert running is not None
        began_ms = clock() if clock is not None else 0.0
        while beyond_room or not outputs.full:
            output = next(running, None)
            if output is None:
                self._running = None
                break
            outputs.emit(output)
        if clock is not None:
            self._spent_ms += clock() - began_ms
            if self._running is None and self._rows:
                self._pace.observed(self._rows, self._spent_ms)
        return self._running is None


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
