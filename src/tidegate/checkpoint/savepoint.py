"""Savepoints: a checkpoint as a directory of its own, which may be moved, copied and kept.

The document is written last, so a directory without it is no savepoint, and a savepoint is never half. Every key in it is
relative to the directory. What it holds is an ordinary checkpoint of the sequence whose output is visible already: it carries no
committables, and starting from it publishes nothing twice.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Mapping

import msgspec

from tidegate.checkpoint.effects import ExportSavepoint
from tidegate.checkpoint.events import SavepointExported, SavepointFailed
from tidegate.checkpoint.layout import SAVEPOINT_KEY, chunk_key
from tidegate.checkpoint.manifest import Manifest, decode, encode
from tidegate.checkpoint.numbering import settled
from tidegate.checkpoint.ports import Spread, one_by_one, probe
from tidegate.checkpoint.storing import failure_of
from tidegate.model.errors import CorruptSnapshot, InvalidQuery, TidegateError, Unavailable
from tidegate.model.snapshot import ChunkHandle
from tidegate.ports.store import BlobStore, Created


class Savepoint(msgspec.Struct, frozen=True, kw_only=True, tag_field="format", tag="savepoint/1"):
    """What a savepoint is. ``manifest`` names the pipeline, checkpoint and attempt it came from."""

    manifest: Manifest
    query: str = ""
    """The query it was taken of, as ``explain`` prints it; for people."""
    created_by: str = ""
    """Version of Tidegate."""
    drained: bool = False
    """All windows were closed by the end of the input: rows that come later are late."""

    def __post_init__(self) -> None:
        if any(entry.committables or entry.in_flight for entry in self.manifest.operators):
            raise ValueError("a savepoint carries neither output to publish nor rows in flight")


def without_committables(manifest: Manifest) -> Manifest:
    """The same checkpoint once its output is visible."""
    operators = tuple(msgspec.structs.replace(entry, committables=()) for entry in manifest.operators)
    return msgspec.structs.replace(manifest, operators=operators, numbering=settled(manifest))


def perform_export(
    effect: ExportSavepoint,
    source: BlobStore,
    open_target: Callable[[str], BlobStore],
    now_ms: Callable[[], int],
    *,
    query: str = "",
    created_by: str = "",
    spread: Spread = one_by_one,
) -> SavepointExported | SavepointFailed:
    """Copy the checkpoint out of ``source``. Blocking; may be repeated, and repeating it changes nothing."""
    checkpoint = effect.manifest.checkpoint
    try:
        savepoint = Savepoint(
            manifest=without_committables(effect.manifest), query=query, created_by=created_by, drained=effect.drained
        )
        export(savepoint, source, open_target(effect.target), effect.target, spread)
    except TidegateError as error:
        return SavepointFailed(now_ms(), effect.attempt, checkpoint, effect.target, failure_of(error))
    return SavepointExported(now_ms(), effect.attempt, checkpoint, effect.target)


def export(
    savepoint: Savepoint, source: BlobStore, target: BlobStore, target_name: str, spread: Spread = one_by_one
) -> None:
    """Raises ``InvalidQuery`` when ``target`` holds anything else, ``CorruptSnapshot`` when a chunk of the source is bad.

    What it made is then taken away again as far as the target lets it, so that another try may have the same place.
    """
    document = encode(savepoint)
    stored = stored_chunks(savepoint.manifest)
    if target.read(SAVEPOINT_KEY) == document:
        return
    refuse_occupied(target, target_name, allowed=stored)
    made: set[str] = set()
    chunks_stand = False

    def copy(key: str) -> None:
        made.add(key)
        if not copy_chunk(source, key, stored[key], target, key):
            made.discard(key)

    try:
        spread(copy, sizes_of(stored))
        chunks_stand = True
        create_same(target, SAVEPOINT_KEY, document, target_name)
    except TidegateError as error:
        # A document whose creation is reported as failed may still appear, and must be whole then; a refused one cannot.
        may_appear = chunks_stand and isinstance(error, Unavailable)
        if not may_appear:
            target.delete_many(sorted(made))
        raise


def check_target(target: BlobStore, target_name: str, random_name: str) -> None:
    """What can be known before a savepoint is taken: the place is empty and lets itself be written to.

    Raises ``InvalidQuery`` or ``Unavailable``.
    """
    refuse_occupied(target, target_name)
    question = probe(random_name)
    target.create(question.key, question.first)
    target.delete(question.key)


def read_savepoint(store: BlobStore) -> Savepoint | None:
    """None: there is none. Raises ``CorruptSnapshot``, or ``InvalidQuery`` for one of a newer format."""
    data = store.read(SAVEPOINT_KEY)
    return None if data is None else decode(Savepoint, SAVEPOINT_KEY, data)


def stored_chunks(manifest: Manifest) -> dict[str, ChunkHandle]:
    """Key → chunk, of every file the checkpoint needs, in order."""
    chunks = {chunk_key(chunk.name): chunk for chunk in manifest.chunks() if chunk.data is None}
    return dict(sorted(chunks.items()))


def sizes_of(chunks: Mapping[str, ChunkHandle]) -> dict[str, int]:
    return {key: chunk.size_bytes for key, chunk in chunks.items()}


def copy_chunk(source: BlobStore, key: str, chunk: ChunkHandle, target: BlobStore, target_key: str) -> bool:
    """Copy one file, checked on the way: damage is found here and not when somebody depends on the copy.

    Whether it was made; False: it was there, the same.
    """
    data = source.read(key)
    if data is None:
        raise CorruptSnapshot(
            f"{key} is missing", hint="restore it from a copy; if a running query owns it, name a newer checkpoint"
        )
    if len(data) != chunk.size_bytes or zlib.crc32(data) != chunk.checksum:
        raise CorruptSnapshot(
            f"{key} is damaged: its checksum does not match its content", hint="restore the file from a copy"
        )
    return create_same(target, target_key, data, target_key)


def create_same(target: BlobStore, key: str, data: bytes, what: str) -> bool:
    """Create, or find that an earlier try of ours has done so (False). Raises ``InvalidQuery`` when something else is there."""
    if isinstance(target.create(key, data), Created):
        return True
    if target.read(key) != data:
        raise InvalidQuery(f"{what} holds something else under {key}", hint="choose an empty directory")
    return False


def refuse_occupied(target: BlobStore, target_name: str, allowed: Iterable[str] = ()) -> None:
    """``allowed``: what an interrupted export of the same checkpoint may have left."""
    strange = sorted(set(target.list("")).difference(allowed))
    if SAVEPOINT_KEY in strange:
        raise InvalidQuery(
            f"{target_name} holds another savepoint", hint="choose an empty directory, or delete that one"
        )
    if strange:
        raise InvalidQuery(
            f"{target_name} is not empty: it holds {strange[0]}", hint="choose an empty directory for the savepoint"
        )
