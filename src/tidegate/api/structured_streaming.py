"""Checkpoint directories of Structured Streaming, known by what Spark keeps in them: Tidegate cannot go on from one."""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from tidegate.checkpoint import layout
from tidegate.model.errors import InvalidQuery, TidegateError
from tidegate.ports.store import BlobStore
from tidegate.storage.errors import mistakes_told

METADATA = "metadata"
"""The id of the query, as JSON; written at its first start."""
LOGS = ("offsets/", "commits/")
"""One file per micro-batch: what it was going to read; that its output is there."""
_BATCH = re.compile(r"[a-z]+/(\d+)")


class _Metadata(msgspec.Struct):
    id: str


def refuse_structured_streaming(store: BlobStore, location: str) -> None:
    """Raises InvalidQuery for a location that Spark's own engine has used and Tidegate has not. Writes nothing.

    It would count as empty, and what Spark has read and written would be read and written once more.
    """
    with mistakes_told():
        if store.read(layout.PIPELINE_KEY) is not None:
            return
        batches = _batches(key for log in LOGS for key in store.list(log))
    if batches:
        progress = f"its progress up to batch {max(batches)}"
    elif _names_a_query(store):
        progress = f"its file {METADATA}"
    else:
        return
    raise InvalidQuery(
        f"{location} is the checkpoint directory of a query of Structured Streaming: it holds {progress}. Tidegate cannot go on from it, "
        "and would read and write everything again beside what Spark has written",
        hint="choose a new checkpointLocation. Everything is read again from there: write to a new place as well; or begin where Spark "
        "stopped, with the options of the source (startingOffsets, startingTimestamp), or with the files that are left moved to a new path",
    )


def _batches(keys: Iterable[str]) -> list[int]:
    return [int(found[1]) for key in keys if (found := _BATCH.fullmatch(key))]


def _names_a_query(store: BlobStore) -> bool:
    """A query that has planned no batch yet has written this alone."""
    try:
        data = store.read(METADATA)
        return data is not None and bool(msgspec.json.decode(data, type=_Metadata).id)
    except (TidegateError, msgspec.DecodeError, UnicodeDecodeError):
        return False  # Something else is called so: a directory, or somebody's own file.
