"""Large static sides of joins on their way to the slots: cut by key group, stored beside the checkpoints, swept when nobody reads them."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import Lock

from tidegate.checkpoint.layout import STATIC_PREFIX, chunk_key
from tidegate.model.config import QueryConfig
from tidegate.model.errors import TidegateError
from tidegate.model.ids import Attempt
from tidegate.model.snapshot import ChunkHandle
from tidegate.operators.static_tables import cut_table
from tidegate.plan.graph import JobGraph
from tidegate.plan.relational import Sink, StaticJoin
from tidegate.plan.static_sides import partition_static_sides
from tidegate.ports.store import BlobStore
from tidegate.spark.status import NO_ATTEMPT

log = logging.getLogger("tidegate")


def with_partitioned_tables(plans: Sequence[Sink], config: QueryConfig) -> tuple[tuple[Sink, ...], dict[str, bytes]]:
    """The plans, and what has to be stored before they run: names and contents."""
    contents: dict[str, bytes] = {}

    def cut(join: StaticJoin) -> tuple[ChunkHandle, ...]:
        parts = tuple(cut_table(join, config.max_parallelism))
        contents.update((handle.name, data) for handle, data in parts)
        return tuple(handle for handle, _ in parts)

    return partition_static_sides(plans, config.broadcast_bytes_max, cut), contents


def store_tables(store: BlobStore, contents: Mapping[str, bytes]) -> None:
    for name, data in contents.items():
        # Already there: the same rows, from an earlier start.
        store.create(chunk_key(name), data)


class TableSweep:
    """Removes tables that the running graph does not read: once per graph, after the first commit of an attempt that runs it. The
    commit proves that its slots have read their tables and that nobody else runs the pipeline. Never while a refresh stores new ones.
    """

    def __init__(self, store: BlobStore, graph: JobGraph) -> None:
        self._store = store
        self._graph = graph
        self._from: Attempt | None = NO_ATTEMPT
        """The first attempt whose commit allows the sweep; None: nothing to sweep, or not now."""
        self._sweeping = Lock()
        self._storing = Lock()

    @contextmanager
    def held(self) -> Iterator[None]:
        """For a refresh, one at a time: tables are stored that no deployed graph reads yet. Waits for a sweep under way. If it comes
        to nothing (no ``expect``), they are swept for the graph that goes on.
        """
        with self._storing:
            with self._sweeping:
                self._from = None
            try:
                yield
            finally:
                with self._sweeping:
                    self._from = NO_ATTEMPT if self._from is None else self._from

    def expect(self, graph: JobGraph, attempt: Attempt) -> None:
        """``graph`` runs from ``attempt`` on."""
        with self._sweeping:
            self._graph, self._from = graph, attempt

    def after_commits(self, attempt: Attempt, committed: bool) -> None:
        """The running ``attempt`` has ``committed`` a checkpoint, or not yet."""
        with self._sweeping:
            if self._from is None or not committed or attempt < self._from:
                return
            self._from = None
            try:
                self._sweep()
            except TidegateError as error:
                log.warning("static tables that nobody reads could not be removed: %s", error)

    def _sweep(self) -> None:
        kept = {chunk_key(part.name) for part in _parts(self._graph)}
        for key in self._store.list(STATIC_PREFIX):
            if key not in kept:
                self._store.delete(key)


def _parts(graph: JobGraph) -> Iterable[ChunkHandle]:
    return (
        part for stage in graph.stages for node in stage.nodes if isinstance(node, StaticJoin) for part in node.parts
    )
