"""What ``lastProgress`` says of state, of rows that came too late, and of event time."""

from __future__ import annotations

import uuid
from random import Random
from typing import Any

from tests.property.pipelines import twice_aggregated, two_streams, windowed

from tidegate.api.reports import QueryIdentity, Totals, build_report
from tidegate.model.elements import WATERMARK_MAX_US, WATERMARK_MIN_US
from tidegate.model.holding import Holder, HoldReason
from tidegate.model.ids import Attempt, OperatorId, SlotIndex
from tidegate.model.messages import OperatorMetrics, SlotProgress
from tidegate.plan.graph import JobGraph
from tidegate.plan.stages import build_graph
from tidegate.spark.status import JobStatus

IDENTITY = QueryIdentity(str(uuid.uuid4()), str(uuid.uuid4()), "q")
SECOND_US = 1_000_000
WINDOWS = build_graph(windowed(Random(1)).plan, parallelism=2, max_parallelism=8)


def counted(graph: JobGraph, operator: str, **counters: Any) -> OperatorMetrics:
    """``operator``: as the slots name it, without its stage."""
    stage = next(
        stage.id
        for stage in graph.stages
        if any(operator.removeprefix("partial ") == getattr(node, "id", None) for node in stage.nodes)
    )
    return OperatorMetrics(operator=f"{stage} {operator}", **counters)


class Reporting:
    """Slots report, and now and then somebody makes a report of it."""

    def __init__(self, graph: JobGraph = WINDOWS) -> None:
        self.graph = graph
        self.status = JobStatus()
        self.totals: Totals | None = None

    def slot(self, slot: int, *metrics: OperatorMetrics, attempt: int = 1) -> None:
        self.status.on_progress(SlotProgress(attempt=Attempt(attempt), slot=SlotIndex(slot), metrics=metrics))

    def late(self, slot: int, rows: int, *, restored: int = 0, attempt: int = 1) -> None:
        self.slot(
            slot,
            counted(self.graph, "aggregate-0", late_rows=rows, late_rows_restored=restored, state_rows=slot + 1),
            attempt=attempt,
        )

    def report(self, *held: tuple[Holder, float]) -> Any:
        report, self.totals = build_report(IDENTITY, self.graph, self.status.now(), self.totals, "sink", held)
        return report

    def dropped(self) -> tuple[int, int, int]:
        """Since the last report, since the start of the query, and ever."""
        (operator,) = self.report()["stateOperators"]
        custom = operator["customMetrics"]
        return (
            operator["numRowsDroppedByWatermark"],
            custom["rowsDroppedByWatermarkSinceStart"],
            custom["rowsDroppedByWatermarkTotal"],
        )


def test_counters_are_those_of_the_operator_itself_and_not_of_its_first_phase() -> None:
    """Both names end in the same word."""
    reporting = Reporting()
    for slot in range(2):
        reporting.status.on_progress(
            SlotProgress(
                attempt=Attempt(1),
                slot=SlotIndex(slot),
                metrics=(
                    OperatorMetrics(operator="0 partial aggregate-0", rows_out=9),
                    counted(WINDOWS, "aggregate-0", late_rows=3, state_rows=5, state_bytes=700),
                ),
            )
        )
    (operator,) = reporting.report()["stateOperators"]
    assert operator.operatorName == "stateStoreSave" and operator["id"] == "aggregate-0"
    assert (operator.numRowsTotal, operator.memoryUsedBytes, operator.numRowsDroppedByWatermark) == (10, 1_400, 6)


def test_dropped_rows_are_told_since_the_last_report_since_the_start_and_ever() -> None:
    reporting = Reporting()
    reporting.late(0, 12, restored=10)
    reporting.late(1, 1)
    assert reporting.dropped() == (3, 3, 13)
    reporting.late(1, 5)
    assert reporting.dropped() == (4, 7, 17)
    assert reporting.dropped() == (0, 7, 17)


def test_while_a_slot_has_not_reported_nothing_is_concluded() -> None:
    """What an earlier run had counted goes on in one of them: without it the others look as if they began anew."""
    reporting = Reporting()
    reporting.late(1, 1)
    assert reporting.dropped() == (0, 0, 0)
    reporting.late(0, 10, restored=10)
    assert reporting.dropped() == (1, 1, 11)


def test_rows_that_are_dropped_again_after_a_restore_are_not_reported_again() -> None:
    """T26: the count goes back with the state. What comes on top of what was reported is news."""
    reporting = Reporting()
    reporting.late(0, 6)
    reporting.late(1, 4)
    assert reporting.dropped() == (10, 10, 10)
    reporting.status.on_failure(Attempt(1), "a slot died", 0)
    reporting.late(0, 7, restored=7, attempt=2)
    assert reporting.dropped() == (0, 10, 10)
    reporting.late(1, 0, attempt=2)
    assert reporting.dropped() == (0, 7, 7)
    reporting.late(1, 4, attempt=2)
    assert reporting.dropped() == (1, 11, 11)


def test_last_words_of_slots_that_were_replaced_are_not_added_to_those_of_their_successors() -> None:
    reporting = Reporting()
    for slot in range(2):
        reporting.late(slot, 5)
    for slot in range(2):
        reporting.late(slot, 5, restored=5, attempt=2)
    reporting.late(1, 9, attempt=1)
    assert reporting.dropped()[1:] == (0, 10)


def test_the_watermark_is_the_slowest_of_operators_with_state() -> None:
    """A stateless operator that is behind, or ahead, drops nothing."""
    reporting = Reporting()
    for slot in range(2):
        reporting.slot(
            slot,
            counted(WINDOWS, "watermark-0", watermark_us=slot * SECOND_US),
            counted(WINDOWS, "aggregate-0", watermark_us=(7 + slot) * SECOND_US),
            counted(WINDOWS, "sink-0", watermark_us=6 * SECOND_US),
        )
    assert reporting.report()["eventTime"] == {"watermark": "1970-01-01T00:00:07.000Z", "heldBy": []}
    reporting.slot(1, counted(WINDOWS, "aggregate-0"))
    assert "watermark" not in reporting.report()["eventTime"], "a subtask that has none yet is the slowest"
    for slot in range(2):
        reporting.slot(slot, counted(WINDOWS, "aggregate-0", watermark_us=WATERMARK_MAX_US))
    assert reporting.report()["eventTime"]["watermark"] == "drained"


def test_every_operator_with_state_is_told() -> None:
    graph = build_graph(twice_aggregated(Random(1)).plan, parallelism=1, max_parallelism=8)
    reporting = Reporting(graph)
    reporting.slot(0, counted(graph, "aggregate-0", late_rows=1), counted(graph, "aggregate-1", late_rows=2))
    told = {one["id"]: one["numRowsDroppedByWatermark"] for one in reporting.report()["stateOperators"]}
    assert told == {"aggregate-0": 1, "aggregate-1": 2}


def test_whoever_holds_event_time_back_is_named_with_the_source_as_a_person_knows_it() -> None:
    graph = build_graph(two_streams(Random(1)).plan, parallelism=1, max_parallelism=8)
    reporting = Reporting(graph)
    reporting.slot(0, counted(graph, "aggregate-0", watermark_us=WATERMARK_MIN_US))
    holder = Holder(source=OperatorId("source-1"), reason=HoldReason.UNREAD, count=3, example="part-7")
    assert reporting.report((holder, 60.0))["eventTime"] == {
        "heldBy": [
            {
                "source": "scripted[]",
                "reason": "unread",
                "count": 3,
                "example": "part-7",
                "since": "1970-01-01T00:01:00.000Z",
            }
        ]
    }


def test_a_watermark_in_a_year_that_datetime_does_not_know_is_reported() -> None:
    """One row whose milliseconds were taken for seconds is enough."""
    reporting = Reporting()
    for slot in (0, 1):
        reporting.slot(slot, counted(WINDOWS, "aggregate-0", watermark_us=1_763_562_000_000_000_000))
    assert reporting.report()["eventTime"]["watermark"] == "+57855-01-21T05:20:00.000Z"
