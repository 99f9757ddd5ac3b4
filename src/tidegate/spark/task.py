"""What travels to a slot in the closure of its Spark task."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from tidegate.model.config import QueryConfig
from tidegate.model.ids import PipelineId
from tidegate.plan.graph import JobGraph
from tidegate.storage.options import NO_OPTIONS, StorageOptions

WORKER_ENVIRONMENT = {
    "POLARS_MAX_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "NUMEXPR_NUM_THREADS": "1",
    "RAYON_NUM_THREADS": "1",
    # Two threads free what two others allocated (batches): few arenas keep the memory of a slot flat.
    "MALLOC_ARENA_MAX": "2",
}
"""A slot is one thread on one core. Libraries read these when they are imported, so the worker must be born with them."""

OUTPUT_SCHEMA = "slot int"
"""A slot returns no rows: everything it has to say goes over the control channel."""


@dataclass(frozen=True, slots=True)
class Greeting:
    """The first part of the closure: enough to reach the driver, of plain values only, so that any version can read it."""

    attempt: int
    control: str
    heartbeat: str
    directory: str | None
    keys: tuple[bytes, bytes, bytes] | None
    heartbeat_interval_ms: int
    silence_timeout_ms: int


@dataclass(frozen=True, slots=True)
class SlotWork:
    """The second part: unpickled only when the driver has found this slot's versions to be its own."""

    graph: JobGraph
    config: QueryConfig
    pipeline: PipelineId
    location: str
    """Checkpoint location: state is read from it and uploaded to it by the slots themselves."""
    storage: StorageOptions = NO_OPTIONS
    """How it is reached."""


def slot_function(greeting: dict[str, object], work: bytes) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """The function of the barrier stage: nothing but plain values and an import of ``tidegate`` on the other side."""

    def tidegate_slot(batches: Iterator[Any]) -> Iterator[Any]:
        from tidegate.spark.slot import run_slot

        for _ in batches:  # The one row of this partition only made the task exist.
            pass
        yield from run_slot(greeting, work)

    return tidegate_slot
