"""What a reader of logs says of those that hold event time back."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from tidegate.model.holding import Holder, HoldReason
from tidegate.model.ids import OperatorId
from tidegate.model.snapshot import Split
from tidegate.operators.source.holding import SILENT_AFTER_MS, holders_of_logs
from tidegate.operators.source.open_split import OpenSplit
from tidegate.ports.source import SplitReader

SOURCE = OperatorId("source-kafka")


@dataclass
class Log(SplitReader):
    """A partition whose broker answers, or does not."""

    name: str
    empty_answers: int = 0
    rows: int = 0
    position: bytes = b""
    finished: bool = False

    def read(self, rows_max: int, now_ms: int) -> pl.DataFrame | None:
        rows, self.rows = self.rows, 0
        return pl.DataFrame({"v": [0] * rows}) if rows else None

    def describe(self) -> str:
        return self.name


def partition(number: int) -> OpenSplit:
    return OpenSplit(Split(number=number, payload=b""), None, 0, reader=Log(f"bids-{number}"))


def poll(one: OpenSplit, now_ms: float, *, rows: int = 0, answers: bool = False) -> None:
    assert isinstance(one.reader, Log)
    one.reader.rows = rows
    one.reader.empty_answers += answers
    if one.read(10, now_ms) is None:
        one.note_nothing(now_ms)


def holders(*splits: OpenSplit, **largest_us: int) -> tuple[Holder, ...]:
    return holders_of_logs(SOURCE, splits, lambda one: largest_us.get(f"p{one.number}", 0))


def test_a_log_whose_broker_says_nothing_is_named_with_how_long_it_has_been_silent() -> None:
    """T72: no rows and no answer is not the same as nothing there."""
    silent, answers, flows = partition(1), partition(2), partition(3)
    for now_ms in range(0, SILENT_AFTER_MS + 1, 500):
        poll(silent, now_ms)
        poll(answers, now_ms, answers=True)
        poll(flows, now_ms, rows=1)
    (held,) = holders(silent, answers, flows)
    assert (held.reason, held.count, held.example) == (HoldReason.UNANSWERED, 1, "bids-1")
    assert held.lasted_ms == SILENT_AFTER_MS
    poll(silent, SILENT_AFTER_MS + 500, answers=True)
    assert holders(silent, answers, flows) == ()


def test_time_in_which_nobody_asks_is_no_silence() -> None:
    """Those behind may be busy for long: then nothing is polled."""
    one = partition(1)
    poll(one, 0, rows=1)
    assert holders(one) == () and one.silent_ms == 0
    poll(one, 60_000, rows=1)
    assert one.silent_ms == 0


def test_logs_behind_the_others_are_counted_and_the_last_one_is_named() -> None:
    splits = [partition(number) for number in range(3)]
    for one in splits:
        poll(one, 0, rows=1)
    (held,) = holders(*splits, p0=50, p1=20, p2=30)
    assert (held.reason, held.count, held.example, held.at_us) == (HoldReason.PARTITION, 2, "bids-1", 20)


def test_logs_at_the_same_time_hold_nobody() -> None:
    splits = [partition(number) for number in range(2)]
    for one in splits:
        poll(one, 0, rows=1)
    assert holders(*splits, p0=50, p1=50) == ()
    assert holders() == ()
