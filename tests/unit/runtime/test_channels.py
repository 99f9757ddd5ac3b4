"""Credit, waiting rows, and order."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.model.elements import Barrier, Batch, Element, EndOfData, Idle, Watermark
from tidegate.model.errors import SlotLost
from tidegate.model.ids import ChannelId, CheckpointId, SlotIndex
from tidegate.runtime.input_channel import InputChannel
from tidegate.runtime.output_channel import OutputChannel

CHANNEL = ChannelId(0, SlotIndex(0), SlotIndex(1))


class Wire:
    """An output channel whose far end is a list."""

    def __init__(self, *, batches_max: int = 4, bytes_max: int = 1 << 20, target_rows: int = 10) -> None:
        self.sent: list[Element] = []
        self.output = OutputChannel(
            CHANNEL, self._transmit, batches_max=batches_max, bytes_max=bytes_max, target_rows=target_rows
        )

    def _transmit(self, channel: ChannelId, sequence: int, element: Element) -> None:
        assert sequence == len(self.sent)
        self.sent.append(element)

    def numbers(self) -> list[list[int]]:
        return [element.rows["n"].to_list() for element in self.sent if isinstance(element, Batch)]


def batch(*numbers: int) -> Batch:
    return Batch(pl.DataFrame({"n": list(numbers)}, schema={"n": pl.Int64}))


def barrier(number: int = 1) -> Barrier:
    return Barrier(CheckpointId(number))


def test_under_light_load_a_batch_leaves_at_once() -> None:
    wire = Wire()
    wire.output.put(batch(1))
    wire.output.put(batch(2))
    assert wire.numbers() == [[1], [2]]


def test_rows_that_wait_for_credit_leave_together() -> None:
    wire = Wire(batches_max=1)
    for number in range(5):
        wire.output.put(batch(number))
    wire.output.grant(1)
    assert wire.numbers() == [[0], [1, 2, 3, 4]]


def test_a_batch_larger_than_all_credit_still_passes_alone() -> None:
    wire = Wire(bytes_max=1)
    wire.output.put(batch(1, 2, 3))
    wire.output.put(batch(4))
    assert wire.numbers() == [[1, 2, 3]]
    wire.output.grant(1)
    assert wire.numbers() == [[1, 2, 3], [4]]


def test_without_credit_it_becomes_full_at_the_target() -> None:
    wire = Wire(batches_max=1, target_rows=3)
    wire.output.put(batch(0))
    for number in (1, 2):
        wire.output.put(batch(number))
        assert not wire.output.full
    wire.output.put(batch(3))
    assert wire.output.full


def test_barriers_need_no_credit_but_overtake_nothing() -> None:
    """T24"""
    wire = Wire(batches_max=1)
    wire.output.put(batch(1))
    wire.output.put(barrier(1))
    assert wire.sent[-1] == barrier(1)
    wire.output.put(batch(2))
    wire.output.put(barrier(2))
    wire.output.put(batch(3))
    assert wire.sent[-1] == barrier(1)
    wire.output.grant(1)
    assert wire.numbers() == [[1], [2]]
    assert wire.sent[-1] == barrier(2)
    wire.output.grant(1)
    assert wire.numbers() == [[1], [2], [3]]


def test_rows_step_before_a_waiting_watermark_and_never_before_a_barrier() -> None:
    wire = Wire(batches_max=1)
    for element in (batch(0), batch(1), Watermark(10), batch(2), Watermark(20), barrier(), batch(3), Watermark(30)):
        wire.output.put(element)
    wire.output.grant(1)
    assert wire.numbers() == [[0], [1, 2]]
    assert wire.sent[2:] == [Watermark(20), barrier()]


def test_credit_for_what_was_never_sent_ends_the_attempt() -> None:
    with pytest.raises(SlotLost):
        Wire().output.grant(1)


@pytest.mark.parametrize("sequence", [0, 2])
def test_a_gap_or_a_repetition_in_a_channel_ends_the_attempt(sequence: int) -> None:
    channel = InputChannel(CHANNEL)
    channel.push(0, Idle())
    with pytest.raises(SlotLost, match=f"element {sequence} where 1 was expected"):
        channel.push(sequence, Idle())


def test_batches_that_wait_are_read_as_one_up_to_the_limit() -> None:
    channel = InputChannel(CHANNEL)
    for sequence, element in enumerate((batch(1), Watermark(5), batch(2, 3), barrier(), batch(4))):
        channel.push(sequence, element)
    taken = channel.take(rows_max=10)
    assert isinstance(taken.element, Batch)
    assert taken.element.rows["n"].to_list() == [1, 2, 3]
    assert taken.batches == 2
    assert [channel.take(10).element for _ in range(2)] == [Watermark(5), barrier()]
    assert channel.batches == 1


def test_a_batch_larger_than_the_limit_is_read_in_even_pieces_and_gives_its_credit_back_with_the_last() -> None:
    """T22: what is left stands before the barrier, so half a batch is either in the queue or in the state."""
    channel = InputChannel(CHANNEL)
    for sequence, element in enumerate((batch(*range(9)), barrier(), batch(9))):
        channel.push(sequence, element)
    pieces: list[list[int]] = []
    credit: list[int] = []
    left: list[int] = []
    for _ in range(3):
        taken = channel.take(rows_max=4)
        assert isinstance(taken.element, Batch)
        pieces.append(taken.element.rows["n"].to_list())
        credit.append(taken.batches)
        frames, found = channel.rows_before(CheckpointId(1))
        assert found == barrier()
        left.append(sum(frame.height for frame in frames))
    assert pieces == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]
    assert credit == [0, 0, 1]
    assert left == [6, 3, 0]
    assert channel.batches == 1
    assert channel.take(4).element == barrier()


elements = st.one_of(
    st.lists(st.integers(0, 99), min_size=1, max_size=4).map(lambda numbers: batch(*numbers)),
    st.integers(0, 50).map(Watermark),
    st.just(Idle()),
    st.integers(1, 9).map(barrier),
    st.just(EndOfData()),
)


@settings(deadline=None)
@given(st.lists(st.one_of(elements, st.just("grant")), max_size=40), st.integers(1, 3), st.integers(1, 6))
def test_order_is_kept_around_barriers_and_everything_leaves_in_the_end(
    events: list[Element | str], batches_max: int, target_rows: int
) -> None:
    """T15 T24: between two barriers the same rows, in the same order; the barriers themselves all there."""
    wire = Wire(batches_max=batches_max, target_rows=target_rows)
    put: list[Element] = []
    granted = 0
    for event in events:
        if isinstance(event, str):
            if granted < len(wire.numbers()):
                wire.output.grant(1)
                granted += 1
        else:
            put.append(event)
            wire.output.put(event)
        assert len(wire.numbers()) - granted <= batches_max
    while granted < len(wire.numbers()):
        wire.output.grant(1)
        granted += 1
    assert wire.output.waiting == 0
    assert epochs(wire.sent) == epochs(put)


def epochs(elements: list[Element]) -> list[tuple[list[int], int, int | None]]:
    """Rows, largest watermark and closing barrier of each epoch."""
    found: list[tuple[list[int], int, int | None]] = []
    rows: list[int] = []
    largest = -1
    for element in elements:
        match element:
            case Batch(rows=frame):
                rows.extend(frame["n"].to_list())
            case Watermark(at_us=at_us):
                largest = max(largest, at_us)
            case Barrier(checkpoint=checkpoint):
                found.append((rows, largest, checkpoint))
                rows, largest = [], -1
            case _:
                pass
    return [*found, (rows, largest, None)]
