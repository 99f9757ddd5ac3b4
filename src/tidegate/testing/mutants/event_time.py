"""Bugs in watermarks between readers and operators: rows that are not late are taken for late, or nothing moves any more."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec

from tidegate.eventtime import delay
from tidegate.eventtime.combiner import WatermarkCombiner
from tidegate.eventtime.generator import SplitWatermarks
from tidegate.eventtime.quiet import Quiet
from tidegate.model.elements import WATERMARK_MAX_US, WATERMARK_MIN_US, Idle
from tidegate.model.ids import OperatorId
from tidegate.model.messages import AssignSplits
from tidegate.operators.source import SourceOperator
from tidegate.operators.source.open_split import OpenSplit
from tidegate.operators.source.supply import Supplied, Supply
from tidegate.operators.source.time_telling import TimeTelling
from tidegate.plan import watermarks
from tidegate.plan.relational import AssignWatermark, Plan
from tidegate.runtime import stage_time
from tidegate.runtime.stage_time import StageTime
from tidegate.testing.mutants.barriers import CRASHES
from tidegate.testing.mutants.mutant import Catalogue, seeds, timed
from tidegate.testing.mutants.planting import Planting
from tidegate.testing.simulation.faults import Faults

event_time = mutant = Catalogue()


@mutant(
    "T27",
    "After a restore the fastest channel's watermark holds for all: rows of slower ones are late, lost.",
    seeds(36, faults=CRASHES),
)
def the_watermark_is_restored_as_the_maximum(plant: Planting) -> None:
    def wrong(original: Any, state: OperatorId, snapshots: Any, *args: Any, **named: Any) -> int:
        times = [
            msgspec.msgpack.decode(one.value, type=StageTime)
            for one in snapshots
            if one.operator == state and one.value
        ]
        marks = [channel.at_us for time in times for channel in time.channels if channel.at_us < WATERMARK_MAX_US]
        return max((original(state, snapshots, *args, **named), *marks))

    plant.function(stage_time.restored_start_us, wrong)


@mutant(
    "T27", "The fastest input decides about event time: rows of slower ones are late, lost.", seeds(faults=Faults())
)
def watermarks_combine_to_the_maximum(plant: Planting) -> None:
    def wrong(original: Any, self: WatermarkCombiner) -> int | None:
        marks = [time.at_us for time in self._channels.values() if time.at_us < WATERMARK_MAX_US]
        if marks and max(marks) > self.combined_us:
            self.combined_us = max(marks)
            return self.combined_us
        return original(self)

    plant.method(WatermarkCombiner, "_advance", wrong)


@mutant(
    "T49",
    "The last watermark of a drain counts before every input has brought it: windows close early, rows lost.",
    seeds(faults=Faults()),
)
def the_last_watermark_of_one_input_counts_for_all(plant: Planting) -> None:
    def wrong(original: Any, self: WatermarkCombiner, channel: Any, at_us: int) -> int | None:
        if at_us >= WATERMARK_MAX_US:
            for time in self._channels.values():
                time.at_us = max(time.at_us, at_us)
        return original(self, channel, at_us)

    plant.method(WatermarkCombiner, "on_watermark", wrong)


@mutant(
    "T85",
    "The watermark moves inside a file: the rest of it, and the files beside it, are late, lost.",
    timed(2, 1, faults=Faults()),
)
def the_watermark_moves_inside_a_file(plant: Planting) -> None:
    def wrong(original: Any, self: SplitWatermarks) -> int:
        allowed_us, status = original(self), self._status
        largest_us = max(self._largest.values(), default=WATERMARK_MIN_US)
        if status is None or not status.whole or largest_us == WATERMARK_MIN_US:
            return allowed_us
        return max(allowed_us, delay.watermark_at(largest_us, self._delay_us))

    plant.method(SplitWatermarks, "_allowed_us", wrong)


@mutant(
    "T72",
    "The silence of a broker counts as an answer: what comes after it is late, lost.",
    timed(0, 9, faults=Faults()),
)
def silence_counts_as_an_answer(plant: Planting) -> None:
    plant.method(OpenSplit, "note_nothing", lambda original, self, now_ms: self.quiet.nothing(now_ms))


@mutant(
    "T71",
    "A log that was idle before a restore is idle at once: what came while the query was down is late, lost.",
    timed(339, faults=CRASHES),
)
def restored_idleness_is_a_fact(plant: Planting) -> None:
    def wrong(original: Any, self: Quiet) -> None:
        original(self)
        self._answered_ms = 0.0

    plant.method(Quiet, "expect", wrong)


@mutant(
    "T70",
    "A stream that is quiet for long does not hold the others: its next row is late, lost.",
    timed(25, 0, faults=Faults()),
)
def a_quiet_stream_leaves_the_minimum(plant: Planting) -> None:
    def wrong(original: Any, self: TimeTelling, supply: Supply, now_ms: float, rests: bool) -> Idle | None:
        idle = original(self, supply, now_ms, rests)
        return Idle(let_go=True) if rests and not self._is_timeless(supply) else idle

    plant.method(TimeTelling, "_idle_now", wrong)


@mutant(
    "T69",
    "A late message says what was unread once: a reader rests while it has splits to come, or never ends.",
    timed(48, faults=Faults(message_delayed=0.5, message_repeated=0.5)),
)
def unread_is_taken_out_of_sequence(plant: Planting) -> None:
    def wrong(original: Any, self: SourceOperator, message: AssignSplits, now_ms: float) -> bool:
        wakes = original(self, message, now_ms)
        self._supply = replace(self._supply, news=replace(self._supply.news, unread=message.unread))
        return wakes

    plant.method(SourceOperator, "assign", wrong)


@mutant(
    "T19",
    "A bounded run's reader ends before the last watermark has come: windows stay open.",
    timed(84, 158, faults=Faults()),
)
def a_reader_ends_before_the_last_watermark(plant: Planting) -> None:
    def wrong(original: Any, self: SourceOperator) -> bool:
        return isinstance(self._supply.state, Supplied) and not self._open

    plant.method(SourceOperator, "_is_over", wrong)


@mutant(
    "T69",
    "A split is reported before its last rows have passed: their times do not count, and windows stay open.",
    timed(1, 2, faults=Faults()),
)
def a_split_is_reported_before_its_rows_are_out(plant: Planting) -> None:
    def wrong(original: Any, self: SourceOperator, rows_max: int, now_ms: float) -> Any:
        batch = original(self, rows_max, now_ms)
        last = self._open[-1] if self._open else None
        if batch is None or last is None or last.number != batch.origin:
            return batch
        if last.reader is not None and last.reader.finished:
            self._open.rotate(1)
            self._close_split(last)
        return batch

    plant.method(SourceOperator, "_read", wrong)


@mutant(
    "T72",
    "A log that was idle stays idle while its broker is silent: what came meanwhile is late, lost.",
    timed(397),
)
def an_idle_log_may_fall_silent(plant: Planting) -> None:
    def wrong(original: Any, self: OpenSplit, timeout_ms: float, now_ms: float) -> bool:
        return original(self, timeout_ms, now_ms if self.heard_ms is None else self.heard_ms)

    plant.method(OpenSplit, "rests", wrong)


@mutant(
    "T72",
    "A log that nobody asks, because those behind are busy, becomes idle: its rows are late, lost.",
    timed(43),
)
def a_paused_split_becomes_idle(plant: Planting) -> None:
    def wrong(original: Any, self: SourceOperator, one: OpenSplit) -> bool:
        since_ms = one.quiet._since_ms
        if since_ms is not None and not self._config.bounded:
            return self._now_ms - since_ms >= self._config.idle_timeout_ms
        return original(self, one)

    plant.method(SourceOperator, "_counts_as_idle", wrong)


@mutant(
    "T85",
    "A row that the user filters away tells the time: one from the future makes all others late, lost.",
    timed(15, 14, faults=Faults()),
)
def a_filtered_row_tells_the_time(plant: Planting) -> None:
    def wrong(original: Any, node: Plan, done: Any) -> Plan:
        if isinstance(node, AssignWatermark):
            moved = watermarks.settle(node, through_filters=True)
            if moved is not node:
                return watermarks._pushed(moved, done)[1]
        return original(node, done)

    plant.function(watermarks._below_union, wrong)


@mutant(
    "T69",
    "A source whose rows tell no time holds nothing back: the state that its backlog needs is gone, rows lost.",
    timed(35, faults=Faults()),
)
def a_source_without_time_does_not_gate(plant: Planting) -> None:
    def wrong(original: Any, self: TimeTelling, supply: Supply) -> bool:
        return supply.answered and not self._makes_watermark

    plant.method(TimeTelling, "_is_timeless", wrong)
