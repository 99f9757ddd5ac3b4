"""Barriers of several channels becoming one cut."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tidegate.model.elements import Barrier
from tidegate.model.ids import ChannelId, CheckpointId, SlotIndex
from tidegate.runtime.alignment import Aligned, Aligning, Alignment, Flowing, flow_again, held, on_barrier, on_cancel

A, B, C = (ChannelId(0, SlotIndex(i), SlotIndex(0)) for i in range(3))
INPUTS = frozenset({A, B, C})


def barrier(number: int) -> Barrier:
    return Barrier(CheckpointId(number))


def drive(*events: tuple[ChannelId, int]) -> Flowing | Aligning | Aligned:
    now: Flowing | Aligning | Aligned = Flowing()
    for at_ms, (channel, number) in enumerate(events):
        assert not isinstance(now, Aligned)
        now = on_barrier(INPUTS, now, channel, barrier(number), at_ms)
    return now


def test_channels_are_held_from_their_barrier_until_it_stands_in_all() -> None:
    """T14"""
    now = drive((A, 1), (B, 1))
    assert isinstance(now, Aligning)
    assert held(now) == {A, B}
    assert drive((A, 1), (B, 1), (C, 1)) == Aligned(barrier(1), since_ms=0)


def test_a_single_input_is_aligned_at_once() -> None:
    assert isinstance(on_barrier(frozenset({A}), Flowing(), A, barrier(1), 0), Aligned)


def test_a_newer_barrier_subsumes_an_older_one_and_releases_its_channels() -> None:
    now = drive((A, 1), (B, 2))
    assert isinstance(now, Aligning)
    assert now.barrier == barrier(2)
    assert held(now) == {B}


def test_an_older_barrier_does_not_disturb() -> None:
    before = drive((A, 2))
    assert drive((A, 2), (B, 1)) == before


def test_a_cancelled_checkpoint_releases_and_never_comes_back() -> None:
    now = drive((A, 1), (B, 1))
    assert isinstance(now, Aligning)
    after = on_cancel(now, CheckpointId(1))
    assert after == Flowing(CheckpointId(1))
    assert on_barrier(INPUTS, after, C, barrier(1), 9) == after


def test_cancelling_an_older_checkpoint_leaves_the_newer_one_aligning() -> None:
    now = drive((A, 2))
    assert isinstance(now, Aligning)
    after = on_cancel(now, CheckpointId(1))
    assert held(after) == {A}


def test_barriers_of_a_finished_checkpoint_are_ignored() -> None:
    cut = drive((A, 1), (B, 1), (C, 1))
    assert isinstance(cut, Aligned)
    flowing = flow_again(cut)
    assert on_barrier(INPUTS, flowing, A, barrier(1), 9) == flowing


@given(st.lists(st.tuples(st.sampled_from([A, B, C]), st.integers(1, 4), st.booleans()), max_size=30))
def test_a_cut_is_complete_exactly_when_its_barrier_was_read_from_every_channel(
    events: list[tuple[ChannelId, int, bool]],
) -> None:
    """T14 over random interleavings, cancellations included."""
    now: Alignment = Flowing()
    read: dict[int, set[ChannelId]] = {}
    for channel, number, cancel in events:
        if cancel:
            now = on_cancel(now, CheckpointId(number))
            read = {n: channels for n, channels in read.items() if n > number}
            continue
        if channel in held(now):
            continue  # The loop does not read it.
        if number > now.passed and number >= max(read, default=0):
            read = {number: read.get(number, set()) | {channel}}
        following = on_barrier(INPUTS, now, channel, barrier(number), 0)
        if isinstance(following, Aligned):
            assert read[following.barrier.checkpoint] == INPUTS
            read = {}
            now = flow_again(following)
        else:
            assert all(channels != INPUTS for channels in read.values())
            now = following
        assert held(now) < INPUTS
