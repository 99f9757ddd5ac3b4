from __future__ import annotations

import queue
import threading
from types import SimpleNamespace

import pytest

from tidegate.model.errors import InvalidQuery, SlotLost, TidegateError
from tidegate.spark.barrier_job import BarrierJob, explain_job_failure, worker_environment
from tidegate.spark.task import WORKER_ENVIRONMENT


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "pyspark.errors.PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.10 than that in driver: 3.11",
            "3.10",
        ),
        ("  File \"x\"\nModuleNotFoundError: No module named 'tidegate.spark'", "tidegate"),
        (
            "[SPARK-24819]: Barrier execution mode does not allow run a barrier stage that requires more slots than the total",
            "4",
        ),
    ],
)
def test_what_the_cluster_lacks_is_said_in_one_line_and_not_tried_again(text, says):
    error = explain_job_failure(
        f"An error occurred while calling o55.collectToPython.\n{text}\n\tat org.apache.spark.X", 4
    )
    assert isinstance(error, InvalidQuery)
    assert says in error.message and "\tat " not in error.message and error.hint


def test_a_lost_worker_is_a_lost_slot_without_java_frames():
    text = (
        "An error occurred while calling o55.collectToPython.\n: org.apache.spark.SparkException: Job aborted due to stage failure: "
        "Could not recover from a failed barrier ResultStage. Most recent failure reason: Stage failed because barrier task "
        "ResultTask(0, 0) finished unsuccessfully.\n\tat org.apache.spark.scheduler.DAGScheduler.x(DAGScheduler.scala:1)\n"
        * 3
    )
    error = explain_job_failure(text, 2)
    assert isinstance(error, SlotLost)
    assert "slot 0 ended" in error.message and "DAGScheduler" not in error.message


def test_pipelines_that_start_at_once_take_turns_and_leave_the_users_environment_as_it_was():
    """Two deploys in two threads must not see, change or keep each other's environment."""
    theirs = {"PYTHONHASHSEED": "0"}
    context = SimpleNamespace(environment=theirs)
    inside: list[int] = []
    most: list[int] = []

    def deploy() -> None:
        for _ in range(200):
            with worker_environment(context):
                inside.append(1)
                most.append(len(inside))
                assert context.environment == {**theirs, **WORKER_ENVIRONMENT} and context.environment is not theirs
                inside.pop()

    threads = [threading.Thread(target=deploy) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert max(most) == 1 and len(most) == 800
    assert context.environment is theirs and theirs == {"PYTHONHASHSEED": "0"}


def test_whatever_keeps_the_slots_from_being_submitted_is_reported():
    ended: queue.SimpleQueue[TidegateError | None] = queue.SimpleQueue()
    BarrierJob(
        object(),  # type: ignore[arg-type]
        1,
        lambda rows: rows,
        group="g",
        description="d",
        slots_timeout_ms=1_000,
        on_end=ended.put,
    )
    failure = ended.get(timeout=10)
    assert isinstance(failure, SlotLost) and "AttributeError" in failure.message
