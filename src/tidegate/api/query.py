"""The handle of a running query, shaped like PySpark's ``StreamingQuery``."""

from __future__ import annotations

import logging
import secrets
import shutil
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotInTime
from typing import Any

from pyspark.sql.streaming.listener import StreamingQueryProgress

from tidegate.api.explain import explain_query
from tidegate.api.reports import Held, QueryIdentity, Totals, build_report, describe_checkpoint
from tidegate.api.static_tables import TableSweep
from tidegate.checkpoint.effects import Failed, Fenced, Finished, Outcome, RequestDone, Stopped
from tidegate.checkpoint.events import Afterwards
from tidegate.checkpoint.savepoint import check_target
from tidegate.checkpoint.statistics import Outcome as CheckpointOutcome
from tidegate.checkpoint.storing import error_from
from tidegate.model import errors
from tidegate.model.config import QueryConfig
from tidegate.model.errors import TidegateError
from tidegate.model.ids import Attempt
from tidegate.plan.graph import JobGraph
from tidegate.plan.relational import Sink
from tidegate.spark.clock import monotonic_ms
from tidegate.spark.driver import JobMaster
from tidegate.spark.health import Health
from tidegate.spark.settling import wait_until_read
from tidegate.spark.status import JobSnapshot, Recovery
from tidegate.storage.open import absolute_path, open_store
from tidegate.storage.options import NO_OPTIONS, StorageOptions

log = logging.getLogger("tidegate")

RECENT_REPORTS_MAX = 100
LAST_REPORT_TIMEOUT_S = 5.0


class StreamingQuery:
    """One started query. All methods may be called from any thread."""

    def __init__(
        self,
        master: JobMaster,
        identity: QueryIdentity,
        graph: JobGraph,
        plans: tuple[Sink, ...],
        config: QueryConfig,
        location: str,
        sink_description: str,
        *,
        temporary: bool = False,
        storage: StorageOptions = NO_OPTIONS,
        reread: Callable[[], JobGraph],
        tables: TableSweep,
    ) -> None:
        """``reread``: reads static data again and gives the graph of the same query over it."""
        self._master = master
        self._reread = reread
        self._tables = tables
        self._identity = identity
        self._graph = graph
        self._plans = plans
        self._config = config
        self._sink_description = sink_description
        self.location = location
        """The checkpoint location."""
        self._temporary = temporary
        self._storage = storage
        self._reports: deque[StreamingQueryProgress] = deque(maxlen=RECENT_REPORTS_MAX)
        self._totals: Totals | None = None
        self._reported = threading.Event()
        """The last report has been made."""
        self._reporter = threading.Thread(target=self._report, name=f"tidegate-reports-{identity.name}", daemon=True)
        self._reporter.start()

    # --- PySpark's surface ---------------------------------------------------------------------------------------------

    @property
    def id(self) -> str:
        """The same over all restarts from the same checkpoint location."""
        return self._identity.id

    @property
    def runId(self) -> str:
        """New with every start."""
        return self._identity.run_id

    @property
    def name(self) -> str | None:
        """As given with ``queryName``."""
        return self._identity.name

    @property
    def isActive(self) -> bool:
        """Until nothing of the query runs any more; also while it restarts."""
        return not self._master.ended.is_set()

    @property
    def status(self) -> dict[str, Any]:
        """PySpark's three entries, and beyond them ``health`` (healthy, recovering or unhealthy), the ``reason`` in words when it
        is not healthy, and ``secondsSinceLastCheckpoint``."""
        now = self._master.status.now()
        health = self.health
        messages = {
            "starting": "Deploying the slots",
            "running": "Running continuously",
            "recovering": "Recovering from a failure",
            "ended": "Stopped",
        }
        return {
            "message": messages.get(now.phase, now.phase),
            "isDataAvailable": any(metrics.backlog for metrics in now.operators().values()),
            "isTriggerActive": now.phase == "running",
            "health": health.condition.value,
            "reason": health.reason,
            "secondsSinceLastCheckpoint": round(health.seconds_since_last_checkpoint, 3),
        }

    @property
    def lastProgress(self) -> StreamingQueryProgress | None:
        """The newest report. Beyond PySpark's entries it has ``checkpoint``, and ``queries``: what each query of a job has written
        since the attempt began. None before the first."""
        self._await_last_report()
        return self._reports[-1] if self._reports else None

    @property
    def recentProgress(self) -> list[StreamingQueryProgress]:
        """The last 100 reports, newest last."""
        self._await_last_report()
        return list(self._reports)

    def awaitTermination(self, timeout: float | None = None) -> bool | None:
        """Waits for the end, at most ``timeout`` seconds. Raises what ended the query if it failed.

        With ``timeout``: whether it has ended.
        """
        if timeout is not None and timeout < 0:
            raise errors.InvalidQuery(f"timeout must not be negative, but is {timeout}")
        # A wait without a limit would not notice Ctrl-C on every platform.
        give_up = None if timeout is None else time.monotonic() + timeout
        while not self._master.ended.wait(1.0 if give_up is None else max(0.0, min(1.0, give_up - time.monotonic()))):
            if give_up is not None and time.monotonic() >= give_up:
                return False
        failure = self.exception()
        if failure is not None:
            raise failure
        return None if timeout is None else True

    def exception(self) -> TidegateError | None:
        """Why the query failed; None while it runs, after ``stop()``, and when its input was read to the end."""
        return error_of(self._master.status.now().outcome)

    def stop(self, savepoint: str | None = None, drain: bool = False) -> str | None:
        """Ends the query without a further checkpoint: the next start goes on from the last completed one.

        ``savepoint``: takes a savepoint in that directory first, and returns its path; windows stay open in it. When it cannot be
        taken the error is raised and the query runs on. ``drain``: reads nothing more, closes all windows, and takes the
        savepoint then: for a query that ends for good.

        Returns when no process of the query runs any more.
        """
        if savepoint is None:
            if drain:
                raise errors.InvalidQuery(
                    "drain closes all windows of a query for good: it needs a savepoint to show for it",
                    hint='call stop(savepoint="/a/path", drain=True)',
                )
            self.request_stop()
            self._master.ended.wait()
            return None
        taken = self._take_savepoint(savepoint, Afterwards.DRAIN if drain else Afterwards.SUSPEND, None)
        self._master.ended.wait()
        return taken

    def explain(self, extended: bool = False) -> None:
        """Prints stages, channels and parallelism; ``extended`` also the plan and every setting."""
        print(self.explain_text(extended))  # noqa: T201  it is what explain() is for

    def processAllAvailable(self) -> None:
        """Waits until everything that was there at the call is read and its results are visible in the sink.

        For tests: a source that never pauses makes it wait for ever. Raises what ended the query if it fails meanwhile.
        """
        sources = frozenset(scan.id for scan in self._graph.scans())
        wait_until_read(self._master, sources, self._graph.parallelism)
        if self.isActive:
            self.checkpoint()
        failure = self.exception()
        if failure is not None:
            raise failure

    # --- beyond PySpark ------------------------------------------------------------------------------------------------

    def checkpoint(self, timeout: float | None = None) -> dict[str, Any]:
        """Takes a checkpoint now, waits until its output is visible, and returns its id, duration, sizes and phases.

        Raises when it fails, and ``Unavailable`` after ``timeout`` seconds (the checkpoint goes on).
        """
        taken = _wait_for(self._master.checkpoint(), timeout, "the checkpoint").checkpoint
        for report in reversed(self._master.status.now().history.reports):
            if report.checkpoint == taken:
                return describe_checkpoint(report)
        return {"id": taken}

    def refresh(self, timeout: float | None = None) -> None:
        """Reads the static sides of joins, and scalar subqueries, again: rows from now on see the new data.

        A checkpoint is taken, then the slots start anew from it, so that every row sees the old data or the new and none is lost or
        repeated. Returns when they run. Raises ``InvalidQuery`` when Spark has no task slot left to read with, and ``Unavailable``
        after ``timeout`` seconds (the refresh goes on).
        """
        give_up = None if timeout is None else time.monotonic() + timeout
        with self._tables.held():
            graph = self._reread()
            if graph.state_shapes() != self._graph.state_shapes():
                raise errors.InvalidQuery(
                    "static data changed in a way that makes another query of this one",
                    hint="stop the query and start it again: start() says what does not fit",
                )
            self.checkpoint(timeout)
            before = self._master.status.now().attempt
            self._graph = graph
            self._master.redeploy(graph)
            self._tables.expect(graph, Attempt(before + 1))
        while self.isActive:
            now = self._master.status.now()
            if now.phase == "running" and now.attempt > before:
                return
            if give_up is not None and time.monotonic() >= give_up:
                raise errors.Unavailable(f"the slots did not run again after {timeout} s", hint="the refresh goes on")
            self._master.ended.wait(0.05)
        failure = self.exception()
        raise failure if failure is not None else errors.Unavailable("the query has ended", hint="start it again")

    def savepoint(self, path: str, timeout: float | None = None) -> str:
        """Takes a savepoint in the directory ``path``, which is made if missing and must be empty; the query runs on.

        Returns the absolute path when the savepoint stands there, whole: it may be moved or copied, and a new query may start from
        it with ``.option("startFrom", path)``. Raises ``InvalidQuery`` when the place is wrong, ``Unavailable`` when it does not
        answer or after ``timeout`` seconds (the savepoint goes on).
        """
        return self._take_savepoint(path, Afterwards.RUN_ON, timeout)

    def _take_savepoint(self, path: str, afterwards: Afterwards, timeout: float | None) -> str:
        target = absolute_path(path)
        # Before a checkpoint is taken for it: above all, nothing is drained for a place that cannot be written to.
        check_target(open_store(target, self._storage), target, secrets.token_hex(16))
        return _wait_for(self._master.savepoint(target, afterwards), timeout, "the savepoint").savepoint or target

    def explain_text(self, extended: bool = False) -> str:
        """What ``explain`` prints."""
        return explain_query(self._plans, self._graph, self._config, self._sink_description, extended=extended)

    @property
    def health(self) -> Health:
        """Whether the query does what it should right now, and if not, what it waits for and who keeps it waiting."""
        return self._master.health()

    @property
    def checkpoints(self) -> list[dict[str, Any]]:
        """The last 200 checkpoints, failed ones too, newest last: times and sizes of every subtask, and who was late.

        Those of earlier runs on the same location are among them; ``tidegate.checkpoint_history`` reads them without a query.
        """
        return [record.as_dict() for record in self._master.history.records]

    @property
    def recoveries(self) -> tuple[Recovery, ...]:
        """Every restart of this run, with the time of each of its phases."""
        return self._master.status.now().recoveries

    def snapshot(self) -> JobSnapshot:
        """Everything known about the query right now."""
        return self._master.status.now()

    def request_stop(self) -> None:
        """``stop()`` without waiting for the end."""
        self._master.stop()

    def wait_ended(self, timeout: float) -> bool:
        """Like ``awaitTermination`` but never raises what ended the query."""
        return self._master.ended.wait(timeout)

    def __repr__(self) -> str:
        return f"StreamingQuery(name={self.name!r}, id={self.id!r}, {self.status['message']})"

    # --- inside --------------------------------------------------------------------------------------------------------

    def _report(self) -> None:
        while not self._master.ended.wait(self._config.progress_interval_ms / 1000):
            self._try_report()
        self._try_report()
        self._reported.set()
        if self._temporary and self.exception() is None:
            # Nobody chose this place and nobody can go on from it; after a failure it stays, to be looked at.
            shutil.rmtree(self.location, ignore_errors=True)

    def _try_report(self) -> None:
        """A report that cannot be made is left out: the next one may be possible, and the query does not depend on it."""
        try:
            self._take_report()
        except Exception:
            log.exception("a report on the progress of %s could not be made", self.name or self.id)

    def _take_report(self) -> None:
        now = self._master.status.now()
        if now.phase == "running":
            done = {one.attempt for one in now.history.reports if one.outcome is CheckpointOutcome.COMMITTED}
            self._tables.after_commits(now.attempt, now.attempt in done)
        if now.slots:
            report, self._totals = build_report(
                self._identity, self._graph, now, self._totals, self._sink_description, self._held()
            )
            self._reports.append(report)

    def _held(self) -> list[Held]:
        started_s = time.time() - monotonic_ms() / 1000
        return [(one.holder, started_s + one.since_ms / 1000) for one in self._master.holds]

    def _await_last_report(self) -> None:
        """Once the query has ended, its last report is the one that counts: it is being made."""
        if self._master.ended.is_set() and threading.current_thread() is not self._reporter:
            self._reported.wait(LAST_REPORT_TIMEOUT_S)


def error_of(outcome: Outcome | None) -> TidegateError | None:
    """The exception that stands for how a query ended; None for a good end."""
    match outcome:
        case None | Finished() | Stopped():
            return None
        case Fenced(by):
            return errors.Fenced(
                f"attempt {by} of this pipeline was started elsewhere and owns it now",
                hint="stop the other query first if this one should run",
            )
        case Failed(failure):
            return error_from(failure)


def _wait_for(answer: Future[RequestDone], timeout: float | None, what: str) -> RequestDone:
    try:
        return answer.result(timeout)
    except NotInTime:
        raise errors.Unavailable(
            f"{what} was not complete after {timeout} s", hint="it goes on; see lastProgress"
        ) from None
