"""A piece of keyed state on its way to storage and back. Columns: ``kg`` (key group), ``k0 …``, ``v0 …``, maybe ``deleted``."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from tidegate.model.snapshot import ChunkHandle, KeyGroupRange


@dataclass(frozen=True, slots=True)
class NewChunk:
    """Rows of keyed state to be stored in the background. ``rows`` never changes again."""

    rows: pl.DataFrame
    groups: KeyGroupRange


@dataclass(frozen=True, slots=True)
class RestoredChunk:
    """A stored chunk, decoded and cut to the key groups of this subtask."""

    handle: ChunkHandle
    rows: pl.DataFrame
