"""The combined watermark of several channels."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tidegate.eventtime.combiner import WatermarkCombiner
from tidegate.model.config import WatermarkPolicy
from tidegate.model.elements import WATERMARK_MAX_US, WATERMARK_MIN_US
from tidegate.model.ids import ChannelId, SlotIndex

A, B = (ChannelId(0, SlotIndex(i), SlotIndex(0)) for i in range(2))
OTHER = ChannelId(1, SlotIndex(0), SlotIndex(0))
"""Of another stream."""


def test_the_slowest_channel_decides() -> None:
    combiner = WatermarkCombiner([A, B])
    assert combiner.on_watermark(A, 50) is None
    assert combiner.on_watermark(B, 30) == 30
    assert combiner.on_watermark(B, 90) == 50


def test_an_idle_channel_holds_nothing_back_until_it_wakes() -> None:
    """T27"""
    combiner = WatermarkCombiner([A, B])
    combiner.on_watermark(A, 50)
    assert combiner.on_idle(B) == 50
    assert not combiner.idle
    combiner.on_active(B)
    assert combiner.on_watermark(A, 80) is None
    assert combiner.combined_us == 50


def test_when_all_are_idle_the_latest_stands_whoever_fell_silent_first() -> None:
    for order in ((A, B), (B, A)):
        combiner = WatermarkCombiner([A, B])
        combiner.on_watermark(A, 50)
        for channel in order:
            combiner.on_idle(channel)
        assert combiner.combined_us == 50
        assert combiner.idle


def test_an_ended_channel_does_not_count_until_all_have_ended() -> None:
    combiner = WatermarkCombiner([A, B])
    combiner.on_watermark(A, 90)
    combiner.on_watermark(B, 30)
    assert combiner.on_end(A) is None
    assert combiner.combined_us == 30
    assert combiner.on_end(B) == 90
    assert combiner.ended
    assert not combiner.idle


def test_a_drain_closes_only_when_every_channel_brought_it() -> None:
    combiner = WatermarkCombiner([A, B], silent=frozenset({B}))
    combiner.on_watermark(A, WATERMARK_MAX_US)
    assert combiner.combined_us == WATERMARK_MIN_US
    assert combiner.on_watermark(B, WATERMARK_MAX_US) == WATERMARK_MAX_US


def test_a_channel_that_never_carries_watermarks_holds_nothing_back() -> None:
    combiner = WatermarkCombiner([A, B], silent=frozenset({B}))
    assert combiner.on_watermark(A, 40) == 40


def test_after_a_restore_it_starts_where_it_was() -> None:
    """T26"""
    combiner = WatermarkCombiner([A, B], start_us=70)
    assert combiner.on_watermark(A, 50) is None
    assert combiner.on_watermark(A, 90) is None
    assert combiner.combined_us == 70


@given(
    st.lists(
        st.tuples(st.sampled_from([A, B]), st.sampled_from(["watermark", "idle", "active", "end"]), st.integers(0, 100))
    )
)
def test_the_combined_watermark_never_goes_back(events: list[tuple[ChannelId, str, int]]) -> None:
    """T26 T27"""
    combiner = WatermarkCombiner([A, B])
    before = combiner.combined_us
    for channel, kind, at_us in events:
        match kind:
            case "watermark":
                combiner.on_watermark(channel, at_us)
            case "idle":
                combiner.on_idle(channel)
            case "active":
                combiner.on_active(channel)
            case _:
                combiner.on_end(channel)
        assert combiner.combined_us >= before
        before = combiner.combined_us


def test_with_the_policy_max_the_fastest_stream_decides_and_within_a_stream_the_slowest_channel() -> None:
    combiner = WatermarkCombiner([A, B, OTHER], policy=WatermarkPolicy.MAX)
    assert combiner.on_watermark(A, 50) is None, "the other half of this stream may be behind"
    assert combiner.on_watermark(OTHER, 10) == 10
    assert combiner.on_watermark(B, 30) == 30
    assert combiner.on_watermark(OTHER, 20) is None
    assert combiner.on_watermark(OTHER, 90) == 90


def test_with_the_policy_max_an_idle_stream_gives_way_to_one_that_is_not() -> None:
    combiner = WatermarkCombiner([A, OTHER], policy=WatermarkPolicy.MAX)
    combiner.on_watermark(A, 50)
    assert combiner.on_idle(A) is None
    assert combiner.on_watermark(OTHER, 60) == 60


def test_with_the_policy_max_too_a_drain_closes_only_when_every_channel_brought_it() -> None:
    combiner = WatermarkCombiner([A, OTHER], policy=WatermarkPolicy.MAX)
    assert combiner.on_watermark(A, WATERMARK_MAX_US) is None
    assert combiner.on_watermark(OTHER, 5) is None
    assert combiner.on_watermark(OTHER, WATERMARK_MAX_US) == WATERMARK_MAX_US


@given(
    st.lists(st.tuples(st.sampled_from([A, B, OTHER]), st.integers(0, 100)), max_size=20),
)
def test_max_is_never_behind_min(events: list[tuple[ChannelId, int]]) -> None:
    slow, fast = (WatermarkCombiner([A, B, OTHER], policy=policy) for policy in WatermarkPolicy)
    for channel, at_us in events:
        slow.on_watermark(channel, at_us)
        fast.on_watermark(channel, at_us)
        assert fast.combined_us >= slow.combined_us
