from __future__ import annotations

from msgspec.structs import replace

from tidegate.model.ids import Attempt, SlotIndex
from tidegate.model.messages import OperatorMetrics, SlotProgress
from tidegate.spark.status import JobStatus


def report(slot: int, **counters: int) -> SlotProgress:
    metrics = OperatorMetrics(operator="1 aggregate-0", **counters)
    return SlotProgress(attempt=Attempt(1), slot=SlotIndex(slot), metrics=(metrics,))


def test_counters_are_summed_over_slots_and_the_watermark_is_the_slowest():
    status = JobStatus()
    status.on_progress(report(0, rows_in=10, state_rows=3, watermark_us=500))
    status.on_progress(report(1, rows_in=5, state_rows=4, watermark_us=200))
    status.on_progress(report(1, rows_in=7, state_rows=4, watermark_us=300))
    merged = status.now().operators()["1 aggregate-0"]
    assert (merged.rows_in, merged.state_rows, merged.watermark_us) == (17, 7, 300)


def test_each_phase_of_a_restart_is_timed_from_its_detection_and_counted_once():
    status = JobStatus()
    assert status.on_recovery_phase("first checkpoint", 50) is None, "no restart is under way"
    status.on_failure(Attempt(3), "a slot died", 1_000)
    status.on_recovery_phase("ended", 1_300)
    status.on_recovery_phase("ended", 9_000)
    assert status.now().restarts == 0, "a failure is not yet a restart"
    status.on_recovery_phase("claimed", 1_400)
    done = status.on_recovery_phase("first checkpoint", 2_500)
    assert done is not None
    assert done.phases == (("detected", 0), ("ended", 300), ("claimed", 400), ("first checkpoint", 1_500))
    assert status.on_recovery_phase("first checkpoint", 3_500) is None, "later checkpoints belong to no restart"
    assert status.now().restarts == 1


def test_slots_of_two_attempts_are_never_added_up() -> None:
    status = JobStatus()
    for slot in range(2):
        status.on_progress(report(slot, late_rows=5))
    status.on_progress(replace(report(0, late_rows=7), attempt=Attempt(2)))
    assert list(status.now().slots) == [0]
    status.on_progress(report(1, late_rows=5))
    assert status.now().operators()["1 aggregate-0"].late_rows == 7, "last words of a slot that was replaced"
