"""A checkpoint location: its store and the pipeline that lives there. A start from a savepoint opens another one."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.model.ids import PipelineId
from tidegate.testing.simulation.store import SimulatedStore


@dataclass(frozen=True, slots=True)
class Location:
    pipeline: PipelineId
    """Sorts by age."""
    store: SimulatedStore


def location_number(number: int, store: SimulatedStore) -> Location:
    return Location(PipelineId(f"pipeline-{number:02}"), store)
