"""How a simulated driver looks for new splits: in rounds, into all sources of one stream at once. Looks fail and take long."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidegate.checkpoint import events as ev
from tidegate.checkpoint.intervals import contains
from tidegate.checkpoint.manifest import Manifest
from tidegate.model.ids import Attempt, OperatorId
from tidegate.model.snapshot import Split
from tidegate.plan.graph import JobGraph
from tidegate.plan.relational import Scan
from tidegate.testing.simulation.setting import Setting
from tidegate.testing.simulation.sources import ScriptedEnumerator, script_of
from tidegate.testing.simulation.timed import timed_script_of
from tidegate.testing.simulation.timed_sources import TimedEnumerator

if TYPE_CHECKING:
    from tidegate.testing.simulation.driver import SimulatedDriver

SLOW_MS = (300, 2_500)


@dataclass(slots=True)
class _Watched:
    operator: OperatorId
    enumerator: ScriptedEnumerator | TimedEnumerator
    known: tuple[Split, ...]
    """What a restored enumerator knows, until it has been told."""
    first: bool = True
    owes: bool = True
    """The last look that was told found something: the next one that finds nothing is told as well."""
    found: tuple[Split, ...] | None = None
    """By the look of the round under way; None: it has failed."""


class SimulatedLooks:
    """Of one attempt. Like the threads of a real driver: one round after the other, told as soon as its last look is over."""

    def __init__(
        self,
        setting: Setting,
        driver: SimulatedDriver,
        attempt: Attempt,
        graph: JobGraph,
        manifest: Manifest | None,
        current: Callable[[], bool],
    ) -> None:
        self._setting = setting
        self._agenda = setting.agenda
        self._driver = driver
        self._attempt = attempt
        self._current = current
        self._by_operator: dict[OperatorId, _Watched] = {}
        together: dict[OperatorId, list[_Watched]] = {}
        for scan in graph.scans():
            source = self._by_operator[scan.id] = self._restored(scan, manifest)
            together.setdefault(driver.start.plan.stream_of(scan.id) or scan.id, []).append(source)
        for sources in together.values():
            self._round(sources)

    def forget(self, operator: OperatorId, below: int) -> None:
        self._by_operator[operator].enumerator.forget(below)

    def _restored(self, scan: Scan, manifest: Manifest | None) -> _Watched:
        timed = timed_script_of(scan)
        if timed is not None:
            enumerator = TimedEnumerator(timed, self._setting.chronicle, self._attempt, self._agenda.random)
        else:
            enumerator = ScriptedEnumerator(script_of(scan))
        old = next((one for one in manifest.sources if one.operator == scan.id), None) if manifest else None
        if old is not None and isinstance(enumerator, TimedEnumerator):
            enumerator.learn_done(lambda number: contains(old.done, number))
        known = enumerator.restore(old.enumerator, tuple(one.split for one in old.open)) if old else ()
        return _Watched(scan.id, enumerator, known)

    def _round(self, sources: list[_Watched]) -> None:
        if not self._current() or self._driver.after_thaw(lambda: self._round(sources)):
            return
        longest_ms = 0
        for source in sources:
            source.found = None
            lasts_ms = 0 if source.first else self._lasts_ms()
            if lasts_ms == 0:
                self._look(source, None)
            elif lasts_ms is not None:
                longest_ms = max(longest_ms, lasts_ms)
                began_ms = self._agenda.now_ms
                self._agenda.after(lasts_ms, lambda one=source, at_ms=began_ms: self._look(one, at_ms))
        if longest_ms:
            # Behind the last of its looks.
            self._agenda.after(longest_ms, lambda: self._told(sources))
        else:
            self._told(sources)

    def _lasts_ms(self) -> int | None:
        """How long the next look takes; None: it fails."""
        faults, tally = self._setting.faults, self._setting.tally
        if faults.look_fails and self._agenda.chance(faults.look_fails):
            tally.fault("look_fails")
            return None
        if faults.look_slow and self._agenda.chance(faults.look_slow):
            tally.fault("look_slow")
            return self._agenda.random.randint(*SLOW_MS)
        return 0

    def _look(self, source: _Watched, began_ms: int | None) -> None:
        if not self._current():
            return
        now_ms, enumerator = self._agenda.now_ms, source.enumerator
        if isinstance(enumerator, TimedEnumerator):
            source.found = enumerator.discover(now_ms, began_ms)
        else:
            source.found = enumerator.discover(now_ms)

    def _told(self, sources: list[_Watched]) -> None:
        """A round is over: findings first, and that there are none only if every look has succeeded."""
        if not self._current() or self._driver.after_thaw(lambda: self._told(sources)):
            return
        whole = all(source.found is not None for source in sources)
        for source in sorted(sources, key=lambda one: not one.found):
            if source.found is not None and (whole or source.found) and isinstance(source.enumerator, TimedEnumerator):
                source.enumerator.note(self._agenda.now_ms, found=bool(source.found))
            if source.found or (whole and (source.owes or source.enumerator.bounded)):
                self._tell(source, source.found or (), whole=whole)
        left = [source for source in sources if not (whole and source.enumerator.bounded)]
        if left:
            pause_ms = self._driver.start.plan.config.discovery_interval_ms
            self._agenda.after(pause_ms, lambda: self._round(left))

    def _tell(self, source: _Watched, new: tuple[Split, ...], *, whole: bool) -> None:
        enumerator = source.enumerator
        if new and not source.first:
            self._setting.tally.path("splits discovered while running")
        splits, state, bounded = (*source.known, *new), enumerator.snapshot(), whole and enumerator.bounded
        source.known, source.first, source.owes = (), False, bool(new)
        self._driver.say(
            lambda now_ms: ev.SplitsDiscovered(
                now_ms,
                self._attempt,
                source.operator,
                splits,
                state,
                bounded=bounded,
                endless=enumerator.endless,
                ordered=enumerator.ordered,
                found=bool(new),
                complete=whole,
            )
        )
