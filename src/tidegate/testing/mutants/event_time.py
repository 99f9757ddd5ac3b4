"""Bugs in watermarks around a checkpoint: rows that are not late are taken for late, or nothing moves any more."""

from __future__ import annotations

from typing import Any

import msgspec

from tidegate.eventtime.combiner import WatermarkCombiner
from tidegate.eventtime.generator import SplitWatermarks
from tidegate.model.elements import WATERMARK_MAX_US
from tidegate.model.ids import OperatorId
from tidegate.runtime import stage_time
from tidegate.runtime.stage_time import StageTime
from tidegate.testing.mutants.barriers import CRASHES
from tidegate.testing.mutants.mutant import Catalogue, seeds
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
    "T26",
    "Splits that nobody reads yet do not hold the watermark back: their rows are late, lost.",
    seeds(faults=Faults()),
)
def unread_splits_do_not_hold_the_watermark(plant: Planting) -> None:
    plant.method(SplitWatermarks, "on_status", lambda original, self, opened, holding: original(self, opened, False))


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
