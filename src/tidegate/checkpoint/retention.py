"""What may be deleted, and in which order. Planned completely before the first delete; references decide, never ages.

Nothing here is counted up and down: what is needed is always derived from the manifests that are kept, so a restart or
a half-finished cleanup cannot make a count wrong.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tidegate.checkpoint import layout
from tidegate.checkpoint.layout import ManifestRef
from tidegate.checkpoint.manifest import Manifest
from tidegate.model.ids import Attempt, CheckpointId

BEFORE_ALL = ManifestRef(CheckpointId(0), Attempt(0))


@dataclass(frozen=True, slots=True)
class Kept:
    """A checkpoint of the lineage whose manifest is in the store."""

    ref: ManifestRef
    chunks: frozenset[str]


@dataclass(frozen=True, slots=True)
class Abandoned:
    """A checkpoint of this attempt that was given up. Its manifest may exist all the same, or appear later."""

    ref: ManifestRef
    chunks: frozenset[str]
    since: ManifestRef | None = None
    """Its manifest was sent to the store: it names chunks of this completed checkpoint or of later ones. None: it was not."""


@dataclass(frozen=True, slots=True)
class Pins:
    """Completed checkpoints that stay, however old: somebody builds upon them or copies them."""

    since: ManifestRef | None = None
    """The oldest one a checkpoint in flight may build upon; all later ones stay as well."""
    exported: frozenset[ManifestRef] = frozenset()

    def hold(self, ref: ManifestRef) -> bool:
        return (self.since is not None and ref >= self.since) or ref in self.exported


NOTHING_PINNED = Pins()


@dataclass(frozen=True, slots=True)
class Retention:
    """``kept``: oldest first; the last one is the newest checkpoint that passed its look, and always stays."""

    kept: tuple[Kept, ...] = ()
    abandoned: tuple[Abandoned, ...] = ()
    garbage: tuple[str, ...] = ()
    """Keys to delete in the next round, oldest first."""

    def completed(self, manifest: Manifest) -> Retention:
        """A checkpoint passed its look."""
        return replace(self, kept=(*self.kept, Kept(manifest.ref, manifest.chunk_keys())))

    def gave_up(self, ref: ManifestRef, chunks: frozenset[str], since: ManifestRef | None = None) -> Retention:
        """A checkpoint was aborted, or an acknowledgement for one came too late."""
        known = next((one for one in self.abandoned if one.ref == ref), None)
        if known is not None and chunks <= known.chunks and since is None:
            return self
        others = tuple(one for one in self.abandoned if one.ref != ref)
        before = known or Abandoned(ref, frozenset())
        merged = Abandoned(ref, chunks | before.chunks, since or before.since)
        return replace(self, abandoned=tuple(sorted((*others, merged), key=lambda one: one.ref)))

    def newest(self) -> CheckpointId:
        return self.kept[-1].ref.checkpoint if self.kept else CheckpointId(0)

    def chunks_since(self, base: ManifestRef | None) -> frozenset[str]:
        """All chunks of ``base`` and of the checkpoints completed after it; None: of all."""
        return frozenset[str]().union(*(one.chunks for one in self.kept if base is None or one.ref >= base))

    def plan_round(self, retained: int, pins: Pins = NOTHING_PINNED, *, by_reference: bool = True) -> Retention:
        """Move everything that has become deletable into ``garbage``; exactly ``retained`` checkpoints stay, and those pinned.

        An abandoned checkpoint goes once a later one is complete: until then its manifest, should it have landed, is
        the best restore point, and all that it builds upon stays. A chunk goes when a retired or abandoned checkpoint named it and no kept one does:
        every later checkpoint is built upon a kept one, so it can never be named again.
        """
        over = tuple(one for one in self.abandoned if one.ref.checkpoint < self.newest())
        bases = [one.since for one in self.abandoned if one not in over and one.since is not None]
        recent = self.kept[-retained:]
        kept = tuple(
            one for one in self.kept if one in recent or pins.hold(one.ref) or any(one.ref >= base for base in bases)
        )
        retired = tuple(one for one in self.kept if one not in kept)
        needed = frozenset[str]().union(*(one.chunks for one in kept)) if by_reference else frozenset[str]()
        garbage = dict.fromkeys(self.garbage)
        gone: list[Kept | Abandoned] = sorted((*retired, *over), key=lambda one: one.ref)
        for one in gone:
            # The manifest first: one that outlived its chunks would look like damage.
            garbage[layout.manifest_key(one.ref)] = None
            garbage[layout.committed_key(one.ref)] = None
        for one in gone:
            garbage.update(dict.fromkeys(sorted(one.chunks - needed)))
        return Retention(
            kept=kept,
            abandoned=tuple(one for one in self.abandoned if one not in over),
            garbage=tuple(key for key in garbage if key not in needed),
        )

    def round_done(self, untried: tuple[str, ...], undeletable: tuple[str, ...]) -> Retention:
        """What was left over comes first in the next round; what cannot be deleted comes last and blocks nothing."""
        return replace(self, garbage=tuple(dict.fromkeys((*untried, *undeletable))))


def from_lineage(lineage: tuple[Manifest, ...], garbage: tuple[str, ...]) -> Retention:
    """Retention after a restore, rebuilt from manifests alone. ``lineage``: newest first."""
    return Retention(
        kept=tuple(Kept(manifest.ref, manifest.chunk_keys()) for manifest in reversed(lineage)), garbage=garbage
    )
