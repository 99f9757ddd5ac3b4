"""``tidegate.batch()``: which batch the user's code on the driver is called with, under a name that no other rows ever get."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from tidegate.model.errors import InvalidQuery
from tidegate.model.ids import BatchId
from tidegate.ports.context import CommitterContext


@dataclass(frozen=True, slots=True)
class BatchIdentity:
    """``name`` and ``id`` together stand for the same rows for ever. A target that notes both, and skips what it has noted, has each
    batch once: after restarts, and beside other pipelines that were started from the same savepoint."""

    name: str
    """Of this sink of this pipeline: the same after every restart, another one after every ``startFrom``."""
    id: int
    """As the function gets it: 0, 1, 2 …"""


# Each query calls its sinks in a thread of its own, so that two of them never see each other's batch.
_CURRENT: ContextVar[BatchIdentity | None] = ContextVar("tidegate_batch", default=None)


def batch() -> BatchIdentity:
    """Which batch the running call is for: inside a function given to ``foreachBatch``, and inside ``commit`` and ``abort`` of a Python
    data source. ``name`` and ``id`` together stand for the same rows for ever; ``name`` is new after every ``startFrom``."""
    current = _CURRENT.get()
    if current is None:
        raise InvalidQuery(
            "tidegate.batch() was called where no batch is being written",
            hint="call it in the function given to foreachBatch, or in commit() or abort() of a Python data source, in the thread that "
            "runs it; give what it returns to other threads and to code that runs on executors",
        )
    return current


@contextmanager
def inside(context: CommitterContext, number: BatchId) -> Iterator[None]:
    """The code in here is called for this batch."""
    token = _CURRENT.set(BatchIdentity(f"{context.pipeline}-{context.operator}", number))
    try:
        yield
    finally:
        _CURRENT.reset(token)
