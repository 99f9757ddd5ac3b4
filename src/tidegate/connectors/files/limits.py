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


class Batches:
    """Files in reading order, in batches as Spark's source makes them: each is full before the next one begins. One file is always
    allowed, however large."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._files = 0
        self._bytes = 0

    def begins(self, size_bytes: int) -> bool:
        """Whether the next file, of this size, is the first one behind a full batch."""
        too_many = 0 < self._limits.files <= self._files
        too_large = self._files > 0 and 0 < self._limits.bytes < self._bytes + size_bytes
        full = too_many or too_large
        self._files, self._bytes = (1, size_bytes) if full else (self._files + 1, self._bytes + size_bytes)
        return full
