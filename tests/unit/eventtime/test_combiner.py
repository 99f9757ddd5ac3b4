"""The combined watermark of several channels."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tidegate.eventtime.combiner import WatermarkCombiner
from tidegate.model.config import WatermarkPolicy
from tidegate.model.elements import WATERMARK_MAX_US, WATERMARK_MIN_US, Idle
from tidegate.model.ids import ChannelId, OperatorId, SlotIndex

A, B = (ChannelId(0, SlotIndex(i), SlotIndex(0)) for i in range(2))
OTHER = ChannelId(1, SlotIndex(0), SlotIndex(0))
"""Of another stream."""
STREAM, OTHER_STREAM = frozenset({OperatorId("watermark-a")}), frozenset({OperatorId("watermark-b")})
NO_STREAM = frozenset[OperatorId]()


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
    combiner = WatermarkCombiner([A, OTHER], streams={0: STREAM, 1: NO_STREAM})
    combiner.on_idle(OTHER, Idle(for_good=True))
    combiner.on_watermark(A, WATERMARK_MAX_US)
    assert combiner.combined_us == WATERMARK_MIN_US
    assert combiner.on_watermark(OTHER, WATERMARK_MAX_US) == WATERMARK_MAX_US


def test_the_last_watermark_of_one_stream_lets_no_other_run_ahead() -> None:
    """It has been drained, and stands where it stood until all have been."""
    combiner = WatermarkCombiner([A, OTHER], streams={0: STREAM, 1: OTHER_STREAM})
    combiner.on_watermark(A, 20)
    combiner.on_watermark(A, WATERMARK_MAX_US)
    combiner.on_end(A)
    assert combiner.on_watermark(OTHER, 90) == 20
    assert combiner.on_watermark(OTHER, WATERMARK_MAX_US) == WATERMARK_MAX_US


def test_rows_for_whose_time_nobody_asks_hold_the_others_only_while_some_are_unread() -> None:
    combiner = WatermarkCombiner([A, OTHER], streams={0: STREAM, 1: NO_STREAM})
    assert combiner.on_watermark(A, 40) is None, "nobody knows yet what is there"
    assert combiner.on_idle(OTHER) == 40
    combiner.on_active(OTHER)
    assert combiner.on_watermark(A, 80) is None
    assert combiner.on_watermark(OTHER, 60) == 60, "as far as the others were when its cohort became the current one"


def test_a_log_for_whose_time_nobody_asks_holds_nobody_back_whatever_it_brings() -> None:
    combiner = WatermarkCombiner([A, OTHER], streams={0: STREAM, 1: NO_STREAM})
    combiner.on_idle(OTHER, Idle(for_good=True))
    combiner.on_active(OTHER)
    assert not combiner.is_idle(OTHER), "rows do not end it"
    assert combiner.on_watermark(A, 40) == 40


def test_a_stream_that_is_quiet_altogether_counts_where_it_stands() -> None:
    """As in Spark: the minimum over the streams, for ever."""
    combiner = WatermarkCombiner([A, B, OTHER], streams={0: STREAM, 1: OTHER_STREAM})
    combiner.on_watermark(A, 50)
    combiner.on_watermark(B, 30)
    combiner.on_watermark(OTHER, 20)
    assert combiner.on_idle(OTHER) is None
    assert combiner.on_watermark(B, 90) is None
    assert combiner.combined_us == 20
    assert combiner.on_idle(OTHER, Idle(let_go=True)) == 50, "it has been let go"


def test_edges_of_one_stream_are_one() -> None:
    """A union below one ``withWatermark``: the part that brings nothing does not hold the other."""
    combiner = WatermarkCombiner([A, OTHER], streams={0: STREAM, 1: STREAM})
    combiner.on_watermark(A, 50)
    assert combiner.on_watermark(OTHER, 20) == 20
    assert combiner.on_idle(OTHER) == 50


def test_a_rest_means_something_only_where_all_channels_say_the_same() -> None:
    """The rows of a later one may be on their way in any channel that does not."""
    combiner = WatermarkCombiner([A, B], streams={0: STREAM})
    combiner.on_watermark(A, 50)
    combiner.on_idle(A, Idle(rest=2))
    combiner.on_idle(B, Idle(rest=1))
    assert not combiner.rests and combiner.combined_us == WATERMARK_MIN_US
    assert combiner.on_idle(B, Idle(rest=2)) == 50
    assert combiner.rests and combiner.idle == Idle(rest=2)
    combiner.on_active(B)
    assert not combiner.rests
    assert combiner.on_watermark(A, 90) is None


def test_a_stream_that_has_ended_counts_where_it_ended_even_if_it_never_began() -> None:
    """A later run may go on with it, and none of its rows is late."""
    combiner = WatermarkCombiner([A, OTHER], streams={0: STREAM, 1: OTHER_STREAM})
    combiner.on_watermark(A, 50)
    assert combiner.on_end(OTHER) is None
    combiner = WatermarkCombiner([A, OTHER], streams={0: STREAM, 1: OTHER_STREAM})
    combiner.on_watermark(A, 50)
    assert combiner.on_watermark(OTHER, 20) == 20
    assert combiner.on_end(OTHER) is None


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
    assert combiner.on_watermark(OTHER, 5) == 5
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
