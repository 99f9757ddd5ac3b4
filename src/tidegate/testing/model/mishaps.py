"""What becomes of a checkpoint location through nobody's step: files rot and vanish, its newest manifest is lost, an older copy takes its place."""

from __future__ import annotations

from collections.abc import Iterator

from tidegate.checkpoint import layout
from tidegate.checkpoint.manifest import Manifest
from tidegate.testing.model import world as w
from tidegate.testing.model.interning import Interner
from tidegate.testing.model.world import Bounds, Document, World


def mishaps(bounds: Bounds, box: Interner, world: World) -> Iterator[tuple[str, World]]:
    """Each with the world that it leaves behind, in a fixed order."""
    yield from _damages(box, world)
    yield from _losses(box, world)
    yield from _set_backs(bounds, world)


def _damages(box: Interner, world: World) -> Iterator[tuple[str, World]]:
    if world.budget.damages == 0:
        return
    less = world._replace(budget=world.budget._replace(damages=world.budget.damages - 1))
    for entry in sorted(world.store.value, key=lambda one: one.number):
        key, document = entry.value
        rest = world.store.value - {entry}
        match layout.parse(key), document:
            case layout.ManifestKey(), Manifest():
                rotten: tuple[str, Document] = (key, w.Damaged())
                yield f"{key} rots", less._replace(store=box(rest | {box(rotten)}))
            case layout.ChunkKey(), _:
                yield f"{key} vanishes", less._replace(store=box(rest))
            case _:
                continue


def _losses(box: Interner, world: World) -> Iterator[tuple[str, World]]:
    """The newest manifest of a pipeline is gone, while nobody runs it and nothing of it is on its way any more."""
    if world.budget.losses == 0 or not _rests(world):
        return
    less = world._replace(budget=world.budget._replace(losses=world.budget.losses - 1))
    stored = {key: entry for entry in world.store.value for key in (layout.parse(entry.value[0]),)}
    newest = max((key for key in stored if isinstance(key, layout.ManifestKey)), default=None)
    if newest is not None:
        gone = stored[newest]
        yield f"{gone.value[0]} is lost", less._replace(store=box(world.store.value - {gone}))


def _set_backs(bounds: Bounds, world: World) -> Iterator[tuple[str, World]]:
    """Somebody copies the location, whatever happens there right now; later, while nobody runs it, the copy takes its place."""
    if world.budget.set_backs == 0:
        return
    if world.copy is None:
        if not (bounds.early_copies and world.drivers):
            yield "somebody copies the location", world._replace(copy=world.store)
    elif world.copy != world.store and _rests(world):
        less = world.budget._replace(set_backs=world.budget.set_backs - 1)
        yield "an older copy takes its place", world._replace(store=world.copy, copy=None, budget=less)


def _rests(world: World) -> bool:
    return not world.late.value and not any(world.drivers)
