from __future__ import annotations

from dataclasses import replace

from rich.console import Console

from tidegate.api.screen import Rates, as_line, as_table, show_bytes, show_watermark
from tidegate.model.elements import WATERMARK_MAX_US, WATERMARK_MIN_US
from tidegate.model.ids import Attempt, SlotIndex
from tidegate.model.messages import OperatorMetrics, SlotProgress
from tidegate.spark.health import Condition, Health
from tidegate.spark.status import JobSnapshot

WELL = Health(Condition.HEALTHY, "", 0.5)


def seen(rows: int, at_s: float) -> JobSnapshot:
    metrics = OperatorMetrics(operator="0 source-0", rows_out=rows, watermark_us=1_000_000)
    slots = {
        SlotIndex(slot): SlotProgress(attempt=Attempt(1), slot=SlotIndex(slot), metrics=(metrics,)) for slot in (0, 1)
    }
    return replace(JobSnapshot(), phase="running", slots=slots, taken_s=at_s)


def test_rates_are_rows_of_all_slots_per_second_since_the_last_look():
    rates = Rates()
    rates.of(seen(0, 10.0))
    assert rates.of(seen(500, 12.0)) == {"0 source-0": 500.0}


def test_a_restart_never_shows_a_negative_rate():
    rates = Rates()
    rates.of(seen(1_000, 10.0))
    assert rates.of(seen(10, 11.0)) == {"0 source-0": 0.0}


def test_the_table_and_the_line_name_phase_rows_and_watermark():
    console = Console(width=160, record=True)
    console.print(as_table("clicks", seen(1_234, 1.0), {"0 source-0": 99.0}, WELL))
    table = console.export_text()
    line = as_line("clicks", seen(1_234, 1.0), {"0 source-0": 99.0}, WELL)
    for text in (table, line):
        assert "healthy" not in text
        assert "clicks" in text and "running" in text and "2,468" in text and "1970-01-01 00:00:01" in text


def test_watermarks_and_sizes_are_shown_for_people():
    assert [show_watermark(mark) for mark in (None, WATERMARK_MIN_US, WATERMARK_MAX_US)] == ["", "", "end"]
    assert [show_bytes(size) for size in (12, 1_500, 2_500_000, 7 * 10**9)] == ["12 B", "1.5 kB", "2.5 MB", "7.0 GB"]


def test_a_query_that_is_not_well_says_why_in_the_table_and_in_the_line():
    """T60."""
    ill = Health(Condition.UNHEALTHY, "no checkpoint has completed for 42 s", 42.0)
    console = Console(width=160, record=True)
    console.print(as_table("clicks", seen(1, 1.0), {}, ill))
    for text in (console.export_text(), as_line("clicks", seen(1, 1.0), {}, ill)):
        assert "unhealthy: no checkpoint has completed for 42 s" in text
