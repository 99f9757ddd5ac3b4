"""Barriers of several channels becoming one cut."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tidegate.model.elements import Barrier
from tidegate.model.ids import ChannelId, CheckpointId, SlotIndex
from tidegate.runtime.alignment import (
    Aligned,
    Aligning,
    Alignment,
    Flowing,
    Over,
    Tracking,
    held,
    on_barrier,
    on_cancel,
)

A, B, C = (ChannelId(0, SlotIndex(i), SlotIndex(0)) for i in range(3))
INPUTS = frozenset({A, B, C})


def barrier(number: int) -> Barrier:
    return Barrier(CheckpointId(number))


def drive(*events: tuple[ChannelId, int], start: Alignment | None = None) -> Alignment | Aligned:
    now: Alignment | Aligned = start if start is not None else Flowing()
    for at_ms, (channel, number) in enumerate(events):
        assert not isinstance(now, Aligned)
        now = on_barrier(INPUTS, now, channel, barrier(number), at_ms)
    return now


def test_channels_are_held_from_their_barrier_until_it_stands_in_all() -> None:
    """T14"""
    now = drive((A, 1), (B, 1))
    assert isinstance(now, Aligning)
    assert held(now) == {A, B}
    assert drive((A, 1), (B, 1), (C, 1)) == Aligned(barrier(1), 0, Flowing(Over(CheckpointId(1))))


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
    assert after == Flowing(Over(cancelled=frozenset({CheckpointId(1)})))
    assert on_barrier(INPUTS, after, C, barrier(1), 9) == after


def test_cancelling_an_older_checkpoint_leaves_the_newer_one_aligning() -> None:
    now = drive((A, 2))
    assert isinstance(now, Aligning)
    after = on_cancel(now, CheckpointId(1))
    assert held(after) == {A}


def test_barriers_of_a_finished_checkpoint_are_ignored() -> None:
    cut = drive((A, 1), (B, 1), (C, 1))
    assert isinstance(cut, Aligned)
    assert on_barrier(INPUTS, cut.after, A, barrier(1), 9) == cut.after


def test_cancelling_a_newer_checkpoint_leaves_the_older_one_aligning() -> None:
    """T22: with two under way, one given up must not take the other with it."""
    now = on_cancel(drive((A, 1), (B, 1)), CheckpointId(2))
    assert held(now) == {A, B}
    cut = on_barrier(INPUTS, now, C, barrier(1), 9)
    assert isinstance(cut, Aligned)
    assert on_barrier(INPUTS, cut.after, A, barrier(2), 9) == cut.after
    third = on_barrier(INPUTS, cut.after, A, barrier(3), 9)
    assert held(third) == {A}


def test_at_least_once_holds_nothing_and_follows_several_barriers_at_once() -> None:
    """T52"""
    now = drive((A, 1), (A, 2), (B, 1), start=Tracking())
    assert isinstance(now, Tracking)
    assert held(now) == frozenset()
    assert [(cut.barrier.checkpoint, cut.arrived) for cut in now.cuts] == [(1, {A, B}), (2, {A})]
    first = on_barrier(INPUTS, now, C, barrier(1), 9)
    assert isinstance(first, Aligned)
    assert first.barrier == barrier(1)
    second = drive((B, 2), (C, 2), start=first.after)
    assert isinstance(second, Aligned)
    assert second.since_ms == 1


def test_at_least_once_a_newer_complete_cut_drops_the_older_ones() -> None:
    now = drive((A, 1), (A, 2), (B, 2), (C, 2), start=Tracking())
    assert isinstance(now, Aligned)
    assert now.after == Tracking((), Over(CheckpointId(2)))
    assert on_barrier(INPUTS, now.after, B, barrier(1), 9) == now.after


def test_at_least_once_a_cancelled_cut_never_completes_and_the_others_do() -> None:
    now = on_cancel(drive((A, 1), (A, 2), (B, 1), start=Tracking()), CheckpointId(1))
    after = on_barrier(INPUTS, now, C, barrier(1), 9)
    assert after == now
    assert isinstance(drive((B, 2), (C, 2), start=after), Aligned)


@given(st.lists(st.tuples(st.sampled_from([A, B, C]), st.integers(1, 4), st.booleans()), max_size=40), st.booleans())
def test_a_cut_is_complete_exactly_when_its_barrier_was_read_from_every_channel(
    events: list[tuple[ChannelId, int, bool]], holding: bool
) -> None:
    """T14 T22 over random interleavings, cancellations included. Barriers of a channel come in order, as its queue brings them."""
    now: Alignment = Flowing() if holding else Tracking()
    read: dict[int, set[ChannelId]] = {}
    newest: dict[ChannelId, int] = {}
    over: set[int] = set()
    for channel, number, cancel in events:
        if cancel:
            now = on_cancel(now, CheckpointId(number))
            over.add(number)
            continue
        if channel in held(now) or number <= newest.get(channel, 0):
            continue  # The loop does not read it; or the channel cannot bring it.
        newest[channel] = number
        read.setdefault(number, set()).add(channel)
        following = on_barrier(INPUTS, now, channel, barrier(number), 0)
        complete = read[number] == INPUTS and number not in over
        assert isinstance(following, Aligned) == complete
        if isinstance(following, Aligned):
            assert following.barrier.checkpoint == number
            over.update(range(number + 1))
            now = following.after
        else:
            now = following
        assert held(now) < INPUTS
