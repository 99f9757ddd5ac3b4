"""Waiting until a running query has read everything that is there."""

from __future__ import annotations

import logging
from collections.abc import Callable

from tidegate.model.ids import OperatorId
from tidegate.spark.clock import monotonic_ms
from tidegate.spark.driver import JobMaster
from tidegate.spark.holding import in_words
from tidegate.spark.status import JobSnapshot

ANSWER_TIMEOUT_S = 1.0
"""A slot inside a long call of a user function answers late; one that was replaced never does, and its successor is asked."""
PAUSE_S = 0.02
SLOW_MS = 10_000
"""Whoever waits longer wants to know for what."""

log = logging.getLogger("tidegate")


def wait_until_read(
    master: JobMaster,
    sources: frozenset[OperatorId],
    parallelism: int,
    clock: Callable[[], int] = monotonic_ms,
) -> None:
    """Returns when the sources have emitted everything that was there at the call, and told the time that it makes; or when the query
    has ended. Whoever takes a checkpoint then sees the windows that are closed by it.

    What was there is found by a look that begins after the call, given to slots by the coordinator that knows of it, and read by
    readers that were polled after the call: so nothing can be between two chairs when all of them say that nothing is left. Event
    time waits for a look that finds nothing more: the one that follows.
    """
    remind = _reminder(master, clock)
    _look(master, remind)
    poll, seen = True, None
    while not master.ended.is_set():
        remind()
        number = master.ask_reports(poll=poll)
        now = _answers(master, number, parallelism)
        if now is None:
            poll, seen = True, None
            continue
        poll = False
        idle = not now.unassigned and all(sources <= set(slot.idle_sources) for slot in now.slots.values())
        if idle and not now.resting:
            _look(master, remind)
            idle = False
        rows = [metrics.rows_out for metrics in now.operators().values()]
        if idle and rows == seen:
            return
        seen = rows if idle else None
        if not idle:
            master.ended.wait(PAUSE_S)


def _reminder(master: JobMaster, clock: Callable[[], int]) -> Callable[[], None]:
    """Says, once in a while, who keeps everybody waiting."""
    since_ms = said_ms = clock()

    def remind() -> None:
        nonlocal said_ms
        now_ms = clock()
        if now_ms < said_ms + SLOW_MS:
            return
        said_ms = now_ms
        holds = master.holds
        why = f"event time is held back by {in_words(holds[0].holder)}" if holds else "rows are still coming"
        log.info("processAllAvailable() has waited for %d s: %s", (now_ms - since_ms) // 1_000, why)

    return remind


def _look(master: JobMaster, remind: Callable[[], None]) -> None:
    """Waits for a round of discovery; for one of the next attempt when this one ends before."""
    asked, done = None, None
    while not master.ended.is_set():
        remind()
        discovery = master.discovery
        if discovery is not None and discovery is not asked:
            asked, done = discovery, discovery.look()
        if done is None:
            master.ended.wait(PAUSE_S)
        elif done.wait(PAUSE_S):
            return


def _answers(master: JobMaster, number: int, parallelism: int) -> JobSnapshot | None:
    """The status when every slot has answered request ``number``; None: some slot does not."""

    def answered() -> bool:
        now = master.status.peek()
        heard = sum(slot.answers >= number for slot in now.slots.values())
        return master.ended.is_set() or (now.asked >= number and heard == parallelism)

    with master.status.changed:
        if not master.status.changed.wait_for(answered, ANSWER_TIMEOUT_S):
            return None
        return None if master.ended.is_set() else master.status.peek()
