"""What all actors of one simulated run share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

from tidegate.model.ids import Attempt, SlotIndex
from tidegate.plan.relational import Scan, Sink
from tidegate.ports.sink import SinkWriter
from tidegate.ports.source import SourceConnector
from tidegate.testing.simulation.agenda import Agenda
from tidegate.testing.simulation.chronicle import Chronicle
from tidegate.testing.simulation.clocks import SKEW_MS_MAX, ProcessClock
from tidegate.testing.simulation.faults import Faults, Tally
from tidegate.testing.simulation.location import Location
from tidegate.testing.simulation.network import Network
from tidegate.testing.simulation.sinks import SimulatedOutside, simulated_writer
from tidegate.testing.simulation.sources import ScriptedSource
from tidegate.testing.simulation.store import SimulatedStore
from tidegate.testing.simulation.timed import timed_script_of
from tidegate.testing.simulation.timed_sources import TimedSource


class SimulatedConnectors:
    def __init__(
        self,
        agenda: Agenda,
        outside: SimulatedOutside,
        chronicle: Chronicle,
        pipeline: str,
        hurry: Callable[[], bool],
        slot: str,
    ) -> None:
        self._agenda = agenda
        self._chronicle = chronicle
        self._outside = outside
        self._pipeline = pipeline
        self._hurry = hurry
        self._slot = slot

    def source(self, scan: Scan) -> SourceConnector:
        clock = lambda: self._agenda.now_ms  # noqa: E731
        if (timed := timed_script_of(scan)) is not None:
            return TimedSource(scan, timed, self._chronicle, clock, self._hurry, self._slot)
        return ScriptedSource(scan, clock, self._hurry)

    def writer(self, sink: Sink, attempt: Attempt, subtask: SlotIndex) -> SinkWriter:
        return simulated_writer(self._outside, self._pipeline, sink, attempt, subtask)


class Moment(Enum):
    """On the way from the last row of a split to the watermark that it allows."""

    READ = "the last rows are out"
    REPORTED = "the split is reported"
    HEARD = "the driver has heard of it"
    TOLD = "a reader is told something"


@dataclass(slots=True)
class Setting:
    """The stage: clock, network, outside world, and what the auditors have found."""

    agenda: Agenda
    faults: Faults
    tally: Tally
    network: Network
    outside: SimulatedOutside
    chronicle: Chronicle = field(default_factory=Chronicle)
    hurry: bool = False
    """All input is there at once: what was to be shown has been shown."""
    on_moment: Callable[[Moment], None] = lambda _moment: None
    """Somebody may want to do harm right now."""
    violations: list[str] = field(default_factory=list)
    _stores: list[SimulatedStore] = field(default_factory=list)

    def connectors(self, location: Location, slot: str) -> SimulatedConnectors:
        return SimulatedConnectors(
            self.agenda, self.outside, self.chronicle, location.pipeline, lambda: self.hurry, slot
        )

    def store(self) -> SimulatedStore:
        """An empty one, as unreliable as all others."""
        store = SimulatedStore(self.agenda, self.faults, self.tally)
        self._stores.append(store)
        return store

    def violate(self, what: str) -> None:
        self.agenda.note("AUDITOR", what)
        self.violations.append(what)

    def make_peace(self) -> None:
        self.faults = self.network.faults = self.outside.faults = Faults()
        for store in self._stores:
            store.calm_down()

    def clock(self) -> ProcessClock:
        """For a process that starts now."""
        if self.agenda.chance(self.faults.clock_skew):
            self.tally.fault("clock_skew")
            return ProcessClock(self.agenda, self.agenda.random.randint(1_000, SKEW_MS_MAX))
        return ProcessClock(self.agenda)


def setting_of(agenda: Agenda, faults: Faults, tally: Tally) -> Setting:
    return Setting(
        agenda,
        faults,
        tally,
        Network(agenda, faults, tally),
        SimulatedOutside(agenda, faults, tally),
    )
