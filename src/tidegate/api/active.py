"""The queries that run in this process. When the interpreter exits they are stopped, so that no slot outlives it."""

from __future__ import annotations

import atexit
import threading
from typing import TYPE_CHECKING

from tidegate.model.errors import InvalidQuery

if TYPE_CHECKING:
    from tidegate.api.query import StreamingQuery

EXIT_TIMEOUT_S = 8.0


class ActiveQueries:
    """Thread-safe. Names and checkpoint locations of active queries are unique."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._queries: list[StreamingQuery] = []
        atexit.register(self.stop_all)

    def refuse_duplicates(self, name: str | None, location: str) -> None:
        """Raises InvalidQuery when an active query has this name or uses this location."""
        for query in self.all():
            if name is not None and query.name == name:
                raise InvalidQuery(
                    f"a query named {name!r} is already active",
                    hint="stop it first, or give this one another queryName",
                )
            if query.location == location:
                raise InvalidQuery(
                    f"the active query {query.name or query.id} uses the checkpoint location {location}",
                    hint="stop it first: two queries on one location would fence each other",
                )

    def refuse_twins(self, pipeline: str, location: str) -> None:
        """Raises InvalidQuery when an active query is the same pipeline at another location: transactions and staged files
        carry its id, so the two would publish and sweep each other's output."""
        for query in self.all():
            if query.id == pipeline:
                raise InvalidQuery(
                    f"{location} is a copy of {query.location}, which the active query {query.name or query.id} uses",
                    hint="stop that one first; to run a second query from the same state, take a savepoint and start from it",
                )

    def add(self, query: StreamingQuery) -> None:
        with self._lock:
            self._queries = [one for one in self._queries if one.isActive] + [query]

    def all(self) -> list[StreamingQuery]:
        with self._lock:
            return [query for query in self._queries if query.isActive]

    def stop_all(self) -> None:
        """Asks all to stop at once, then waits for each, within one time limit for all."""
        queries = self.all()
        for query in queries:
            query.request_stop()
        for query in queries:
            query.wait_ended(EXIT_TIMEOUT_S)


ACTIVE = ActiveQueries()
