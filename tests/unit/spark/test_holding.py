"""Who holds event time back and since when, and the words a person reads then."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from tests.property.pipelines import two_streams

from tidegate.checkpoint.plan import CheckpointPlan, plan_of
from tidegate.checkpoint.sources import SplitAssigner, fresh
from tidegate.model.config import QueryConfig, WatermarkPolicy
from tidegate.model.holding import Holder, HoldReason, combined
from tidegate.model.ids import Attempt, OperatorId, PipelineId, SlotIndex
from tidegate.model.messages import OperatorMetrics, SlotProgress
from tidegate.model.snapshot import Split
from tidegate.plan.stages import build_graph
from tidegate.spark.discovery import FailingLooks
from tidegate.spark.holding import Hold, HoldWatch, in_words, trouble

GRAPH = build_graph(two_streams(Random(1)).plan, parallelism=2, max_parallelism=8)
ONE, TWO = OperatorId("source-0"), OperatorId("source-1")


def plan(**config: Any) -> CheckpointPlan:
    return plan_of(GRAPH, PipelineId("p"), QueryConfig(parallelism=2, **config))


def look(
    watch: HoldWatch,
    *sources: SplitAssigner,
    at: int,
    slots: tuple[SlotProgress, ...] = (),
    failing: dict[OperatorId, FailingLooks] | None = None,
) -> list[tuple[OperatorId, HoldReason, int]]:
    holds = watch.look(sources, {one.slot: one for one in slots}, failing or {}, at)
    return [(one.holder.source, one.holder.reason, one.since_ms) for one in holds]


def found(source: SplitAssigner, *numbers: int, ordered: bool = False) -> SplitAssigner:
    splits = tuple(Split(number=number, payload=b"") for number in numbers)
    return source.on_discovered(splits, b"", bounded=False, endless=False, ordered=ordered, found=bool(numbers))


def slot(index: int, *holders: Holder, positions: dict[str, str] | None = None, **watermarks_us: int) -> SlotProgress:
    metrics = tuple(
        OperatorMetrics(operator=f"{stage} watermark-{stage}", watermark_us=at_us)
        for stage, at_us in enumerate(watermarks_us.values())
    )
    return SlotProgress(
        attempt=Attempt(1), slot=SlotIndex(index), holders=holders, positions=positions or {}, metrics=metrics
    )


def settled(operator: OperatorId) -> SplitAssigner:
    """Nothing has ever been found in it."""
    return found(fresh(operator, 2, delay_us=0))


def test_the_moment_is_kept_while_nothing_gets_done() -> None:
    watch = HoldWatch(GRAPH, plan())
    unread = found(fresh(ONE, 2, delay_us=0), 0, 1)
    assert look(watch, unread, settled(TWO), at=1_000) == [(ONE, HoldReason.UNREAD, 1_000)]
    assert look(watch, unread, settled(TWO), at=9_000) == [(ONE, HoldReason.UNREAD, 1_000)]
    more = found(unread, 2)
    assert look(watch, more, settled(TWO), at=9_500) == [(ONE, HoldReason.UNREAD, 9_500)]
    assert look(watch, settled(ONE), settled(TWO), at=9_800) == []
    assert look(watch, unread, settled(TWO), at=9_900) == [(ONE, HoldReason.UNREAD, 9_900)]
    assert look(watch, at=10_000) == [], "between two attempts nothing runs"


def test_what_a_slot_reads_right_now_is_the_example() -> None:
    watch = HoldWatch(GRAPH, plan())
    unread = found(fresh(ONE, 2, delay_us=0), 0, 1)
    (hold,) = watch.look((unread, settled(TWO)), {SlotIndex(1): slot(1, positions={ONE: "part-3, row 17"})}, {}, 0)
    assert hold.holder.example == "part-3, row 17"


def test_readers_of_logs_say_themselves_for_how_long() -> None:
    watch = HoldWatch(GRAPH, plan())
    silent = Holder(source=ONE, reason=HoldReason.UNANSWERED, example="bids-3", lasted_ms=5_000)
    held = look(watch, found(fresh(ONE, 2), 0, ordered=True), settled(TWO), at=60_000, slots=(slot(0, silent),))
    assert held == [(ONE, HoldReason.UNANSWERED, 55_000)]


def test_a_source_that_cannot_be_looked_into_is_named_with_its_error() -> None:
    watch = HoldWatch(GRAPH, plan())
    failing = {TWO: FailingLooks(2_000, "the store does not answer")}
    holds = watch.look((settled(ONE), settled(TWO)), {}, failing, 40_000)
    assert [(one.since_ms, in_words(one.holder)) for one in holds] == [
        (2_000, "source-1: it cannot be looked into: the store does not answer")
    ]


def test_a_stream_without_rows_that_others_wait_for_is_named() -> None:
    """T27: it keeps its time, as in Structured Streaming; a person should know."""
    ahead = slot(0, one=50, two=20)
    logs = [found(fresh(operator, 2), 0, ordered=True) for operator in (ONE, TWO)]
    assert look(HoldWatch(GRAPH, plan()), *logs, at=0, slots=(ahead,)) == [(TWO, HoldReason.STREAM, 0)]
    busy = slot(0, Holder(source=TWO, reason=HoldReason.PARTITION), one=50, two=20)
    assert look(HoldWatch(GRAPH, plan()), *logs, at=0, slots=(busy,)) == [(TWO, HoldReason.PARTITION, 0)]
    for other in (plan(bounded=True), plan(watermark_policy=WatermarkPolicy.MAX)):
        assert look(HoldWatch(GRAPH, other), *logs, at=0, slots=(ahead,)) == []


def test_readers_of_one_source_are_put_together_and_the_slowest_comes_first() -> None:
    ones = [
        Holder(source=ONE, reason=HoldReason.PARTITION, count=2, example="bids-1", at_us=30, stand=3),
        Holder(source=TWO, reason=HoldReason.UNREAD, count=1, at_us=20),
        Holder(source=ONE, reason=HoldReason.PARTITION, count=1, example="bids-5", at_us=10, stand=4),
    ]
    first, second = combined(ones)
    assert (first.source, first.count, first.example, first.at_us, first.stand) == (ONE, 3, "bids-5", 10, 7)
    assert second.source == TWO


@pytest.mark.parametrize("reason", list(HoldReason))
@pytest.mark.parametrize("count", [1, 3])
def test_every_reason_has_words(reason: HoldReason, count: int) -> None:
    words = in_words(Holder(source=ONE, reason=reason, count=count, example="part-7"))
    assert words.startswith("source-0: ") and "HoldReason" not in words


def test_only_what_does_not_answer_is_trouble_and_only_after_a_while() -> None:
    holds = [Hold(Holder(source=ONE, reason=reason), 0) for reason in HoldReason]
    assert trouble(holds, 30_000, 30_000) is None
    late = trouble(holds, 30_000, 30_001)
    assert late is not None and late.holder.reason in (HoldReason.LOOK, HoldReason.UNANSWERED)
    assert trouble([Hold(Holder(source=ONE, reason=HoldReason.UNREAD), 0)], 30_000, 10**9) is None
