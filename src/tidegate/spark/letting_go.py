"""What sources hear besides the questions for new input: how much of theirs is done, and that the attempt is over.

A source that acknowledges may let go of what it has heard to be done, and one that holds a connection frees it when it is closed. Both
are the user's code: it runs in the thread that looks into the source, never beside a look.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from tidegate.model.ids import Attempt, OperatorId
from tidegate.ports.source import SplitEnumerator

log = logging.getLogger("tidegate")

CLOSE_S = 5.0
"""Whoever is inside a long look is waited for no longer."""


@contextmanager
def opened(enumerator: SplitEnumerator) -> Iterator[SplitEnumerator]:
    """A source that is asked something before anything runs, and closed."""
    try:
        yield enumerator
    finally:
        enumerator.close()


class LettingGo:
    def __init__(self, attempt: Attempt) -> None:
        self._attempt = attempt
        self._lock = threading.Lock()
        self._below: dict[OperatorId, int] = {}
        self._bells: dict[OperatorId, threading.Event] = {}
        """Of sources that have told everything: rung when there is something to hear."""
        self._open: set[OperatorId] = set()
        self._all_closed = threading.Event()
        self._stopping = False

    def opened(self, enumerators: Iterable[tuple[OperatorId, SplitEnumerator]]) -> None:
        """All sources of the attempt, before anything is asked of them."""
        self._open = {operator for operator, one in enumerators if one.holds}
        if not self._open:
            self._all_closed.set()

    def done(self, operator: OperatorId, below: int) -> None:
        """The output of all splits under ``below`` is visible. From any thread."""
        with self._lock:
            self._below[operator] = below
            bell = self._bells.get(operator)
        if bell is not None:
            bell.set()

    def stop(self) -> None:
        """The attempt is over. From any thread."""
        with self._lock:
            self._stopping = True
            bells = set(self._bells.values())
        for bell in bells:
            bell.set()

    def wait_closed(self) -> None:
        """After ``stop``: until every source has heard what is done, and is closed."""
        if not self._all_closed.wait(CLOSE_S):
            with self._lock:
                sources = ", ".join(sorted(self._open))
            log.warning("%s: not closed %g s after the end of attempt %s", sources, CLOSE_S, self._attempt)

    def tell(self, operator: OperatorId, enumerator: SplitEnumerator) -> None:
        """In the thread that looks into the source: what it has not heard yet. Raises whatever the source raises."""
        with self._lock:
            below = self._below.pop(operator, None)
        if below is not None:
            enumerator.forget(below)

    def attend(self, enumerators: list[tuple[OperatorId, SplitEnumerator]]) -> None:
        """In their thread, when it has no more to ask: tells what is done until the attempt is over."""
        bell = threading.Event()
        with self._lock:
            self._bells |= {operator: bell for operator, _ in enumerators}
            stopping = self._stopping
        while not stopping:
            for operator, enumerator in enumerators:
                self.tell(operator, enumerator)
            bell.wait()
            bell.clear()
            stopping = self._stopping

    def close(self, enumerators: list[tuple[OperatorId, SplitEnumerator]]) -> None:
        """In their thread, which ends: the last that is done, then the end. What fails now is of no query any more."""
        for operator, enumerator in enumerators:
            try:
                self.tell(operator, enumerator)
                enumerator.close()
            except Exception:
                log.warning("%s failed when attempt %s was over", operator, self._attempt, exc_info=True)
            with self._lock:
                self._open.discard(operator)
                closed = not self._open
            if closed:
                self._all_closed.set()
