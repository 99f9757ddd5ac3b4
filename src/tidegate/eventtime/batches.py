"""``maxFilesPerTrigger`` and ``maxBytesPerTrigger``: how much is read at once, as far as event time is concerned."""

from __future__ import annotations

from typing import NamedTuple


class Limits(NamedTuple):
    """At most one of them is set; 0: no limit."""

    files: int = 0
    bytes: int = 0

    def __bool__(self) -> bool:
        return bool(self.files or self.bytes)


NO_LIMITS = Limits()


class Batch(NamedTuple):
    """What has been put together so far."""

    files: int = 0
    bytes: int = 0

    def with_file(self, size_bytes: int) -> Batch:
        return Batch(self.files + 1, self.bytes + size_bytes)

    def has_room(self, limits: Limits, size_bytes: int) -> bool:
        """One file is always allowed, however large."""
        too_many = 0 < limits.files <= self.files
        too_large = self.files > 0 and 0 < limits.bytes < self.bytes + size_bytes
        return not too_many and not too_large


NO_FILES = Batch()


class Batches:
    """Files in reading order, in batches as Spark's source makes them: each is full before the next one begins.

    A burst is what is found until a look finds nothing. Its batches are counted from its first file: a Spark that looked when we did
    has read what came before, and begins there. Small bursts are put together: who reads slowly finds several of them at once.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._batch = NO_FILES
        """Since the last cut."""
        self._of_burst = NO_FILES
        """… and since the burst has begun."""

    def begins(self, size_bytes: int) -> bool:
        """Whether the next file, of this size, is the first one behind a full batch."""
        full = not (self._of_burst if self._of_burst.files else self._batch).has_room(self._limits, size_bytes)
        if full:
            self._batch = self._of_burst = NO_FILES
        self._batch = self._batch.with_file(size_bytes)
        self._of_burst = self._of_burst.with_file(size_bytes)
        return full

    def rest(self) -> None:
        """A look has found nothing: the next file begins a burst."""
        self._of_burst = NO_FILES

    def resume(self, size_bytes: int, *, cut: bool | None, done: bool) -> bool:
        """A file that was known before a restore, in reading order; returns whether a batch begins with it.

        ``cut``: whether one did; None: nobody knows, or the limits were others. What has been read fills no batch.
        """
        if cut is None:
            return not done and self.begins(size_bytes)
        if cut:
            self._batch = self._of_burst = NO_FILES
        if not done:
            self._batch = self._batch.with_file(size_bytes)
            self._of_burst = self._of_burst.with_file(size_bytes)
        return cut
