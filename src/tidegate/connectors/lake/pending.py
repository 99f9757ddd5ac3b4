"""Which committables a table has yet to learn of."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tidegate.connectors.lake.memory import is_newer
from tidegate.connectors.lake.storage import TableStorage
from tidegate.model.errors import CorruptSnapshot
from tidegate.model.snapshot import Committable, Published


def newer(
    committables: tuple[Committable, ...],
    than: Published | None,
    epoch_of: Callable[[Committable], Published],
    *,
    whole: bool,
) -> tuple[Committable, ...]:
    """Those published after ``than``, in order. ``whole``: of the newest checkpoint alone, if that is newer.

    Attempts and checkpoints only grow, and a manifest carries everything before it that is not confirmed. So a table that has one
    checkpoint has all before it, whoever committed them.
    """
    pending = sorted((one for one in committables if is_newer(epoch_of(one), than)), key=lambda one: one.place)
    return tuple(one for one in pending if not whole or one.checkpoint == pending[-1].checkpoint)


def refuse_lost(storage: TableStorage, table: str, locations: Sequence[str]) -> None:
    """A table that names a file which is not there cannot be read any more: better no commit at all."""
    sizes = storage.sizes_bytes(locations)
    lost = [location for location, size in zip(locations, sizes, strict=True) if size is None]
    if lost:
        raise CorruptSnapshot(
            f"{len(lost)} data file(s) of {table} were prepared by a completed checkpoint and are gone, the first is {lost[0]}",
            hint="a clean-up of the table (VACUUM, remove_orphan_files) took them before they were committed: bring them "
            "back, or accept the loss and start from a new checkpoint location",
        )
