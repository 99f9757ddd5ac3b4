"""When stateful code is called, with what, and what a restore gives back to it."""

from __future__ import annotations

import io

import polars as pl
import pytest
from tests.unit.operators.stateful.stateful_harness import batch, operator, process, restored_from, rows, taken

from tidegate.model import types as t
from tidegate.model.errors import CorruptSnapshot, UserCodeFailed
from tidegate.model.types import Field
from tidegate.operators import stateful_process as module
from tidegate.operators.protocol import Restored
from tidegate.plan.keyed import TimeMode
from tidegate.testing.processors import Tally

SECOND_US = 1_000_000
NOW_MS = 1_700_000_000_000


def test_rows_of_a_key_are_seen_in_order_and_state_goes_on_in_the_next_batch() -> None:
    one = operator(process())
    assert rows(one.on_batch(batch(("a", 1, "x"), ("b", 2, "x"), ("a", 3, "y")))) == [
        ("a", "row", 1),
        ("a", "row", 2),
        ("b", "row", 1),
    ]
    assert rows(one.on_batch(batch(("a", 4, "x")))) == [("a", "row", 3)]
    assert one.counters.state_rows > 0 and one.counters.state_bytes > 0


def test_null_is_a_key_like_any_other() -> None:
    one = operator(process())
    rows(one.on_batch(batch((None, 1, "x"))))
    assert rows(one.on_batch(batch((None, 2, "x"), ("a", 2, "x")))) == [("None", "row", 2), ("a", "row", 1)]


def test_rows_at_or_before_the_watermark_are_late_in_event_time_only() -> None:
    one = operator(process())
    rows(one.on_watermark(10 * SECOND_US))
    assert rows(one.on_batch(batch(("a", 10, "x"), ("a", 11, "x"), ("a", 9, "x")))) == [("a", "row", 1)]
    assert one.counters.late_rows == 2
    other = operator(process(TimeMode.PROCESSING))
    rows(other.on_watermark(10 * SECOND_US))
    assert len(rows(other.on_batch(batch(("a", 9, "x"))))) == 1


def test_event_time_timers_fire_once_in_the_order_of_their_times() -> None:
    one = operator(process(delay_ms=5_000))
    rows(one.on_batch(batch(("a", 3, "x"), ("b", 1, "x"), ("a", 2, "x"), ("a", 2, "x"))))
    assert rows(one.on_watermark(5_999_000)) == []
    assert rows(one.on_watermark(7 * SECOND_US)) == [("b", "timer", 6_000), ("a", "timer", 7_000)]
    assert rows(one.on_watermark(20 * SECOND_US)) == [("a", "timer", 8_000)]
    assert rows(one.on_watermark(30 * SECOND_US)) == []


def test_it_asks_to_be_told_the_time_of_the_next_timer_in_processing_time() -> None:
    one = operator(process(TimeMode.PROCESSING, delay_ms=100))
    assert one.next_time_ms == float("inf")
    one.tell_time(NOW_MS)
    rows(one.on_batch(batch(("a", 1, "x"))))
    assert one.next_time_ms == NOW_MS + 100
    assert rows(one.on_time(NOW_MS + 99)) == []
    assert rows(one.on_time(NOW_MS + 150)) == [("a", "timer", NOW_MS + 100)]
    assert one.next_time_ms == float("inf")


def test_an_event_time_timer_fires_exactly_once_through_kill_and_restore() -> None:
    """T25."""
    one = operator(process(delay_ms=5_000))
    rows(one.on_batch(batch(("a", 1, "x"), ("b", 10, "x"))))
    rows(one.on_watermark(6 * SECOND_US))
    again = operator(process(delay_ms=5_000), restored=restored_from(taken(one)))
    assert rows(again.on_watermark(6 * SECOND_US)) == []
    assert rows(again.on_watermark(15 * SECOND_US)) == [("b", "timer", 15_000)]
    last = operator(process(delay_ms=5_000), restored=restored_from(taken(again)))
    assert rows(last.on_watermark(99 * SECOND_US)) == []


def test_an_overdue_processing_time_timer_fires_once_with_its_original_time() -> None:
    """T25."""
    one = operator(process(TimeMode.PROCESSING, delay_ms=100))
    one.tell_time(NOW_MS)
    rows(one.on_batch(batch(("a", 1, "x"))))
    again = operator(process(TimeMode.PROCESSING, delay_ms=100), restored=restored_from(taken(one)))
    assert again.next_time_ms == NOW_MS + 100
    assert rows(again.on_time(NOW_MS + 3_600_000)) == [("a", "timer", NOW_MS + 100)]
    assert rows(again.on_time(NOW_MS + 7_200_000)) == []
    last = operator(process(TimeMode.PROCESSING, delay_ms=100), restored=restored_from(taken(again)))
    assert last.next_time_ms == float("inf")


def test_the_watermark_survives_so_late_rows_stay_late() -> None:
    """T26."""
    one = operator(process())
    rows(one.on_watermark(10 * SECOND_US))
    again = operator(process(), restored=restored_from(taken(one)))
    assert rows(again.on_batch(batch(("a", 10, "x")))) == []
    assert again.counters.late_rows == 1


@pytest.mark.parametrize("parallelism", [2, 5])
def test_after_a_rescale_every_key_has_its_state_and_its_timers_once(parallelism: int) -> None:
    keys = [f"key {i}" for i in range(20)]
    node = process(delay_ms=5_000)
    one = operator(node)
    rows(one.on_batch(batch(*((key, 1, "x") for key in keys))))
    state = restored_from(taken(one))
    several = [operator(node, subtask=i, parallelism=parallelism, restored=state) for i in range(parallelism)]
    fired = [rows(each.on_watermark(6 * SECOND_US)) for each in several]
    assert sorted(row for rows in fired for row in rows) == sorted((key, "timer", 6_000) for key in keys)
    assert all(fired), "every subtask has some of them"
    back = operator(node, restored=restored_from(*(taken(each) for each in several)))
    assert rows(back.on_watermark(99 * SECOND_US)) == []
    assert sorted(rows(back.on_batch(batch(*((key, 100, "x") for key in keys))))) == sorted(
        (key, "row", 2) for key in keys
    )


def test_initial_state_is_taken_once_before_anything_else_and_cut_to_the_own_keys() -> None:
    sink = io.BytesIO()
    pl.DataFrame({"i0": [f"key {i}" for i in range(20)], "i1": [10] * 20}).write_ipc_stream(sink)
    node = process(
        initial=sink.getvalue(), initial_schema=(Field("i0", t.STRING), Field("i1", t.LONG)), initial_names=("n",)
    )
    several = [operator(node, subtask=i, parallelism=2) for i in range(2)]
    states = [taken(each) for each in several]
    assert all(0 < each._table.rows < 20 for each in several)
    one = operator(node, restored=restored_from(*states))
    assert rows(one.on_batch(batch(("key 3", 1, "x"), ("new", 1, "x")))) == [("key 3", "row", 11), ("new", "row", 1)]


def test_results_leave_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RESULT_ROWS", 2)
    one = operator(process())
    produced = list(one.on_batch(batch(("a", 1, "x"), ("b", 1, "x"), ("c", 1, "x"))))
    assert [len(rows([each])) for each in produced] == [2, 1]


def test_what_user_code_raises_names_the_operator_and_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: Tally, key: object, start: int, stop: int) -> None:
        raise ValueError("no such thing")

    monkeypatch.setattr(Tally, "on_rows", broken)
    with pytest.raises(UserCodeFailed, match=r"no such thing[\s\S]*transformWithState\(Tally\)[\s\S]*key: \('a',\)"):
        rows(operator(process()).on_batch(batch(("a", 1, "x"))))


def test_a_damaged_snapshot_is_said_to_be_one() -> None:
    with pytest.raises(CorruptSnapshot, match="state variables"):
        operator(process(), restored=Restored(values=(b"\xc1",)))
