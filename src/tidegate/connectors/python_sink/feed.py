"""The user's ``write(iterator)`` beside the loop of a slot: rows are pushed in as they come, his thread pulls them out."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator

import polars as pl

FRAMES_MAX = 4
"""Batches that wait for the user's code; then the slot waits, and with it the query: a slow sink slows the source."""
_LOOK_S = 0.05


class Abandoned(BaseException):
    """Raised inside the user's iterator when the attempt has ended: his ``finally`` runs, his ``except Exception`` does not."""


class Feed:
    """One call of ``write``: begun by the first rows after a barrier, ended by the next barrier."""

    def __init__(self, write: Callable[[Iterator[pl.DataFrame]], object], name: str) -> None:
        """``write`` gets an iterator of frames. It runs in a thread of its own."""
        self._frames: queue.Queue[pl.DataFrame | None] = queue.Queue(FRAMES_MAX)
        self._abandoned = threading.Event()
        self._result: object = None
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, args=(write,), name=name, daemon=True)
        self._thread.start()

    def put(self, rows: pl.DataFrame) -> None:
        """Waits while the user's code is behind. Raises what it raised. Rows that it did not ask for any more are dropped, as in Spark."""
        self._push(rows)
        self._raise()

    def finish(self) -> object:
        """No more rows: what ``write`` returned."""
        self._push(None)
        self._thread.join()
        self._raise()
        return self._result

    def abandon(self, timeout_s: float) -> bool:
        """The rows are not wanted. Whether the user's code has ended: code that never looks at its iterator cannot be stopped."""
        self._abandoned.set()
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _push(self, item: pl.DataFrame | None) -> None:
        while self._thread.is_alive():
            try:
                self._frames.put(item, timeout=_LOOK_S)
                return
            except queue.Full:
                continue

    def _raise(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _run(self, write: Callable[[Iterator[pl.DataFrame]], object]) -> None:
        try:
            self._result = write(self._pulled())
        except Abandoned:
            pass  # Nobody waits for a result.
        except BaseException as failure:  # noqa: BLE001  it must reach the slot, whatever it is
            self._failure = failure

    def _pulled(self) -> Iterator[pl.DataFrame]:
        while True:
            try:
                frame = self._frames.get(timeout=_LOOK_S)
            except queue.Empty:
                frame = None
                if not self._abandoned.is_set():
                    continue
            if self._abandoned.is_set():
                raise Abandoned
            if frame is None:
                return
            yield frame
