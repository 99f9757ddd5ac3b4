"""The history outlives drivers, damage and a store that fails; and it never grows."""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tidegate.checkpoint import layout
from tidegate.checkpoint.statistics import CheckpointReport, FailureReason, History, LateSubtask, Outcome, Phase
from tidegate.model.elements import CheckpointKind
from tidegate.model.errors import Unavailable
from tidegate.model.ids import Attempt, CheckpointId, SlotIndex, StageId, SubtaskId
from tidegate.model.snapshot import PhaseTimes
from tidegate.spark import history
from tidegate.spark.history import HistoryKeeper, read_history
from tidegate.spark.records import RECORDS_MAX, record_of
from tidegate.storage.local import LocalBlobStore


def subtask(stage: int, index: int) -> SubtaskId:
    return SubtaskId(StageId(stage), SlotIndex(index))


ACKS = (
    (subtask(0, 0), PhaseTimes(alignment_ms=0.0, sync_ms=2.0, async_ms=9.0, uploaded_bytes=10, state_bytes=100)),
    (
        subtask(1, 0),
        PhaseTimes(alignment_ms=7.0, sync_ms=1.0, async_ms=3.0, state_bytes=50, in_flight_bytes=5, unaligned=True),
    ),
)


def report(number: int, attempt: int = 1, outcome: Outcome = Outcome.COMPLETED, **fields: object) -> CheckpointReport:
    return replace(
        CheckpointReport(CheckpointId(number), Attempt(attempt), CheckpointKind.PERIODIC, outcome, 1_000, 1_040, ACKS),
        **fields,
    )


def failed(number: int, attempt: int = 1) -> CheckpointReport:
    late = (LateSubtask(subtask(1, 1), Phase.SNAPSHOT_OR_UPLOAD),)
    return report(number, attempt, Outcome.FAILED, reason=FailureReason.TIMED_OUT, late=late)


@pytest.fixture
def store(tmp_path: Path) -> LocalBlobStore:
    return LocalBlobStore(tmp_path / "ck")


def run(store: LocalBlobStore, *reports: CheckpointReport) -> HistoryKeeper:
    keeper = HistoryKeeper(store, "test")
    for one in reports:
        keeper.on_report(one)
    keeper.close()
    return keeper


def segments(store: LocalBlobStore) -> tuple[str, ...]:
    return store.list(layout.HISTORY_PREFIX)


def test_a_record_says_everything_about_a_checkpoint_in_plain_values():
    done = History().add(report(7, trigger_delay_ms=3)).add(report(7, outcome=Outcome.COMMITTED, ended_ms=1_100))
    plain = record_of(done.reports[0], wall_ms=1_700_000_000_000.0, now_ms=2_000).as_dict()
    subtasks = plain.pop("subtasks")
    assert plain == {
        "id": 7,
        "attempt": 1,
        "kind": "periodic",
        "state": "committed",
        "reason": "",
        "triggeredAt": "2023-11-14T22:13:19.000Z",
        "triggerDelayMs": 3,
        "durationMs": 40,
        "commitMs": 60,
        "startDelayMs": 0.0,
        "alignmentMs": 7.0,
        "syncMs": 2.0,
        "asyncMs": 9.0,
        "stateBytes": 150,
        "uploadedBytes": 10,
        "inFlightBytes": 5,
        "unaligned": True,
        "late": [],
    }
    assert [one["subtask"] for one in subtasks] == ["0/0", "1/0"]
    assert subtasks[1] == {
        "subtask": "1/0",
        "startDelayMs": 0.0,
        "alignmentMs": 7.0,
        "syncMs": 1.0,
        "asyncMs": 3.0,
        "uploadedBytes": 0,
        "stateBytes": 50,
        "inFlightBytes": 5,
        "unaligned": True,
    }


def test_a_failed_checkpoint_is_remembered_with_its_late_subtask_and_the_acks_of_the_others(store):
    """T68."""
    run(store, failed(3))
    (record,) = read_history(store)
    assert record.state == "failed" and record.reason == "not every subtask acknowledged in time"
    assert [(one.subtask, "uploading" in one.phase) for one in record.late] == [("1/1", True)]
    assert [one.subtask for one in record.subtasks] == ["0/0", "1/0"]


def test_the_next_run_goes_on_where_the_last_one_ended_and_leaves_one_segment(store):
    run(store, report(1), report(2))
    keeper = run(store, report(3, attempt=2))
    assert [(one.attempt, one.id) for one in keeper.records] == [(1, 1), (1, 2), (2, 3)]
    assert read_history(store) == keeper.records
    assert segments(store) == ("history/000002",)


def test_the_history_is_bounded(store):
    keeper = run(store, *(report(number) for number in range(1, RECORDS_MAX + 51)))
    assert [one.id for one in keeper.records] == list(range(51, RECORDS_MAX + 51))
    assert read_history(store) == keeper.records and len(segments(store)) == 1


def test_a_failure_is_written_at_once_and_the_rest_every_ten_seconds(store):
    keeper = HistoryKeeper(store, "test")
    keeper.on_report(report(1))
    keeper.on_clock(keeper._written_ms + history.WRITE_INTERVAL_MS - 1)
    keeper.on_report(failed(2))
    wait_for(store, "history/000001")
    keeper.on_report(report(3))
    keeper.on_clock(keeper._written_ms + history.WRITE_INTERVAL_MS)
    keeper.on_clock(keeper._written_ms + 1)
    keeper.close()
    assert segments(store) == ("history/000002",), "two writes: at the failure, and when the time had come"
    assert [one.id for one in read_history(store)] == [1, 2, 3]


def test_a_damaged_segment_is_left_out_with_a_warning(store, caplog):
    store.create("history/000004", b"tidegate crc32=00000000 bytes=3\nabc")
    with caplog.at_level(logging.WARNING, "tidegate.history"):
        keeper = run(store, report(1))
    assert "history/000004" in caplog.text and "checksum" in caplog.text
    assert [one.id for one in keeper.records] == [1]
    assert segments(store) == ("history/000005",)


def test_a_fenced_driver_that_writes_late_takes_nothing_from_its_successor(store):
    run(store, report(1))
    zombie = HistoryKeeper(store, "zombie")
    zombie.on_report(failed(2))
    wait_for(store, "history/000002")
    successor = HistoryKeeper(store, "successor")
    successor.on_report(failed(3, attempt=2))
    wait_for(store, "history/000003")
    zombie.on_report(failed(4))
    zombie.close()
    successor.on_report(report(4, attempt=2))
    successor.close()
    seen = [(one.attempt, one.id) for one in read_history(store)]
    assert seen == [(1, 1), (1, 2), (1, 4), (2, 3), (2, 4)]
    run(store, report(5, attempt=3))
    assert len(segments(store)) == 1, "the next start tidies up"


def wait_for(store: LocalBlobStore, key: str) -> None:
    give_up = time.monotonic() + 60
    while store.read(key) is None:
        assert time.monotonic() < give_up
        time.sleep(0.005)


class Stubborn(LocalBlobStore):
    """Refuses the first writes, and says of the first of them that it does not know."""

    def __init__(self, root: Path, refusals: int) -> None:
        super().__init__(root)
        self.refusals = refusals

    def create(self, key: str, data: bytes):
        if self.refusals:
            self.refusals -= 1
            super().create(key, data)
            raise Unavailable("who knows whether that was written")
        return super().create(key, data)


def test_a_store_that_fails_costs_a_warning_and_no_record(tmp_path, caplog):
    store = Stubborn(tmp_path / "ck", refusals=2)
    keeper = HistoryKeeper(store, "test")
    with caplog.at_level(logging.WARNING, "tidegate.history"):
        keeper.on_report(failed(1))
        keeper.on_report(failed(2))
        keeper.on_report(failed(3))
        keeper.close()
    assert "cannot be written" in caplog.text
    assert [one.id for one in read_history(store)] == [1, 2, 3]
    assert len(segments(store)) == 1, "segments of unknown outcome are replaced like any other"


def test_the_history_of_a_place_without_one_is_empty(store):
    assert read_history(store) == ()
    assert segments(store) == ()


def test_who_was_replaced_need_not_write(store):
    keeper = HistoryKeeper(store, "test")
    keeper.on_report(report(1))
    keeper.close(write=False)
    assert segments(store) == ()
