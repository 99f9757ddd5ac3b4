"""Looks for input in a job that runs in one thread: what ``spark/discovery.py`` does with threads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from tidegate.checkpoint.events import SplitsDiscovered
from tidegate.checkpoint.intervals import contains
from tidegate.checkpoint.manifest import SourceState
from tidegate.model.ids import Attempt, OperatorId
from tidegate.model.snapshot import Split
from tidegate.ports.source import SplitEnumerator


class Watch:
    """One source's enumerator, and whether its next look is worth telling."""

    def __init__(self, operator: OperatorId, enumerator: SplitEnumerator, state: SourceState | None) -> None:
        self.operator = operator
        self._enumerator = enumerator
        self._state = state
        self._known: tuple[Split, ...] | None = None
        """What the enumerator knew before the restore, until it is told with the first look."""
        self._owes = True

    def look(self, now_ms: float) -> tuple[Split, ...]:
        if self._known is None:
            self._known = self._restored()
        return self._enumerator.discover(int(now_ms))

    def told(
        self, attempt: Attempt, now_ms: float, new: tuple[Split, ...], *, bounded: bool
    ) -> SplitsDiscovered | None:
        """None: as little as the time before."""
        if not new and not self._owes:
            return None
        known, self._known, self._owes = self._known or (), (), bool(new)
        return SplitsDiscovered(
            int(now_ms),
            attempt,
            self.operator,
            (*known, *new),
            self._enumerator.snapshot(),
            bounded=bounded,
            endless=self._enumerator.endless,
            ordered=self._enumerator.ordered,
            found=bool(new),
        )

    def _restored(self) -> tuple[Split, ...]:
        state = self._state
        if state is None:
            return ()
        self._enumerator.learn_done(lambda number: contains(state.done, number))
        return self._enumerator.restore(state.enumerator, tuple(position.split for position in state.open))


class Rounds:
    """Sources of one stream are looked into in rounds, in any order; what a round has found is told when all of it is known.

    Bounded: there is one round.
    """

    def __init__(self, watches: Sequence[Watch], attempt: Attempt, interval_ms: float, *, bounded: bool) -> None:
        self.next_ms = 0.0
        self._watches = watches
        self._attempt = attempt
        self._interval_ms = interval_ms
        self._bounded = bounded
        self._found: dict[OperatorId, tuple[Split, ...]] = {}

    def looks(self, now_ms: float) -> Iterable[Callable[[float], tuple[SplitsDiscovered, ...]]]:
        """Those that may be taken now. Each gives what there is to tell after it."""
        if self.next_ms <= now_ms:
            for watch in self._watches:
                if watch.operator not in self._found:
                    yield lambda now_ms, watch=watch: self._look(watch, now_ms)

    def _look(self, watch: Watch, now_ms: float) -> tuple[SplitsDiscovered, ...]:
        self._found[watch.operator] = watch.look(now_ms)
        if len(self._found) < len(self._watches):
            return ()
        found, self._found = self._found, {}
        self.next_ms = float("inf") if self._bounded else now_ms + self._interval_ms
        # Findings first: what is known of one source holds the others when a burst is said to be over.
        ordered = sorted(self._watches, key=lambda one: not found[one.operator])
        told = (one.told(self._attempt, now_ms, found[one.operator], bounded=self._bounded) for one in ordered)
        return tuple(event for event in told if event is not None)
