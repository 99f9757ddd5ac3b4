"""The driver's side of all sources of a job that runs in one thread: it looks for splits, deals them out and tells the time.

It decides nothing of that itself: ``checkpoint/sources.py`` and ``checkpoint/granting.py`` do, as in every other run.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping

from tidegate.checkpoint.events import SplitsDiscovered
from tidegate.checkpoint.granting import granted
from tidegate.checkpoint.manifest import SourceState
from tidegate.checkpoint.plan import CheckpointPlan
from tidegate.checkpoint.sources import at_start
from tidegate.model.ids import Attempt, OperatorId
from tidegate.model.messages import AssignSplits, SourceTime, SplitsWanted
from tidegate.model.snapshot import OperatorSnapshot
from tidegate.ports.source import SplitEnumerator
from tidegate.testing.looks import Rounds, Watch


class SourceDesk:
    """``states``: of the checkpoint that is restored; a source without one is new."""

    def __init__(
        self,
        plan: CheckpointPlan,
        attempt: Attempt,
        enumerators: Mapping[OperatorId, SplitEnumerator],
        states: Mapping[OperatorId, SourceState],
    ) -> None:
        self.looks: list[SplitsDiscovered] = []
        """Every look that was news, in the order in which the driver heard of them."""
        self._plan = plan
        self._attempt = attempt
        together: dict[OperatorId, list[Watch]] = {}
        for name, enumerator in enumerators.items():
            together.setdefault(plan.stream_of(name) or name, []).append(Watch(name, enumerator, states.get(name)))
        interval_ms, bounded = plan.config.discovery_interval_ms, plan.config.bounded
        self._rounds = [Rounds(watches, attempt, interval_ms, bounded=bounded) for watches in together.values()]
        self._posted: deque[SplitsDiscovered] = deque()
        self._assigners = {name: at_start(plan, name, states.get(name)) for name in enumerators}

    def actions(self, now_ms: float) -> Iterable[Callable[[float], tuple[AssignSplits, ...]]]:
        """What may happen now. Each gives the messages to readers that follow from it."""
        for rounds in self._rounds:
            for look in rounds.looks(now_ms):
                yield lambda now_ms, look=look: self._post(look(now_ms))
        if self._posted:
            yield self._hear
        if any(one.tells_time(int(now_ms)) for one in self._assigners.values()):
            yield lambda now_ms: self._assign(now_ms)

    @property
    def next_look_ms(self) -> float:
        return min((rounds.next_ms for rounds in self._rounds), default=float("inf"))

    def heard(self, message: SplitsWanted | SourceTime, now_ms: float) -> tuple[AssignSplits, ...]:
        """From a reader."""
        if message.operator not in self._assigners:
            return ()
        before = self._assigners[message.operator]
        match message:
            case SplitsWanted():
                self._assigners[message.operator] = before.on_wanted(message)
            case SourceTime():
                self._assigners[message.operator] = before.on_time(message)
        return self._assign(now_ms)

    def fold(self, snapshots: Iterable[OperatorSnapshot]) -> dict[OperatorId, SourceState]:
        """The sources at a checkpoint, from the acknowledgements of all subtasks."""
        snapshots = tuple(snapshots)
        return {
            name: assigner.fold(one.source for one in snapshots if one.operator == name and one.source is not None)
            for name, assigner in self._assigners.items()
        }

    def completed(self, states: Mapping[OperatorId, SourceState]) -> None:
        """The checkpoint with these states is complete."""
        for name, state in states.items():
            self._assigners[name] = self._assigners[name].on_completed(state)

    def _post(self, events: Iterable[SplitsDiscovered]) -> tuple[AssignSplits, ...]:
        self._posted.extend(events)
        return ()

    def _hear(self, now_ms: float) -> tuple[AssignSplits, ...]:
        event = self._posted.popleft()
        self.looks.append(event)
        self._assigners[event.operator] = self._assigners[event.operator].on_looked(event)
        return self._assign(now_ms)

    def _assign(self, now_ms: float) -> tuple[AssignSplits, ...]:
        messages: list[AssignSplits] = []
        for assigner in granted(self._plan, tuple(self._assigners.values())):
            self._assigners[assigner.operator], told = assigner.assign(self._attempt, now_ms=int(now_ms))
            messages.extend(told)
        return tuple(messages)
