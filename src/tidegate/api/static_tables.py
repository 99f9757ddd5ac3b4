"""Large static sides of joins on their way to the slots: cut by key group, stored beside the checkpoints, swept when nobody reads them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tidegate.checkpoint.layout import STATIC_PREFIX, chunk_key
from tidegate.checkpoint.ports import BlobStore
from tidegate.model.config import QueryConfig
from tidegate.model.snapshot import ChunkHandle
from tidegate.operators.static_tables import cut_table
from tidegate.plan.graph import JobGraph
from tidegate.plan.relational import Sink, StaticJoin
from tidegate.plan.static_sides import partition_static_sides


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


def sweep_tables(store: BlobStore, graph: JobGraph) -> None:
    """Removes tables that ``graph`` does not read. Only for whoever has committed a checkpoint: nobody else runs the pipeline then."""
    kept = {chunk_key(part.name) for part in _parts(graph)}
    for key in store.list(STATIC_PREFIX):
        if key not in kept:
            store.delete(key)


def _parts(graph: JobGraph) -> Iterable[ChunkHandle]:
    return (
        part for stage in graph.stages for node in stage.nodes if isinstance(node, StaticJoin) for part in node.parts
    )
