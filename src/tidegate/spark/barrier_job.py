"""The Spark job that hosts the slots of one attempt: one barrier stage, submitted from a thread of its own."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tidegate.model.errors import InvalidQuery, SlotLost, TidegateError
from tidegate.spark.checks import java_context, task_slots, too_few_slots
from tidegate.spark.session import spark_log_path
from tidegate.spark.task import OUTPUT_SCHEMA, WORKER_ENVIRONMENT

_ENVIRONMENT_LOCK = threading.Lock()
_SLOTS_CHECK_INTERVAL_S = 0.25
_DEAD_TASK = re.compile(r"barrier task ResultTask\(\d+, (\d+)\) finished unsuccessfully")


class BarrierJob:
    """Runs ``function`` in ``parallelism`` tasks at once. ``on_end`` is called once, in the job's thread: None after a clean end."""

    def __init__(
        self,
        session: SparkSession,
        parallelism: int,
        function: Callable[[Iterator[Any]], Iterator[Any]],
        *,
        group: str,
        description: str,
        slots_timeout_ms: int,
        on_end: Callable[[TidegateError | None], None],
    ) -> None:
        self._session = session
        self._parallelism = parallelism
        self._function = function
        self._group = group
        self._description = description
        self._slots_timeout_ms = slots_timeout_ms
        self._on_end = on_end
        self._cancelled = threading.Event()
        self._thread = threading.Thread(target=self._run, name=group, daemon=True)
        self._thread.start()

    def cancel(self, reason: str) -> None:
        """Interrupts the tasks. Does not wait: ``on_end`` tells. A job that is not running yet will not start."""
        self._cancelled.set()
        # A cancel that comes before the job is known would be forgotten; this one also holds for jobs to come.
        threading.Thread(
            target=lambda: java_context(self._session).cancelJobGroupAndFutureJobs(self._group, reason),
            name=f"{self._group}-cancel",
            daemon=True,
        ).start()

    def _run(self) -> None:
        failure: TidegateError | None = None
        try:
            self._wait_for_slots()
            if not self._cancelled.is_set():
                self._session.sparkContext.setJobGroup(self._group, self._description, interruptOnCancel=True)
                self._frame().collect()
        except TidegateError as refused:
            failure = refused
        except (Py4JError, PySparkException, OSError) as failed:
            failure = explain_job_failure(str(failed), self._parallelism)
        except Exception as failed:  # noqa: BLE001  whatever it is, somebody waits for these slots
            failure = SlotLost(f"the slots cannot be submitted to Spark: {type(failed).__name__}: {failed}")
        self._on_end(failure)

    def _frame(self) -> DataFrame:
        with worker_environment(self._session.sparkContext):
            rows = self._session.range(0, self._parallelism, 1, self._parallelism)
            return rows.mapInArrow(self._function, OUTPUT_SCHEMA, barrier=True)

    def _wait_for_slots(self) -> None:
        """A killed executor needs seconds to come back, and new ones may still be on their way: wait instead of failing."""
        give_up = time.monotonic() + self._slots_timeout_ms / 1000
        while (available := task_slots(self._session)) < self._parallelism:
            if time.monotonic() > give_up:
                raise too_few_slots(self._session, self._parallelism, available)
            if self._cancelled.wait(_SLOTS_CHECK_INTERVAL_S):
                return


@contextmanager
def worker_environment(context: Any) -> Iterator[None]:
    """Functions registered meanwhile run in workers with our environment; workers with another one are other processes.

    Spark reads ``context.environment`` at the registration. Several pipelines may be here at once, each in its own thread, and the
    user's threads register functions, too: so we take turns, and the user's dictionary is set aside instead of changed.
    """
    with _ENVIRONMENT_LOCK:
        theirs = context.environment
        context.environment = {**theirs, **WORKER_ENVIRONMENT}
        try:
            yield
        finally:
            context.environment = theirs


def explain_job_failure(text: str, parallelism: int) -> TidegateError:
    """What Spark's many lines mean. Slots report failures themselves, so what is left is about Spark and its workers."""
    if "PYTHON_VERSION_MISMATCH" in text:
        found = re.search(r"[^\n]*different version[^\n]*", text)
        return InvalidQuery(
            found.group(0).strip() if found else "driver and executors run different versions of Python",
            hint="set PYSPARK_PYTHON on the executors to the Python that the driver runs",
        )
    missing = re.search(r"ModuleNotFoundError: No module named '([\w.]+)'", text)
    if missing:
        package = missing.group(1).partition(".")[0]
        return InvalidQuery(
            f"the Python of the executors cannot import {package}",
            hint="install tidegate with its dependencies on every executor, or ship one environment to all "
            "(spark.archives with venv-pack, PYSPARK_PYTHON)",
        )
    if "BARRIER_JOB_SLOTS_NUMBER_CHECK_FAILED" in text.upper() or "more slots than" in text:
        return InvalidQuery(
            f"the cluster can run fewer tasks at once than the {parallelism} slots the query asks for",
            hint="lower option parallelism, or give Spark more cores: all slots run at the same time",
        )
    if (died := _DEAD_TASK.search(text)) and "Traceback (most recent call last)" not in text:
        return SlotLost(
            f"the process of slot {died[1]} ended (killed, crashed or out of memory)", hint=_where_to_look()
        )
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.strip().startswith("at ")]
    reason = next(
        (line for line in lines if "Most recent failure" in line or "Exception" in line), lines[0] if lines else text
    )
    return SlotLost(f"the Spark job of the slots failed: {reason[:500]}", hint=_where_to_look())


def _where_to_look() -> str:
    log = spark_log_path()
    return f"Spark's log has the details: {log}" if log.exists() else "Spark's log has the details"
