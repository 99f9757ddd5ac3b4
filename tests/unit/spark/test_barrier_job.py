from __future__ import annotations

import pytest

from tidegate.model.errors import InvalidQuery, SlotLost
from tidegate.spark.barrier_job import explain_job_failure


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
