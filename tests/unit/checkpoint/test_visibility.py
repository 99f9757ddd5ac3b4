"""Sinks of one pipeline are asked each for itself, and the answer says what is left of each."""

from __future__ import annotations

from tests.unit.checkpoint.scenario import ONE, committable

from tidegate.checkpoint.effects import CommitSinks
from tidegate.checkpoint.events import SinksCommitted, SinksFailed
from tidegate.checkpoint.visibility import perform_commit
from tidegate.model.errors import CorruptSnapshot, TidegateError, Unavailable
from tidegate.model.ids import CheckpointId, OperatorId
from tidegate.model.snapshot import Committable, HandedBack

A, B, C = (OperatorId(name) for name in "abc")
FIRST, SECOND = committable(1, 0), committable(1, 1)
COMMIT = CommitSinks(ONE, CheckpointId(1), tuple((sink, (FIRST, SECOND)) for sink in (A, B, C)))


def asked(moods: dict[OperatorId, HandedBack | TidegateError]) -> tuple[SinksCommitted | SinksFailed, list[OperatorId]]:
    seen: list[OperatorId] = []

    def ask(sink: OperatorId, committables: tuple[Committable, ...]) -> HandedBack | None:
        assert committables == (FIRST, SECOND)
        seen.append(sink)
        mood = moods.get(sink)
        if isinstance(mood, TidegateError):
            raise mood
        return mood

    return perform_commit(COMMIT, ask, lambda: 7), seen


def test_sinks_that_return_nothing_are_done() -> None:
    assert asked({}) == (SinksCommitted(7, ONE, CheckpointId(1)), [A, B, C])
    assert asked({B: HandedBack((), Unavailable("nothing"))})[0] == SinksCommitted(7, ONE, CheckpointId(1))


def test_a_sink_that_raises_keeps_no_other_from_being_asked() -> None:
    """T3: what is left is all of the one that raised, and what the other one handed back."""
    answer, seen = asked({A: Unavailable("away"), C: HandedBack((SECOND,), Unavailable("busy", hint="wait"))})
    assert seen == [A, B, C]
    assert isinstance(answer, SinksFailed)
    assert answer.left == ((A, (FIRST, SECOND)), (C, (SECOND,)))
    assert answer.failure.message == "away; busy"
    assert answer.failure.retryable


def test_what_repeating_cannot_mend_decides() -> None:
    answer, _ = asked({A: HandedBack((SECOND,), Unavailable("busy")), B: CorruptSnapshot("lost", hint="bring it back")})
    assert isinstance(answer, SinksFailed)
    assert not answer.failure.retryable
    assert answer.failure.code == CorruptSnapshot.code
    assert answer.failure.hint == "bring it back"
