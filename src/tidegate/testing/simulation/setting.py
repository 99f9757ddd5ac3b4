"""What all actors of one simulated run share."""

from __future__ import annotations

from dataclasses import dataclass, field

from tidegate.model.config import QueryConfig
from tidegate.operators.ports import SinkConnector, SourceConnector
from tidegate.plan.relational import Scan, Sink
from tidegate.testing.simulation.agenda import Agenda
from tidegate.testing.simulation.faults import Faults, Tally
from tidegate.testing.simulation.sinks import SimulatedOutside, SimulatedSinkConnector
from tidegate.testing.simulation.sources import ScriptedSource
from tidegate.testing.simulation.store import SimulatedStore


class SimulatedConnectors:
    def __init__(self, outside: SimulatedOutside) -> None:
        self._outside = outside

    def source(self, scan: Scan) -> SourceConnector:
        return ScriptedSource(scan)

    def sink(self, sink: Sink) -> SinkConnector:
        del sink
        return SimulatedSinkConnector(self._outside)


@dataclass(slots=True)
class Setting:
    """The stage: clock, store, outside world, and what the auditors have found."""

    agenda: Agenda
    faults: Faults
    tally: Tally
    store: SimulatedStore
    outside: SimulatedOutside
    connectors: SimulatedConnectors
    config: QueryConfig
    violations: list[str] = field(default_factory=list)

    def violate(self, what: str) -> None:
        self.agenda.note("AUDITOR", what)
        self.violations.append(what)
