"""Starting a new pipeline from a savepoint, or from a checkpoint that another pipeline keeps.

Everything the checkpoint needs is copied into the new location under names of attempt 0, the manifest last, under the new
pipeline's id. Nothing is claimed before it stands, so no attempt can miss it; and every byte follows from the source and the
pipeline document, so an import that died is simply done again.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from tidegate.checkpoint.layout import (
    CHECKPOINTS_PREFIX,
    IMPORTED,
    PIPELINE_KEY,
    SAVEPOINT_KEY,
    ManifestKey,
    ManifestRef,
    checkpoint_path,
    chunk_key,
    chunk_name,
    committed_key,
    manifest_key,
    parse,
)
from tidegate.checkpoint.manifest import Import, Manifest, decode, encode
from tidegate.checkpoint.numbering import UNNUMBERED
from tidegate.checkpoint.ports import Spread, one_by_one
from tidegate.checkpoint.savepoint import (
    Savepoint,
    copy_chunk,
    create_same,
    sizes_of,
    stored_chunks,
    without_committables,
)
from tidegate.model.errors import InvalidQuery
from tidegate.model.ids import OperatorId, PipelineId, SlotIndex
from tidegate.model.snapshot import ChunkHandle, OperatorSnapshot
from tidegate.ports.store import BlobStore


@dataclass(frozen=True, slots=True)
class Importable:
    """A checkpoint somewhere else that a new pipeline may start from."""

    origin: Import
    manifest: Manifest
    """Without committables: all its output is visible."""
    store: BlobStore
    """Where its chunks lie."""
    savepoint: bool
    drained: bool = False


def find(path: str, open_store: Callable[[str], BlobStore]) -> Importable:
    """What ``path`` names: a savepoint directory, or ``<location>/checkpoints/<checkpoint>-<attempt>``.

    Raises ``InvalidQuery`` when it names neither or may not be imported, ``CorruptSnapshot`` when it is damaged.
    """
    named = checkpoint_path(path)
    return _find_savepoint(path, open_store(path)) if named is None else _find_checkpoint(path, open_store, *named)


def _find_savepoint(path: str, store: BlobStore) -> Importable:
    data = store.read(SAVEPOINT_KEY)
    if data is None:
        raise _nothing_there(path, store)
    savepoint = decode(Savepoint, SAVEPOINT_KEY, data)
    origin = Import(source=path, checksum=_checksum(data), checkpoint=savepoint.manifest.checkpoint)
    return Importable(origin, savepoint.manifest, store, savepoint=True, drained=savepoint.drained)


def _find_checkpoint(path: str, open_store: Callable[[str], BlobStore], location: str, ref: ManifestRef) -> Importable:
    store = open_store(location)
    key = manifest_key(ref)
    data = store.read(key)
    if data is None:
        raise _nothing_there(path, store)
    manifest = decode(Manifest, key, data)
    if manifest.committables() and store.read(committed_key(ref)) is None:
        raise InvalidQuery(
            f"checkpoint {ref} of {location} may hold output that is not visible yet: starting elsewhere would lose it",
            hint="start the old query once more and take a savepoint of it, or name an older checkpoint",
        )
    origin = Import(source=path, checksum=_checksum(data), checkpoint=manifest.checkpoint)
    return Importable(origin, without_committables(manifest), store, savepoint=False, drained=manifest.drained)


def _checksum(data: bytes) -> str:
    """Of the document as it is stored: a later version would encode it with more fields, and call it another one."""
    return f"{zlib.crc32(data):08x}"


def perform_import(
    found: Importable, target: BlobStore, location: str, pipeline: PipelineId, spread: Spread = one_by_one
) -> ManifestRef:
    """Copy the checkpoint into ``target``, its manifest last. Repeating it, also after a crash, gives the same files."""
    manifest, new_keys = relocated(found.manifest, pipeline)
    stored = stored_chunks(found.manifest)
    spread(lambda key: copy_chunk(found.store, key, stored[key], target, new_keys[key]), sizes_of(stored))
    create_same(target, manifest_key(manifest.ref), encode(manifest), location)
    return manifest.ref


def relocated(manifest: Manifest, pipeline: PipelineId) -> tuple[Manifest, dict[str, str]]:
    """The checkpoint as the first one of ``pipeline``, and the new key of every key it named."""
    ref = ManifestRef(manifest.checkpoint, IMPORTED)
    names: dict[str, str] = {}
    numbers: dict[str, int] = {}
    # Chunks of several attempts get one attempt's names: they are counted through anew, in an order that never changes.
    for old in sorted({chunk.name for chunk in manifest.chunks()}):
        operator = old.partition("/")[0]
        number = numbers[operator] = numbers.get(operator, -1) + 1
        names[old] = chunk_name(OperatorId(operator), ref.attempt, SlotIndex(0), ref.checkpoint, number)

    def renamed(chunk: ChunkHandle) -> ChunkHandle:
        return msgspec.structs.replace(chunk, name=names[chunk.name])

    def entry(old: OperatorSnapshot) -> OperatorSnapshot:
        return msgspec.structs.replace(
            old,
            chunks=tuple(renamed(chunk) for chunk in old.chunks),
            in_flight=tuple(msgspec.structs.replace(rows, chunk=renamed(rows.chunk)) for rows in old.in_flight),
            committables=(),
        )

    moved = msgspec.structs.replace(
        manifest,
        pipeline=pipeline,
        attempt=ref.attempt,
        parent=None,
        # In the name of another pipeline: no target remembers it of this one.
        written=(),
        # Batches get the name of the new pipeline, and begin at 0.
        numbering=UNNUMBERED,
        operators=tuple(entry(old) for old in manifest.operators),
    )
    return moved, {chunk_key(old): chunk_key(new) for old, new in names.items()}


def delete_claimed(found: Importable) -> tuple[str, ...]:
    """Delete the files of a savepoint that was imported, its document last: until then it says what is left to delete.

    Returns what could not be deleted, with the reason.
    """
    problems = found.store.delete_many(tuple(stored_chunks(found.manifest)))
    if not problems:
        problems = found.store.delete_many((SAVEPOINT_KEY,))
    return tuple(f"{key}: {problem}" for key, problem in problems.items())


def _nothing_there(path: str, store: BlobStore) -> InvalidQuery:
    """Says what the directory is instead, if that can be seen."""
    kept = [key.ref for key in map(parse, store.list(CHECKPOINTS_PREFIX)) if isinstance(key, ManifestKey)]
    if kept:
        names = ", ".join(manifest_key(ref).removesuffix("/manifest") for ref in sorted(kept, reverse=True)[:5])
        return InvalidQuery(
            f"startFrom: there is no savepoint and no checkpoint at {path}",
            hint=f"a checkpoint location is there; name one of its checkpoints: {names}",
        )
    if store.read(PIPELINE_KEY) is not None:
        return InvalidQuery(f"startFrom: {path} is a checkpoint location without a completed checkpoint")
    return InvalidQuery(
        f"startFrom: there is no savepoint at {path}",
        hint="name the directory given to query.savepoint(), or <location>/checkpoints/<checkpoint>-<attempt>",
    )
