"""Joins of two streams as the translation sees them: when rows are late, when they expire, and what is promised behind the join."""

from __future__ import annotations

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidegate.catalyst.translate import Translation
from tidegate.plan.keyed import Moment, StreamJoin
from tidegate.plan.meaning import plain
from tidegate.plan.relational import Plan

pytestmark = pytest.mark.spark
SECOND_US = 1_000_000


@pytest.fixture
def other(bids: DataFrame) -> DataFrame:
    return bids.select(F.col("auction").alias("id"), F.col("date_time").alias("at")).withWatermark("at", "2 seconds")


def join_in(translation: Translation) -> StreamJoin:
    plan: Plan = translation.plan
    while not isinstance(plan, StreamJoin):
        plan = plan.inputs[0]
    return plan


def shown(moment: Moment | None) -> tuple | None:
    return None if moment is None else (plain(moment.column), moment.field, moment.plus_us)


RANGES = {
    "at BETWEEN date_time AND date_time + INTERVAL 10 SECONDS": (10, 0, 10),
    "at BETWEEN date_time - INTERVAL 3 SECONDS AND date_time + INTERVAL 5 SECONDS": (5, 3, 5),
    "date_time >= at - INTERVAL 10 SECONDS AND at >= date_time": (10, 0, 10),
}


@pytest.mark.parametrize("condition", RANGES)
def test_a_range_says_when_rows_expire_and_how_far_the_output_lags(timed, other, translated, condition):
    left_s, right_s, lag_s = RANGES[condition]
    node = join_in(translated(timed.join(other, F.expr(f"auction = id AND {condition}"), "left")))
    assert shown(node.left.event_time) == ("date_time", None, 0)
    assert shown(node.right.event_time) == ("at", None, 0)
    assert shown(node.left.expires) == ("date_time", None, left_s * SECOND_US)
    assert shown(node.right.expires) == ("at", None, right_s * SECOND_US)
    assert node.lag_us == lag_s * SECOND_US


def test_equal_windows_expire_at_their_end(timed, other, translated):
    one = timed.select(F.window("date_time", "10 seconds").alias("w"), "price")
    two = other.select(F.window("at", "10 seconds").alias("w"), "id")
    node = join_in(translated(one.join(two, "w", "full")))
    assert shown(node.left.expires) == ("w", "end", 0)
    assert shown(node.right.expires) == ("w", "end", 0)
    assert node.lag_us == 0


def test_equal_window_ends_do_as_well(timed, other, translated):
    one = timed.groupBy(F.window("date_time", "10 seconds").alias("w")).count()
    two = other.groupBy(F.window("at", "10 seconds").alias("v")).agg(F.count("*").alias("n"))
    node = join_in(translated(one.join(two, F.expr("w.start = v.start AND w.end = v.end"))))
    assert shown(node.left.expires) == ("window", "end", 0)
    assert shown(node.right.expires) == ("window", "end", 0)
    assert node.lag_us == 0


def test_one_watermark_among_the_keys_holds_for_both_sides(timed, bids, translated):
    unmarked = bids.select(F.col("date_time").alias("at"), F.col("url").alias("link"))
    node = join_in(translated(timed.join(unmarked, F.expr("date_time = at"))))
    assert node.right.event_time is None
    assert shown(node.left.expires) == ("date_time", None, 0)
    assert shown(node.right.expires) == ("at", None, 0)


def test_without_a_bound_rows_stay_and_nothing_is_promised(timed, other, translated):
    node = join_in(translated(timed.join(other, F.expr("auction = id"))))
    assert node.left.expires is None
    assert node.right.expires is None
    assert node.lag_us is None


def test_shifted_times_expire_when_the_partner_itself_would_be_late(timed, other, translated):
    """``at`` is three seconds after its partner: that one waits for it although its own time has passed."""
    node = join_in(translated(timed.join(other, F.expr("date_time = at - INTERVAL 3 SECONDS"))))
    assert shown(node.left.expires) == ("date_time", None, 3 * SECOND_US)
    assert shown(node.right.expires) == ("at", None, -3 * SECOND_US)
    assert node.lag_us == 3 * SECOND_US
