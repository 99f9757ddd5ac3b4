"""Bugs on the way of a barrier through the slots: alignment, channels, the order around a snapshot."""

from __future__ import annotations

from typing import Any

from tidegate.model.elements import Barrier, Batch, EndOfData
from tidegate.model.ids import ChannelId
from tidegate.runtime import alignment
from tidegate.runtime.alignment import Alignment
from tidegate.runtime.input_channel import InputChannel, Taken
from tidegate.runtime.output_channel import OutputChannel
from tidegate.runtime.outputs import Outputs
from tidegate.runtime.source_subtask import SourceSubtask
from tidegate.testing.mutants.mutant import Catalogue, seeds
from tidegate.testing.mutants.planting import Planting
from tidegate.testing.simulation.faults import Faults

barriers = mutant = Catalogue()

CRASHES = Faults(slot_crash=0.5, driver_crash=0.2)


@mutant(
    "T14",
    "Rows behind a barrier are in the snapshot and are read again after a restore: rows twice.",
    seeds(6, faults=CRASHES),
)
def nothing_is_held(plant: Planting) -> None:
    plant.function(alignment.held, lambda original, now: frozenset())


@mutant("T14", "One channel runs ahead while the others wait for the barrier: rows twice.", seeds(6, faults=CRASHES))
def one_channel_is_not_held(plant: Planting) -> None:
    def wrong(original: Any, now: Alignment) -> frozenset[ChannelId]:
        channels = sorted(original(now))
        return frozenset(channels[1:])

    plant.function(alignment.held, wrong)


@mutant(
    "T14", "The cut is taken when the first barrier arrives: rows of slower channels lost.", seeds(12, faults=CRASHES)
)
def the_first_barrier_counts_for_all(plant: Planting) -> None:
    def wrong(original: Any, inputs: frozenset[ChannelId], now: Any, channel: ChannelId, *rest: Any) -> Any:
        return original(frozenset({channel}), now, channel, *rest)

    plant.function(alignment.on_barrier, wrong)


@mutant("T16", "One channel never gets a barrier: no checkpoint completes any more.", seeds(faults=Faults()))
def one_output_gets_no_barrier(plant: Planting) -> None:
    def wrong(original: Any, self: Outputs, element: Any) -> None:
        if not isinstance(element, Barrier) or len(self.channels) < 2:
            return original(self, element)
        for channel in self.channels[:-1]:
            channel.put(element)
        return None

    plant.method(Outputs, "broadcast", wrong)


@mutant("T17", "A channel that has ended carries no barriers: alignment waits for ever.", seeds(faults=Faults()))
def an_ended_channel_carries_no_barriers(plant: Planting) -> None:
    ended = "_ended"

    def wrong(original: Any, self: Outputs, element: Any) -> None:
        if isinstance(element, Barrier) and getattr(self, ended, False):
            return
        if isinstance(element, EndOfData):
            setattr(self, ended, True)
        original(self, element)

    plant.method(Outputs, "broadcast", wrong)


@mutant(
    "T24",
    "The barrier overtakes rows that wait for credit: they are in no snapshot, rows lost.",
    seeds(44, 78, faults=CRASHES),
)
def the_barrier_overtakes_waiting_rows(plant: Planting) -> None:
    def wrong(original: Any, self: OutputChannel, element: Any) -> None:
        if isinstance(element, Barrier):
            self._waiting.appendleft(element)
            self._pump()
        else:
            original(self, element)

    plant.method(OutputChannel, "put", wrong)


@mutant("T15", "Rows behind a barrier are read before it: rows twice.", seeds(faults=CRASHES))
def rows_step_before_the_barrier(plant: Planting) -> None:
    def wrong(original: Any, self: InputChannel, rows_max: int) -> Taken:
        queue = self._queue
        if len(queue) > 1 and isinstance(queue[0], Barrier) and isinstance(queue[1], Batch):
            queue[0], queue[1] = queue[1], queue[0]
        return original(self, rows_max)

    plant.method(InputChannel, "take", wrong)


@mutant("T34", "The position counts rows that are fetched and not yet emitted: rows lost.", seeds(faults=CRASHES))
def the_position_is_that_of_the_last_fetched_row(plant: Planting) -> None:
    def wrong(original: Any, self: SourceSubtask, now_ms: float) -> None:
        if self._triggers.next is not None and self.source.ready(now_ms) and not self.outputs.full:
            self._polled.extend(self._poll(now_ms))
        while self._triggers.next is not None:
            self._take(now_ms)

    plant.method(SourceSubtask, "take_if_triggered", wrong)


@mutant("T24", "A source sends the barrier, then rows, then notes its position: rows lost.", seeds(faults=CRASHES))
def a_source_notes_its_position_after_the_next_batch(plant: Planting) -> None:
    def wrong(original: Any, self: SourceSubtask, now_ms: float, **named: Any) -> None:
        if self._triggers.next is not None:
            self.outputs.broadcast(self._triggers.next.barrier)
        if not self.outputs.full:
            for element in self._poll(now_ms):
                if self._work.suspended:
                    self._polled.append(element)
                else:
                    self._begin(element)
        original(self, now_ms, **named)

    plant.method(SourceSubtask, "_take", wrong)
