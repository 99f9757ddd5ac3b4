"""What an operator does that says nothing but what becomes of a batch."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tidegate.model.elements import Batch, Produced, SourceStatus
from tidegate.model.ids import CheckpointId
from tidegate.operators.protocol import Operator

FIRST = CheckpointId(1)


class Passing(Operator):
    def on_batch(self, batch: Batch) -> Iterator[Produced]:
        yield batch


def test_it_releases_nothing_by_itself_and_promises_what_it_was_promised() -> None:
    operator = Passing()
    operator.tell_time(5)
    released = (
        operator.on_watermark(7),
        operator.on_status(SourceStatus(frozenset(), holding=False)),
        operator.on_time(5),
        operator.on_barrier(FIRST),
        operator.on_end(),
    )
    assert [list(rows) for rows in released] == [[]] * 5
    assert operator.output_watermark(7) == 7
    assert operator.next_time_ms == float("inf") and not operator.flushes


def test_it_has_no_state_and_hears_of_checkpoints_in_vain() -> None:
    operator = Passing()
    assert operator.snapshot(FIRST) is None
    operator.capture()
    operator.abandon_capture(FIRST)
    operator.on_stored(FIRST, ())
    operator.on_completed(FIRST)
    operator.on_committed(FIRST)
    operator.close()
    assert operator.counters.state_rows == 0


def test_one_that_says_nothing_of_batches_cannot_be_made() -> None:
    with pytest.raises(TypeError, match="on_batch"):
        Operator()  # type: ignore[abstract]
