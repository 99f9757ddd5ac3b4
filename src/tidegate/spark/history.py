"""The history of a pipeline's checkpoints, kept in its location: it outlives the job and is read without one.

A segment holds all of it, at most ``RECORDS_MAX`` records. The next segment replaces it: created whole under the next number,
then the old one is deleted. Nothing depends on a segment, so a store that fails or a damaged one costs a warning.
"""

from __future__ import annotations

import logging
import threading
import time

import msgspec

from tidegate.checkpoint.layout import HISTORY_PREFIX, history_key, history_number
from tidegate.checkpoint.manifest import decode, encode
from tidegate.checkpoint.statistics import CheckpointReport, Outcome
from tidegate.model.errors import CorruptSnapshot, InvalidQuery, TidegateError
from tidegate.ports.store import BlobStore, Created
from tidegate.spark.clock import monotonic_ms
from tidegate.spark.lanes import Lane
from tidegate.spark.records import CheckpointRecord, merged, record_of

log = logging.getLogger("tidegate.history")

WRITE_INTERVAL_MS = 10_000
CLOSE_TIMEOUT_S = 2.0
CREATE_TRIES_MAX = 100
"""Numbers taken by others: by a fenced driver that writes a last time, for instance."""


class Segment(msgspec.Struct, frozen=True, kw_only=True, tag_field="format", tag="history/1"):
    records: tuple[CheckpointRecord, ...] = ()


def read_history(store: BlobStore) -> tuple[CheckpointRecord, ...]:
    """The last checkpoints of the pipeline, oldest first. A damaged segment is left out, with a warning.

    Raises ``Unavailable`` when the store does not answer.
    """
    return _read(store)[0]


def _read(store: BlobStore) -> tuple[tuple[CheckpointRecord, ...], tuple[int, ...]]:
    """All records, and the numbers of all segments. More than one segment is normal: a driver may die between two steps."""
    numbers = sorted(number for key in store.list(HISTORY_PREFIX) if (number := history_number(key)) is not None)
    records: list[CheckpointRecord] = []
    for number in numbers:
        key = history_key(number)
        data = store.read(key)
        if data is None:
            continue  # Replaced since it was listed: what replaced it holds its records, and so does the next look.
        try:
            records.extend(decode(Segment, key, data).records)
        except (CorruptSnapshot, InvalidQuery) as damage:
            log.warning("a part of the history is left out: %s", damage.message)
    return merged(records), tuple(numbers)


class HistoryKeeper:
    """Takes reports from the job master's loop, shows them to any thread, and writes them in a lane of its own.

    It never raises and never waits, except in ``close``.
    """

    def __init__(self, store: BlobStore, name: str) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._records: tuple[CheckpointRecord, ...] = ()
        self._mine: set[int] = set()
        """Segments that the next one replaces: those found at the start and our own, never one that a successor wrote."""
        self._next = 1
        self._loaded = False
        self._dirty = False
        self._written_ms = monotonic_ms()
        self._lane = Lane(f"tidegate-history-{name}")
        self._closed = threading.Event()
        self._lane.do(self._load)

    @property
    def records(self) -> tuple[CheckpointRecord, ...]:
        """Oldest first; those of earlier runs come first."""
        with self._lock:
            return self._records

    def on_report(self, report: CheckpointReport) -> None:
        """``report``: all that is known of the checkpoint by now."""
        record = record_of(report, time.time() * 1000, monotonic_ms())
        with self._lock:
            self._records = merged((*self._records, record))
            self._dirty = True
        if report.outcome is Outcome.FAILED:
            self._lane.do(self._write)

    def on_clock(self, now_ms: int) -> None:
        if self._dirty and now_ms >= self._written_ms + WRITE_INTERVAL_MS:
            self._written_ms = now_ms
            self._lane.do(self._write)

    def close(self, *, write: bool = True) -> None:
        """Writes what is new, unless told not to. Returns when that is done, or the store has not answered for long."""
        if write:
            self._lane.do(self._write)
        self._lane.do(self._closed.set)
        self._lane.stop()
        if not self._closed.wait(CLOSE_TIMEOUT_S):
            log.warning("the store did not take the last of the history in %s s", CLOSE_TIMEOUT_S)

    # --- in the lane ---------------------------------------------------------------------------------------------------

    def _load(self) -> None:
        try:
            found, numbers = _read(self._store)
        except (TidegateError, OSError) as failure:
            log.warning("the history of earlier runs cannot be read: %s", str(failure).splitlines()[0])
            return
        self._loaded = True
        self._mine = set(numbers)
        self._next = max(numbers, default=0) + 1
        with self._lock:
            self._records = merged((*found, *self._records))

    def _write(self) -> None:
        if not self._loaded:
            self._load()
        with self._lock:
            if not self._dirty or not self._loaded:
                return
            records, self._dirty = self._records, False
        try:
            self._replace(encode(Segment(records=records)))
        except (TidegateError, OSError) as failure:
            self._dirty = True
            log.warning("the history cannot be written: %s", str(failure).splitlines()[0])

    def _replace(self, data: bytes) -> None:
        for _ in range(CREATE_TRIES_MAX):
            number, self._next = self._next, self._next + 1
            # Also when the store does not say whether it was made: then the next segment replaces this one, too.
            self._mine.add(number)
            if isinstance(self._store.create(history_key(number), data), Created):
                for old in sorted(self._mine - {number}):
                    self._store.delete(history_key(old))
                    self._mine.discard(old)
                return
            self._mine.discard(number)
        log.warning("the history was not written: %s numbers in a row are taken", CREATE_TRIES_MAX)
