"""The driver's side of all sources of a job that runs in one thread: it looks for splits, deals them out and tells the time.

It decides nothing of that itself: ``checkpoint/sources.py`` and ``checkpoint/granting.py`` do, as in every other run.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping

from tidegate.checkpoint.events import SplitsDiscovered
from tidegate.checkpoint.granting import granted
from tidegate.checkpoint.intervals import contains
from tidegate.checkpoint.manifest import SourceState
from tidegate.checkpoint.plan import CheckpointPlan
from tidegate.checkpoint.sources import fresh, restored
from tidegate.model.ids import Attempt, OperatorId
from tidegate.model.messages import AssignSplits, SourceTime, SplitsWanted
from tidegate.model.snapshot import OperatorSnapshot, Split
from tidegate.operators.ports import ContinuingEnumerator, SplitEnumerator


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
        self._bounded = plan.config.bounded
        self._watches = {
            name: _Watch(name, enumerator, states.get(name), bounded=self._bounded)
            for name, enumerator in enumerators.items()
        }
        self._posted: deque[SplitsDiscovered] = deque()
        self._assigners = {
            name: restored(states[name], plan.parallelism, plan.delay_us_of(name), lags=plan.only_judges)
            if name in states
            else fresh(name, plan.parallelism, plan.delay_us_of(name), lags=plan.only_judges)
            for name in enumerators
        }

    def actions(self, now_ms: float) -> Iterable[Callable[[float], tuple[AssignSplits, ...]]]:
        """What may happen now. Each gives the messages to readers that follow from it."""
        for watch in self._watches.values():
            if watch.next_ms <= now_ms:
                yield lambda now_ms, watch=watch: self._look(watch, now_ms)
        if self._posted:
            yield self._hear
        if any(one.tells_time(int(now_ms)) for one in self._assigners.values()):
            yield lambda now_ms: self._assign(now_ms)

    @property
    def next_look_ms(self) -> float:
        return min((watch.next_ms for watch in self._watches.values()), default=float("inf"))

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

    def _look(self, watch: _Watch, now_ms: float) -> tuple[AssignSplits, ...]:
        found = watch.look(self._attempt, now_ms)
        watch.next_ms = float("inf") if self._bounded else now_ms + self._plan.config.discovery_interval_ms
        if found is not None:
            self._posted.append(found)
        return ()

    def _hear(self, now_ms: float) -> tuple[AssignSplits, ...]:
        event = self._posted.popleft()
        self.looks.append(event)
        self._assigners[event.operator] = self._assigners[event.operator].on_discovered(
            event.splits,
            event.state,
            bounded=event.bounded,
            endless=event.endless,
            ordered=event.ordered,
            found=event.found,
        )
        return self._assign(now_ms)

    def _assign(self, now_ms: float) -> tuple[AssignSplits, ...]:
        messages: list[AssignSplits] = []
        for assigner in granted(self._plan, tuple(self._assigners.values())):
            self._assigners[assigner.operator], told = assigner.assign(self._attempt, now_ms=int(now_ms))
            messages.extend(told)
        return tuple(messages)


class _Watch:
    """One source's enumerator, and whether its last look is worth telling."""

    def __init__(
        self, operator: OperatorId, enumerator: SplitEnumerator, state: SourceState | None, *, bounded: bool
    ) -> None:
        self.next_ms = 0.0
        self._operator = operator
        self._enumerator = enumerator
        self._state = state
        self._bounded = bounded
        self._began = False
        self._found = True

    def look(self, attempt: Attempt, now_ms: float) -> SplitsDiscovered | None:
        """None: as little as the time before. The first look tells everything that the enumerator knew before the restore as well."""
        known = () if self._began else self._known()
        new = self._enumerator.discover(int(now_ms))
        told, self._found = self._found, bool(new)
        first, self._began = not self._began, True
        if not new and not told and not first:
            return None
        return SplitsDiscovered(
            int(now_ms),
            attempt,
            self._operator,
            (*known, *new),
            self._enumerator.snapshot(),
            bounded=self._bounded,
            endless=getattr(self._enumerator, "endless", False),
            ordered=getattr(self._enumerator, "ordered", False),
            found=bool(new),
        )

    def _known(self) -> tuple[Split, ...]:
        state = self._state
        if state is None:
            return ()
        if isinstance(self._enumerator, ContinuingEnumerator):
            self._enumerator.learn_done(lambda number: contains(state.done, number))
        return self._enumerator.restore(state.enumerator, tuple(position.split for position in state.open))
