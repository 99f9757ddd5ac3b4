"""``tidegate.job(a, b)``: several pipelines started and stopped as one, each with its own checkpoints, attempts and failures."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, TypeVar

from tidegate.api.launch import PreparedQuery, QueryRequest, prepare
from tidegate.api.query import StreamingQuery
from tidegate.api.settings import sort_options
from tidegate.api.writer import DataStreamWriter
from tidegate.model.errors import InvalidQuery, TidegateError
from tidegate.spark.checks import is_one_host, refuse_connect, slots_for_queries, task_slots
from tidegate.spark.health import Condition
from tidegate.storage.open import absolute_path

Answer = TypeVar("Answer")

_SAFE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.=-]*")
_SEVERITY = [condition.value for condition in (Condition.HEALTHY, Condition.RECOVERING, Condition.UNHEALTHY)]
_WAIT_S = 0.2


class JobWriter:
    """The pipelines of a job, before it starts."""

    def __init__(self, writers: tuple[DataStreamWriter, ...], name: str | None) -> None:
        self._writers = writers
        self._name = name

    def start(self) -> StreamingJob:
        """Starts all pipelines or none: every one of them is checked before the first one runs. Raises InvalidQuery.

        A pipeline without option ``parallelism`` gets an equal share of the task slots that the others leave.
        """
        requests = [writer.request() for writer in self._writers]
        refuse_twins(requests)
        prepared = [prepare(request) for request in share_slots(requests)]
        refuse_crowd(prepared)
        started: list[StreamingQuery] = []
        try:
            for one in prepared:
                started.append(one.start())
        except BaseException:
            for query in started:
                query.stop()
            raise
        return StreamingJob(self._name, tuple(started))


def job(*writers: DataStreamWriter, name: str | None = None) -> JobWriter:
    """Several queries as one job: ``tidegate.job(writer_a, writer_b).start()``.

    The writers are complete but not started: formats, options and ``path`` are set on them. Each needs a checkpoint location of
    its own. What two of them have in common is computed twice.
    """
    if not writers or not all(isinstance(writer, DataStreamWriter) for writer in writers):
        raise InvalidQuery("a job is made of one or more writers", hint="tidegate.job(tidegate.writeStream(df)...)")
    return JobWriter(writers, name)


class StreamingJob:
    """Several running queries. All methods may be called from any thread.

    A pipeline that fails recovers by itself while the others run on; one that ends for good does not end the others.
    """

    def __init__(self, name: str | None, queries: tuple[StreamingQuery, ...]) -> None:
        self.name = name
        self.queries = queries
        """One per writer, in their order."""

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
        """Of the pipelines: their query names, or ``pipeline-0`` … for those without one that may be part of a path."""
        return tuple(
            query.name if query.name and _SAFE_NAME.fullmatch(query.name) else f"pipeline-{number}"
            for number, query in enumerate(self.queries)
        )

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


def refuse_twins(requests: list[QueryRequest]) -> None:
    """Raises InvalidQuery when two pipelines of a job share a name or a checkpoint location."""
    names = [request.name for request in requests if request.name is not None]
    given = [sort_options(request.options).checkpoint_location for request in requests]
    locations = [absolute_path(location) for location in given if location is not None]
    for what, values, option in (
        ("name", names, "queryName"),
        ("checkpoint location", locations, "option checkpointLocation"),
    ):
        twice = sorted({value for value in values if values.count(value) > 1})
        if twice:
            raise InvalidQuery(
                f"two pipelines of the job have the {what} {twice[0]!r}",
                hint=f"give each its own: {option}",
            )


def share_slots(requests: list[QueryRequest]) -> list[QueryRequest]:
    """The same, with a parallelism for those that do not say one: equal shares of what the others leave."""
    for request in requests:
        refuse_connect(request.df)
    session = requests[0].df.sparkSession
    said = [sort_options(request.options).config.get("parallelism") for request in requests]
    open_ones = said.count(None)
    if not open_ones:
        return requests
    spare = any(request.format == "memory" for request in requests)
    left = slots_for_queries(session, spare=spare) - sum(int(str(one)) for one in said if one is not None)
    if left < open_ones:
        raise InvalidQuery(
            f"the job has {len(requests)} pipelines, and Spark has no task slot left for {open_ones - max(0, left)} of them",
            hint="give Spark more cores, or set option parallelism of the others lower: all slots run at the same time",
        )
    return [
        request if one is not None else replace(request, options={**request.options, "parallelism": left // open_ones})
        for request, one in zip(requests, said, strict=True)
    ]


def refuse_crowd(prepared: list[PreparedQuery]) -> None:
    """Raises InvalidQuery when a local session has too few task slots; executors of a cluster may still be on their way."""
    session = prepared[0].request.df.sparkSession
    wanted = [one.config.parallelism for one in prepared]
    available = task_slots(session)
    if sum(wanted) > available and is_one_host(session):
        raise InvalidQuery(
            f"the pipelines of the job ask for {' + '.join(map(str, wanted))} slots, and "
            f"{session.sparkContext.master} can run {available} tasks at once",
            hint="lower option parallelism of some, or give Spark more cores: all slots run at the same time",
        )
