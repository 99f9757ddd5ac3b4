"""Bugs in who reads which split from where, and in how the input ends."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec

from tidegate.checkpoint import coordinator
from tidegate.checkpoint.manifest import SourceState
from tidegate.checkpoint.plan import CheckpointPlan
from tidegate.checkpoint.running import Complete, Running, Turn
from tidegate.checkpoint.sources import SplitAssigner
from tidegate.model.ids import CheckpointId
from tidegate.model.messages import AssignSplits
from tidegate.operators.sink import SinkOperator
from tidegate.operators.source import SourceOperator
from tidegate.runtime.chain import Chain
from tidegate.testing.mutants.barriers import CRASHES
from tidegate.testing.mutants.mutant import Catalogue, seeds
from tidegate.testing.mutants.planting import Planting
from tidegate.testing.mutants.publication import GIVEN_UP, REPEATS
from tidegate.testing.simulation.faults import Faults
from tidegate.testing.simulation.sinks import SimulatedWriter, Transaction

sources = mutant = Catalogue()

GIVEN_UP_THEN_CRASHED = replace(GIVEN_UP, slot_crash=0.3)
END = CheckpointId(999_999)


@mutant(
    "T35", "Splits open at the checkpoint are also dealt out afresh after a restore: rows twice.", seeds(faults=CRASHES)
)
def an_open_split_is_assigned_twice(plant: Planting) -> None:
    def wrong(original: Any, self: SplitAssigner, *args: Any, **named: Any) -> SplitAssigner:
        after = original(replace(self, open=()), *args, **named)
        return replace(after, open=self.open)

    plant.method(SplitAssigner, "on_discovered", wrong)
    # Two of one number in one reader would be noticed there.
    _never_known(plant)


def _never_known(plant: Planting) -> None:
    def wrong(original: Any, self: SourceOperator, message: AssignSplits, now_ms: float) -> None:
        self._known.clear()
        original(self, message, now_ms)

    plant.method(SourceOperator, "_accept", wrong)


@mutant("T35", "Finished splits are read again after a restore: rows twice.", seeds(faults=CRASHES))
def a_finished_split_is_assigned_again(plant: Planting) -> None:
    def wrong(original: Any, self: SplitAssigner, *args: Any, **named: Any) -> SplitAssigner:
        after = original(replace(self, done=()), *args, **named)
        return replace(after, done=self.done)

    plant.method(SplitAssigner, "on_discovered", wrong)


@mutant(
    "T35",
    "A split on its way to a reader at the barrier is in no manifest: read again from the start, rows twice.",
    seeds(faults=replace(CRASHES, message_delayed=0.5)),
)
def a_split_on_its_way_is_forgotten(plant: Planting) -> None:
    def wrong(original: Any, self: SplitAssigner, progress: Any) -> SourceState:
        return original(replace(self, open=()), progress)

    plant.method(SplitAssigner, "fold", wrong)


@mutant(
    "T6",
    "A finished split is reported once; the checkpoint it was in is given up: rows twice.",
    seeds(68, faults=GIVEN_UP_THEN_CRASHED),
)
def finished_splits_are_reported_once(plant: Planting) -> None:
    def wrong(original: Any, self: SourceOperator, checkpoint: CheckpointId) -> Any:
        state = original(self, checkpoint)
        self._finished.completed(checkpoint)
        return state

    plant.method(SourceOperator, "snapshot", wrong)


@mutant("T34", "A restored split is opened at its beginning: rows twice.", seeds(faults=CRASHES))
def a_restored_split_starts_at_its_beginning(plant: Planting) -> None:
    def wrong(original: Any, self: SplitAssigner, *args: Any) -> Any:
        again = tuple(msgspec.structs.replace(one, position=None) for one in self.returning)
        return original(replace(self, returning=again), *args)

    plant.method(SplitAssigner, "assign", wrong)


@mutant("T35", "An assignment that is delivered twice is taken twice: rows twice.", seeds(faults=REPEATS))
def a_repeated_assignment_is_taken_twice(plant: Planting) -> None:
    def wrong(original: Any, self: SourceOperator, message: AssignSplits, now_ms: float) -> None:
        self._known.clear()
        self._accept(message, now_ms)

    plant.method(SourceOperator, "assign", wrong)


@mutant("T19", "The query ends when all input is read, without a last checkpoint: rows lost.", seeds(faults=Faults()))
def the_final_checkpoint_is_skipped(plant: Planting) -> None:
    def wrong(original: Any, plan: CheckpointPlan, run: Running, event: Any) -> Turn:
        after, effects, leave = original(plan, run, event)
        readers = len(plan.sources) * plan.parallelism
        return after, effects, Complete() if 0 < readers == len(after.exhausted) else leave

    plant.function(coordinator.advance, wrong)


@mutant("T18", "The first reader that ends ends the query: rows of the others lost.", seeds(faults=Faults()))
def one_exhausted_reader_counts_for_all(plant: Planting) -> None:
    def wrong(original: Any, plan: CheckpointPlan, run: Running, event: Any) -> Turn:
        if run.exhausted:
            everyone = frozenset((source, slot) for source in plan.sources for slot in plan.slots)
            run = replace(run, exhausted=everyone)
        return original(plan, run, event)

    plant.function(coordinator.advance, wrong)


@mutant(
    "T20",
    "A sink commits at the end of its input, without a checkpoint; another subtask fails: rows twice.",
    seeds(12, faults=CRASHES),
)
def a_sink_commits_at_the_end_of_input(plant: Planting) -> None:
    def wrong(original: Any, self: Chain, start: int = 0) -> Any:
        yield from original(self, start)
        for link in self.links:
            if isinstance(sink := link.operator, SinkOperator):
                writer = sink._writer
                assert isinstance(writer, SimulatedWriter)
                prepared = writer.prepare(END)
                writer.settle(END)
                for payload in prepared:
                    writer._outside._commit_one(msgspec.msgpack.decode(payload, type=Transaction))

    plant.method(Chain, "end", wrong)
