"""A checkpoint of very many subtasks, in counted work: no clock, so no machine is too busy for it."""

from __future__ import annotations

import pytest

from tidegate.checkpoint import coordinator, flight
from tidegate.checkpoint.plan import CheckpointPlan
from tidegate.checkpoint.running import Collecting, Running, Turn
from tidegate.model.messages import SubtaskAcked
from tidegate.testing.simulation.wide import GROWTH_MAX, count_work

FEW, MANY = 100, 1_000


def test_the_work_of_a_checkpoint_grows_with_the_number_of_subtasks_and_no_faster() -> None:
    few, many = count_work(FEW), count_work(MANY)
    assert few > 10 * FEW, "the coordinator was not counted"
    assert many / MANY < GROWTH_MAX * few / FEW


def test_the_count_sees_a_coordinator_that_goes_through_all_acknowledgements_for_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    right = flight.on_ack

    def scanning(plan: CheckpointPlan, run: Running, ack: SubtaskAcked) -> Turn:
        match run.flight(ack.checkpoint):
            case Collecting(taken) if any(known.subtask == ack.subtask for known in taken.acks):
                return run, (), None
            case _:
                return right(plan, run, ack)

    # Counted as if it stood there.
    monkeypatch.setattr("tidegate.testing.simulation.wide.COUNTED", (flight.__file__.rpartition("/")[0], __file__))
    monkeypatch.setattr(coordinator.flight, "on_ack", scanning)
    assert count_work(MANY) / MANY > GROWTH_MAX * count_work(FEW) / FEW
