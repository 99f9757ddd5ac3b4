"""The sinks' half of a coordinator's shell: one ``CommitSinks`` becomes the event that answers it. Blocking, like the sinks.

Sinks of one pipeline are independent: each is asked, whatever became of those before it. Nothing here decides what is tried again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

from tidegate.checkpoint.effects import CommitSinks
from tidegate.checkpoint.events import Failure, SinksCommitted, SinksFailed
from tidegate.checkpoint.storing import failure_of
from tidegate.model.errors import TidegateError
from tidegate.model.ids import OperatorId
from tidegate.model.snapshot import Committable, HandedBack

AskSink: TypeAlias = Callable[[OperatorId, tuple[Committable, ...]], HandedBack | None]
"""``SinkCommitter.commit`` of that sink."""


def perform_commit(effect: CommitSinks, ask: AskSink, now_ms: Callable[[], int]) -> SinksCommitted | SinksFailed:
    left: list[tuple[OperatorId, tuple[Committable, ...]]] = []
    failures: list[Failure] = []
    for sink, committables in effect.committables:
        rest, failure = _asked(ask, sink, committables)
        if failure is not None:
            left.append((sink, rest))
            failures.append(failure)
    if not failures:
        return SinksCommitted(now_ms(), effect.attempt, effect.checkpoint)
    return SinksFailed(now_ms(), effect.attempt, effect.checkpoint, _together(failures), tuple(left))


def _asked(
    ask: AskSink, sink: OperatorId, committables: tuple[Committable, ...]
) -> tuple[tuple[Committable, ...], Failure | None]:
    """What the sink leaves, and why."""
    try:
        handed_back = ask(sink, committables)
    except TidegateError as error:
        return committables, failure_of(error)
    if handed_back is None or not handed_back.committables:
        return (), None
    return handed_back.committables, failure_of(handed_back.trouble)


def _together(failures: Sequence[Failure]) -> Failure:
    """One that repeating cannot mend decides; the words are those of all."""
    worst = next((one for one in failures if not one.retryable), failures[0])
    return replace(worst, message="; ".join(dict.fromkeys(one.message for one in failures)))
