"""Reads a file of a store once it is on this machine. Until then there are no rows, and everything else goes on."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl

from tidegate.ports.directory import LocalCopy
from tidegate.ports.source import SplitReader


class RemoteReader(SplitReader):
    """Awaits its file, then hands on to the reader of its format."""

    def __init__(self, url: str, copy: LocalCopy, open_copy: Callable[[], SplitReader | None], start: bytes) -> None:
        """``open_copy``: None while the file is on its way. ``start``: the position where reading begins."""
        self._url = url
        self._copy = copy
        self._open_copy = open_copy
        self._start = start
        self._reader: SplitReader | None = None

    def read(self, rows_max: int, now_ms: int) -> pl.DataFrame | None:
        if self._reader is None:
            self._reader = self._open_copy()
        return None if self._reader is None else self._reader.read(rows_max, now_ms)

    @property
    def position(self) -> bytes:
        return self._start if self._reader is None else self._reader.position

    @property
    def finished(self) -> bool:
        return self._reader is not None and self._reader.finished

    @property
    def awaits_rows(self) -> bool:
        return self._reader is None

    @property
    def caught_up(self) -> bool:
        return self._reader is not None

    def describe(self) -> str:
        return f"{self._url}, on its way" if self._reader is None else self._reader.describe()

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()
        self._copy.discard()
