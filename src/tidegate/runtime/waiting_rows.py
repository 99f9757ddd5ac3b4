"""Rows that wait to be sent, and how frames are put together."""

from __future__ import annotations

from dataclasses import dataclass, field

import polars as pl


@dataclass(slots=True)
class WaitingRows:
    """Frames that become one batch when they leave; put together only then."""

    frames: list[pl.DataFrame] = field(default_factory=list)
    rows: int = 0
    size_bytes: int = 0

    def add(self, rows: pl.DataFrame, size_bytes: int) -> None:
        self.frames.append(rows)
        self.rows += rows.height
        self.size_bytes += size_bytes

    def frame(self) -> pl.DataFrame:
        return concatenate(self.frames)

    def cut(self, rows: int) -> WaitingRows:
        """Splits off the first ``rows``, by reference."""
        whole = self.frame()
        size_bytes = self.size_bytes * rows // self.rows
        first = WaitingRows([whole.head(rows)], rows, size_bytes)
        self.frames, self.rows, self.size_bytes = [whole.slice(rows)], self.rows - rows, self.size_bytes - size_bytes
        return first


def concatenate(frames: list[pl.DataFrame]) -> pl.DataFrame:
    """One frame of several, at least one; a single one is not copied."""
    return frames[0] if len(frames) == 1 else pl.concat(frames, how="vertical", rechunk=True)
