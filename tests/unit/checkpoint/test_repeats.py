"""Messages that get lost between the driver and its slots."""

from __future__ import annotations

from tests.unit.checkpoint.scenario import PLAN, READ, WRITE, Scenario, ack, chunk, only

from tidegate.checkpoint import effects as ef
from tidegate.checkpoint.effects import Effect
from tidegate.model.ids import Attempt, CheckpointId
from tidegate.model.messages import (
    CheckpointAborted,
    CheckpointCommitted,
    CheckpointCompleted,
    SlotMessage,
    SubtaskDeclined,
    TriggerCheckpoint,
)

REPEAT_MS = PLAN.config.message_repeat_ms


def sent(effects: tuple[Effect, ...]) -> list[tuple[SlotMessage, tuple[int, ...] | None]]:
    return [(effect.message, effect.slots) for effect in only(effects, ef.SendToSlots)]


def test_a_trigger_is_repeated_to_the_slots_that_have_not_acknowledged_everything() -> None:
    run = Scenario().run_up()
    checkpoint = run.trigger()
    run.said(ack(checkpoint, READ[0]), ack(checkpoint, WRITE[0]), ack(checkpoint, WRITE[1]))
    again = run.tick(REPEAT_MS)
    assert [(type(message), slots) for message, slots in sent(again)] == [(TriggerCheckpoint, (1,))]
    assert again[0].message.checkpoint == checkpoint  # type: ignore[union-attr]
    assert sent(run.tick(REPEAT_MS - 1)) == []
    assert len(sent(run.tick(1))) == 1
    run.said(ack(checkpoint, READ[1]))
    assert sent(run.tick(REPEAT_MS)) == []


def test_a_repeated_trigger_does_not_move_the_timeout() -> None:
    run = Scenario().run_up()
    run.trigger()
    for _ in range(5):
        run.tick(REPEAT_MS)
    assert run.last(ef.ReportCheckpoint).report.duration_ms == 10_000


def test_a_slot_that_repeats_an_ack_of_a_completed_checkpoint_hears_that_it_is_complete_and_committed() -> None:
    run = Scenario().run_up()
    for _ in range(4):
        run.complete()
    base = CheckpointId(4)
    for checkpoint in (4, 1):
        assert sent(run.said(ack(checkpoint, READ[1]))) == [
            (CheckpointCompleted(attempt=Attempt(1), checkpoint=base), (1,)),
            (CheckpointCommitted(attempt=Attempt(1), checkpoint=base), (1,)),
        ]


def test_a_slot_that_speaks_of_a_checkpoint_given_up_hears_that_it_was() -> None:
    run = Scenario().run_up()
    checkpoint = run.trigger()
    run.tick(10_000)
    aborted = [(CheckpointAborted(attempt=Attempt(1), checkpoint=checkpoint), (0,))]
    assert sent(run.said(ack(checkpoint, READ[0]))) == aborted
    declined = SubtaskDeclined(
        attempt=Attempt(1), slot=READ[0].index, subtask=READ[0], checkpoint=checkpoint, reason="not ready"
    )
    assert sent(run.said(declined)) == aborted


def test_a_checkpoint_restored_from_is_no_answer_to_a_slot_of_this_attempt() -> None:
    """It belongs to an earlier attempt; what this attempt gave up was given up."""
    run = Scenario().run_up()
    run.complete()
    again = run.successor().run_up()
    checkpoint = again.trigger()
    again.tick(10_000)
    assert sent(again.said(ack(checkpoint, READ[0], attempt=2))) == [
        (CheckpointAborted(attempt=Attempt(2), checkpoint=checkpoint), (0,))
    ]


def test_a_checkpoint_that_failed_because_a_notice_was_lost_has_it_sent_again() -> None:
    """Else the next one would name the same chunk, and the one after it."""
    run = Scenario().run_up()
    run.complete()
    checkpoint = run.trigger()
    run.said(*(ack(checkpoint, one) for one in (*READ, WRITE[0])))
    effects = run.said(ack(checkpoint, WRITE[1], chunks=[chunk(1, 9)]))
    completed = CheckpointCompleted(attempt=Attempt(1), checkpoint=CheckpointId(1))
    assert {slots for message, slots in sent(effects) if message == completed} == {(0,), (1,)}
