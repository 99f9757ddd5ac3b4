"""``tidegate.Job("name").add(writer).add(writer).start()``: several queries as one job.

Queries that share a source read it once, run as one pipeline and have one consistent cut; pipelines with nothing in common have a
coordinator each, with its own checkpoints, attempts and failures.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from tidegate.api.checking import check_unstarted
from tidegate.api.joint import joint_pipelines
from tidegate.api.preparing import prepare
from tidegate.api.query import StreamingQuery
from tidegate.api.requests import PipelineRequest, QueryRequest
from tidegate.api.triggers import parse_trigger
from tidegate.api.writer import DataStreamWriter
from tidegate.model.errors import InvalidQuery, TidegateError
from tidegate.spark.health import Condition

Answer = TypeVar("Answer")

_SEVERITY = [condition.value for condition in (Condition.HEALTHY, Condition.RECOVERING, Condition.UNHEALTHY)]
_WAIT_S = 0.2


class Job:
    """The queries of a job, before it starts."""

    def __init__(self, name: str | None = None, **options: object) -> None:
        """``options``: as with ``option``: ``Job("shop", checkpointLocation="/data/checkpoints/shop")``."""
        self._name = name
        self._writers: list[DataStreamWriter] = []
        self._options: dict[str, object] = {}
        self._trigger: dict[str, Any] = {}
        self.options(**options)

    def add(self, *writers: DataStreamWriter) -> Job:
        """Writers that are complete but not started: format, ``path``, output mode, ``queryName``."""
        if not all(isinstance(writer, DataStreamWriter) for writer in writers):
            raise InvalidQuery("a job is made of writers", hint="job.add(tidegate.writeStream(df).format(...))")
        self._writers += writers
        return self

    def option(self, key: str, value: object) -> Job:
        """An option of all pipelines of the job; a writer's own options hold for the pipeline it is in.

        ``checkpointLocation`` and ``startFrom`` name a directory with one directory per pipeline beneath it.
        """
        self._options = {name: old for name, old in self._options.items() if name.lower() != key.lower()}
        self._options[key] = value
        return self

    def options(self, **options: object) -> Job:
        """Several at once."""
        for key, value in options.items():
            self.option(key, value)
        return self

    def trigger(self, *, checkpoint: str | None = None, availableNow: bool | None = None) -> Job:
        """Of all pipelines whose writers do not say another: as of ``DataStreamWriter.trigger``."""
        given = {"checkpoint": checkpoint, "available_now": availableNow}
        self._trigger.update({name: value for name, value in given.items() if value is not None})
        return self

    def start(self) -> StreamingJob:
        """Starts all pipelines or none: every one of them is checked before the first one runs. Raises InvalidQuery.

        A pipeline without option ``parallelism`` gets an equal share of the task slots that the others leave.
        """
        pipelines = self._pipelines()
        prepared = [prepare(one) for one in pipelines]
        started: list[StreamingQuery] = []
        try:
            for one in prepared:
                started.append(one.start())
        except BaseException:
            for query in started:
                query.stop()
            raise
        members = tuple(tuple(request.query for request in one.requests) for one in pipelines)
        return StreamingJob(self._name, tuple(started), members)

    def check(self) -> None:
        """Raises what ``start()`` would refuse, and starts nothing: as ``DataStreamWriter.check``, for every pipeline of the job."""
        for one in self._pipelines():
            check_unstarted(one)

    def _pipelines(self) -> list[PipelineRequest]:
        requests: list[QueryRequest] = [writer.request() for writer in self._writers]
        if not requests:
            raise InvalidQuery("a job is made of one or more writers", hint="job.add(tidegate.writeStream(df)).start()")
        return joint_pipelines(requests, self._options, parse_trigger(**self._trigger))

    def __repr__(self) -> str:
        return f"Job(name={self._name!r}, {len(self._writers)} queries)"


class StreamingJob:
    """Several running queries. All methods may be called from any thread.

    A pipeline that fails recovers by itself while the others run on; one that ends for good does not end the others.
    """

    def __init__(
        self, name: str | None, queries: tuple[StreamingQuery, ...], members: tuple[tuple[str, ...], ...]
    ) -> None:
        self.name = name
        self.queries = queries
        """One handle per pipeline, in the order in which their first queries were added."""
        self._members = members

    def query(self, name: str) -> StreamingQuery:
        """The handle of the pipeline that runs the query of this name. Queries without one are called ``query-0``, ``query-1`` …,
        in the order in which they were added."""
        for handle, members in zip(self.queries, self._members, strict=True):
            if name in members:
                return handle
        known = ", ".join(one for members in self._members for one in members)
        raise InvalidQuery(f"the job has no query {name!r}", hint=f"its queries are {known}")

    @property
    def isActive(self) -> bool:
        """Whether at least one pipeline runs."""
        return any(query.isActive for query in self.queries)

    @property
    def status(self) -> dict[str, Any]:
        """The ``health`` and ``reason`` of the pipeline that does worst, and under ``queries`` the status of each, by name."""
        each = {name: query.status for name, query in zip(self.names, self.queries, strict=True)}
        worst = max(each, key=lambda name: _SEVERITY.index(each[name]["health"]))
        reason = each[worst]["reason"]
        return {
            "message": f"{sum(query.isActive for query in self.queries)} of {len(self.queries)} pipelines are active",
            "health": each[worst]["health"],
            "reason": f"{worst}: {reason}" if reason else "",
            "secondsSinceLastCheckpoint": max(one["secondsSinceLastCheckpoint"] for one in each.values()),
            "queries": each,
        }

    @property
    def names(self) -> tuple[str, ...]:
        """Of the pipelines: each is called like its first query."""
        return tuple(members[0] for members in self._members)

    def exception(self) -> TidegateError | None:
        """Why the first of the failed pipelines failed; None when none has."""
        return next((failure for query in self.queries if (failure := query.exception()) is not None), None)

    def awaitTermination(self, timeout: float | None = None) -> bool | None:
        """Waits until all pipelines have ended, at most ``timeout`` seconds; with ``timeout``: whether they have.

        Raises as soon as one has failed for good: the others still run then, and ``stop()`` ends them.
        """
        if timeout is not None and timeout < 0:
            raise InvalidQuery(f"timeout must not be negative, but is {timeout}")
        give_up_s = None if timeout is None else time.monotonic() + timeout
        while True:
            failure = self.exception()
            if failure is not None:
                raise failure
            running = next((query for query in self.queries if query.isActive), None)
            if running is None:
                return None if timeout is None else True
            left_s = _WAIT_S if give_up_s is None else give_up_s - time.monotonic()
            if left_s <= 0:
                return False
            running.wait_ended(min(_WAIT_S, left_s))

    def checkpoint(self, timeout: float | None = None) -> list[dict[str, Any]]:
        """Takes a checkpoint of every pipeline now; they are independent of each other. Returns what each query's would."""
        return self._all(lambda query, _: query.checkpoint(timeout))

    def savepoint(self, path: str, timeout: float | None = None) -> dict[str, str]:
        """Takes a savepoint of every pipeline, each in a directory of its own beneath ``path``. Returns the paths by name."""
        taken = self._all(lambda query, name: query.savepoint(f"{path}/{name}", timeout))
        return dict(zip(self.names, taken, strict=True))

    def stop(self, savepoint: str | None = None, drain: bool = False) -> dict[str, str] | None:
        """Ends all pipelines and returns when no process of them runs any more.

        ``savepoint``, ``drain``: as of ``StreamingQuery.stop``, one directory per pipeline beneath it; returns their paths by name.
        A pipeline whose savepoint cannot be taken runs on, and the error is raised when all others have ended.
        """
        if savepoint is None:
            self._all(lambda query, _: query.stop(drain=drain))
            return None
        taken = self._all(lambda query, name: query.stop(f"{savepoint}/{name}", drain) or "")
        return dict(zip(self.names, taken, strict=True))

    def _all(self, ask: Callable[[StreamingQuery, str], Answer]) -> list[Answer]:
        """Asks all at once. Raises the first error when all have answered."""
        with ThreadPoolExecutor(len(self.queries), thread_name_prefix="tidegate-job") as pool:
            answers = [pool.submit(ask, query, name) for query, name in zip(self.queries, self.names, strict=True)]
        return [answer.result() for answer in answers]

    def __repr__(self) -> str:
        return f"StreamingJob(name={self.name!r}, {', '.join(self.names)})"
