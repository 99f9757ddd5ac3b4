"""A piece of keyed state on its way to storage and back. Columns: ``kg`` (key group), ``k0 …``, ``v0 …``, maybe ``deleted``."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
import polars as pl

from tidegate.model.errors import Bug
from tidegate.model.snapshot import ChunkHandle, KeyGroupRange


class NewChunk:
    """Rows of keyed state to be stored in the background. They are there at once or follow; once there they never change."""

    __slots__ = ("_rows", "groups")

    def __init__(self, rows: pl.DataFrame | None, groups: KeyGroupRange) -> None:
        self._rows = rows
        self.groups = groups

    @property
    def complete(self) -> bool:
        return self._rows is not None

    @property
    def rows(self) -> pl.DataFrame:
        if self._rows is None:
            raise Bug("a state chunk was read before it was captured")
        return self._rows

    def fill(self, rows: pl.DataFrame) -> None:
        if self._rows is not None:
            raise Bug("a state chunk was captured twice")
        self._rows = rows


def cut_to(handle: ChunkHandle, groups: KeyGroupRange) -> ChunkHandle:
    """The same chunk, of which only ``groups`` count."""
    return handle if handle.groups == groups else msgspec.structs.replace(handle, groups=groups)


@dataclass(frozen=True, slots=True)
class RestoredChunk:
    """A stored chunk, decoded and cut to the key groups of this subtask."""

    handle: ChunkHandle
    rows: pl.DataFrame
