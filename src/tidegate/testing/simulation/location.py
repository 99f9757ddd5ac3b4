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


FIRST, SECOND = "pipeline", "neighbour"
"""The pipelines of a job: each has locations, and so names, of its own."""


def location_number(number: int, store: SimulatedStore, family: str = FIRST) -> Location:
    return Location(PipelineId(f"{family}-{number:02}"), store)
