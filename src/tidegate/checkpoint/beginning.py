"""Where a source begins, decided once.

"The latest offset" is another one at every look. So whoever looks into a source first stores what he has found, before anything is
read, in a document that is created once. Every other attempt that goes on from the same checkpoint takes it over: rows that come
between a first start and its first checkpoint are read, however often the query fails in between, and two drivers at once agree.
As soon as a checkpoint knows the source, the document is not looked at any more.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable

import msgspec

from tidegate.checkpoint import layout
from tidegate.checkpoint.layout import IMPORTED, ManifestRef
from tidegate.checkpoint.manifest import Manifest, SourceState, decode, encode
from tidegate.model.errors import CorruptSnapshot
from tidegate.model.ids import CheckpointId, OperatorId
from tidegate.ports.store import BlobStore

FROM_NOTHING = ManifestRef(CheckpointId(0), IMPORTED)
"""No checkpoint is restored."""


class Beginning(msgspec.Struct, frozen=True, kw_only=True, tag_field="format", tag="beginning/1"):
    """Stands for the state of a source that the restored checkpoint does not know."""

    source: OperatorId
    enumerator: bytes
    """What had been discovered when it was decided, in the connector's own document."""


def is_decided(state: SourceState | None) -> bool:
    """A checkpoint may have been taken before the first look into the source: then it does not say where the source begins."""
    return state is not None and bool(state.enumerator or state.open or state.done)


def decided(
    store: BlobStore,
    source: OperatorId,
    manifest: Manifest | None,
    asked: str,
    decide: Callable[[], bytes],
) -> tuple[str, Beginning]:
    """The decision that counts, and its key; ``decide`` is asked if there is none. May be interrupted anywhere and called again.

    ``manifest``: what the query goes on from, in which the source is not decided. ``asked``: what the user's options say about the
    beginning: other options, another decision.
    """
    key = _key(store, source, manifest, f"{zlib.crc32(asked.encode()):08x}")
    stored = store.read(key)
    if stored is None:
        store.create(key, encode(Beginning(source=source, enumerator=decide())))
        # Whoever made it, what stands there now is the truth.
        stored = store.read(key)
    if stored is None:
        raise CorruptSnapshot(
            f"{key} vanished from the checkpoint location", hint="somebody deletes files there: use another location"
        )
    beginning = decode(Beginning, key, stored)
    if beginning.source != source:
        raise CorruptSnapshot(
            f"{key} says where {beginning.source} begins, not {source}", hint="restore the file from a copy"
        )
    return key, beginning


def _key(store: BlobStore, source: OperatorId, manifest: Manifest | None, asked: str) -> str:
    base = FROM_NOTHING if manifest is None else manifest.ref
    if manifest is not None and any(state.operator == source for state in manifest.sources):
        # Taken before the first look. What was decided for the attempt that took it counts; a later one would leave rows out.
        keys = store.list(f"{layout.BEGIN_PREFIX}{source}/")
        known = (layout.begin_base(key, asked) for key in keys)
        base = max((one for one in known if one is not None and one <= base), default=base)
    return layout.begin_key(source, base, asked)
