"""Threads for work that blocks. A lane does one thing after the other, in the order it was asked."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable


class Lane:
    """A daemon thread: a store that never answers must not keep the interpreter alive."""

    def __init__(self, name: str) -> None:
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def do(self, job: Callable[[], None]) -> None:
        """``job`` must not raise: it reports its outcome, whatever it is, to whoever waits for it."""
        self._jobs.put(job)

    def stop(self) -> None:
        """Ends the thread after what was asked before. Does not wait for it."""
        self._jobs.put(None)

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()
