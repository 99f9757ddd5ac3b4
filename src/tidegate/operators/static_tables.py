"""The rows of a join's static side: whole in every slot, or cut by key group so that each slot reads its own."""

from __future__ import annotations

import hashlib
import io
import zlib
from collections.abc import Iterator

import numpy as np
import polars as pl

from tidegate.model import types as t
from tidegate.model.errors import Bug
from tidegate.model.snapshot import ChunkHandle, KeyGroupRange
from tidegate.operators.columns import conform, empty_frame
from tidegate.operators.expressions import Projection
from tidegate.operators.ports import LoadTable
from tidegate.plan.expressions import Named
from tidegate.plan.relational import StaticJoin
from tidegate.state.codec import encode_chunk
from tidegate.state.hashing import hash_columns
from tidegate.state.keygroups import key_groups

PART_BYTES = 4 * 1024 * 1024
"""About how large a part is: a slot reads whole ones."""
_GROUP = "kg"
_NAME = "static/t"


def table_of(node: StaticJoin, groups: KeyGroupRange | None, load: LoadTable | None) -> pl.DataFrame:
    """The static rows that a subtask with these key groups needs."""
    if not node.parts:
        return conform(pl.read_ipc_stream(io.BytesIO(node.table)), node.static_schema)
    if groups is None or load is None:
        raise Bug("a partitioned static table arrived where nobody can read its parts")
    mine = pl.col(_GROUP).is_between(groups.start, groups.stop - 1)
    parts = [load(part).filter(mine).drop(_GROUP) for part in node.parts if part.groups.intersect(groups) is not None]
    return conform(pl.concat(parts), node.static_schema) if parts else empty_frame(node.static_schema)


def cut_table(node: StaticJoin, max_parallelism: int) -> Iterator[tuple[ChunkHandle, bytes]]:
    """The table in parts of neighbouring key groups. A part is named by its content: the same rows are stored once."""
    rows = table_of(node, None, None)
    types = tuple(key.type for key in node.static_keys)
    columns = [Named(f"{place}", key) for place, key in enumerate(node.static_keys)]
    schema = tuple(t.Field(column.name, of) for column, of in zip(columns, types, strict=True))
    groups = key_groups(hash_columns(Projection(columns, schema).apply(rows), types), max_parallelism)
    order = np.argsort(groups, kind="stable")
    rows = rows[order].with_columns(pl.Series(_GROUP, groups[order].astype(np.uint32)))
    count = min(max_parallelism, max(1, -(-len(node.table) // PART_BYTES)))
    for number in range(count):
        part = KeyGroupRange(number * max_parallelism // count, (number + 1) * max_parallelism // count)
        first, last = np.searchsorted(groups[order], (part.start, part.stop))
        data = encode_chunk(rows[int(first) : int(last)])
        yield (
            ChunkHandle(
                name=f"{_NAME}{hashlib.sha256(data).hexdigest()[:40]}",
                groups=part,
                rows=int(last - first),
                size_bytes=len(data),
                checksum=zlib.crc32(data),
            ),
            data,
        )
