"""The documents of a checkpoint location: immutable, versioned, checked when built and again when decoded.

A document is one header line (``tidegate crc32=9a0b… bytes=123``) and a body. The header is what tells damage from truth.
``pipeline.json`` alone is plain JSON, for people and other tools; its checksum is one of its fields.

A format is a word and a number, ``manifest/1``, as ``model/formats.py`` describes it: documents of every number are read, and an
older Tidegate that does not know a number says so instead of guessing.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from tidegate.checkpoint.invariants import contradiction, contradiction_in_source
from tidegate.checkpoint.layout import IMPORTED, PIPELINE_KEY, ManifestRef, chunk_key
from tidegate.model import formats
from tidegate.model.batch_ids import Numbering
from tidegate.model.elements import WATERMARK_MIN_US, CheckpointKind
from tidegate.model.errors import CorruptSnapshot, InvalidQuery
from tidegate.model.ids import Attempt, CheckpointId, OperatorId, PipelineId
from tidegate.model.shape import StateShape
from tidegate.model.snapshot import ChunkHandle, Committable, OperatorSnapshot, Published, SplitPosition

_HEADER = re.compile(rb"tidegate crc32=([0-9a-f]{8}) bytes=(\d{1,15})\n")
_HEADER_BYTES_MAX = 64


class Interval(msgspec.Struct, frozen=True, order=True, array_like=True):
    """Half-open range of split numbers."""

    start: int
    stop: int


class SourceState(msgspec.Struct, frozen=True, kw_only=True):
    """How far one source had read. Known to the enumerator − ``done`` − ``open`` = still to be read from the beginning."""

    operator: OperatorId
    enumerator: bytes = b""
    """Every split discovered so far, in the connector's own document; empty: none has been discovered."""
    done: tuple[Interval, ...] = ()
    """Split numbers read to the end, as disjoint, sorted, non-adjacent ranges."""
    open: tuple[SplitPosition, ...] = ()
    read_us: int = WATERMARK_MIN_US
    """Largest event time of all that is done; of a document that does not say so: nothing is known."""

    def __post_init__(self) -> None:
        if (wrong := contradiction_in_source(self)) is not None:
            raise ValueError(wrong)


class Written(msgspec.Struct, frozen=True, order=True, array_like=True):
    """The newest output that a sink has ever prepared."""

    sink: OperatorId
    attempt: Attempt
    checkpoint: CheckpointId

    @property
    def published(self) -> Published:
        """As its target remembers it, once it is visible."""
        return Published(self.attempt, self.checkpoint)


class Manifest(msgspec.Struct, frozen=True, kw_only=True, tag_field="format", tag="manifest/1"):
    """What a checkpoint is: once this object exists, the checkpoint is complete."""

    pipeline: PipelineId
    checkpoint: CheckpointId
    attempt: Attempt
    parent: tuple[CheckpointId, Attempt] | None = None
    """The completed checkpoint before this one in the lineage; None for the first."""
    kind: CheckpointKind = CheckpointKind.PERIODIC
    drained: bool = False
    """The final watermark has passed: all windows are closed, and whoever goes on from here must know."""
    max_parallelism: int
    parallelism: int = 1
    operators: tuple[OperatorSnapshot, ...] = ()
    """Every stateful operator of every subtask, sorted by operator and subtask; source progress is in ``sources``."""
    sources: tuple[SourceState, ...] = ()
    stateful: tuple[OperatorId, ...] = ()
    """Every operator of the query that took the checkpoint and has state: one without an entry is damage, not a new one."""
    shapes: tuple[StateShape, ...] = ()
    """What the state of an operator means, as ``CheckpointPlan.shapes`` of the query that took the checkpoint."""
    written: tuple[Written, ...] = ()
    """Of each sink that has prepared anything, sorted: what its target should remember. Documents of earlier versions do not say it."""
    numbering: Numbering | None = None
    """Which batch of its sink the carried output is. None in documents of earlier versions: ids were numbers of checkpoints."""

    def __post_init__(self) -> None:
        # Runs when we build one to write and again when one is decoded: both sides check.
        if (wrong := contradiction(self)) is not None:
            raise ValueError(wrong)

    @property
    def ends_pipeline(self) -> bool:
        """Taken when this pipeline was drained. One that was imported is a beginning, whatever it was elsewhere."""
        return self.drained and self.attempt != IMPORTED

    @property
    def ref(self) -> ManifestRef:
        return ManifestRef(self.checkpoint, self.attempt)

    @property
    def parent_ref(self) -> ManifestRef | None:
        return None if self.parent is None else ManifestRef(*self.parent)

    def chunks(self) -> tuple[ChunkHandle, ...]:
        """Every chunk this checkpoint refers to, inlined or stored; one chunk may come several times, in parts."""
        keyed = (chunk for entry in self.operators for chunk in entry.chunks)
        overtaken = (rows.chunk for entry in self.operators for rows in entry.in_flight)
        return (*keyed, *overtaken)

    def chunk_keys(self) -> frozenset[str]:
        """Keys of every stored chunk this checkpoint needs; inlined chunks have none."""
        return frozenset(chunk_key(chunk.name) for chunk in self.chunks() if chunk.data is None)

    def committables(self) -> tuple[tuple[OperatorId, tuple[Committable, ...]], ...]:
        """All unconfirmed output by sink, each in checkpoint order: the order in which it must become visible."""
        by_sink: dict[OperatorId, set[Committable]] = {}
        for entry in self.operators:
            if entry.committables:
                by_sink.setdefault(entry.operator, set()).update(entry.committables)
        return tuple((sink, tuple(sorted(by_sink[sink], key=_commit_order))) for sink in sorted(by_sink))


def _commit_order(committable: Committable) -> tuple[int, int, int, bytes]:
    return committable.checkpoint, committable.subtask, committable.number, committable.payload


class Claim(msgspec.Struct, frozen=True, kw_only=True, tag_field="format", tag="claim/1"):
    """``process`` is random per driver: whoever reads it back learns whether the claim is its own."""

    attempt: Attempt
    process: str


class Restored(msgspec.Struct, frozen=True, kw_only=True, tag_field="format", tag="restored/1"):
    """What an attempt starts from. Its existence makes all other branches dead."""

    attempt: Attempt
    checkpoint: tuple[CheckpointId, Attempt] | None = None
    accepted: tuple[Published, ...] = ()
    """Output beyond the checkpoint, or of copies of the location, that the user allowed to come twice."""
    batches_lost: int = 0
    """How many batches beyond the checkpoint a sink may have got, so that their ids are not given out again."""

    @property
    def ref(self) -> ManifestRef | None:
        return None if self.checkpoint is None else ManifestRef(*self.checkpoint)


class Committed(msgspec.Struct, frozen=True, kw_only=True, tag_field="format", tag="committed/1"):
    """All sinks have confirmed everything the manifest carries. Its absence proves nothing."""

    checkpoint: CheckpointId
    attempt: Attempt


class Import(msgspec.Struct, frozen=True, kw_only=True):
    """Where the first checkpoint of a pipeline came from."""

    source: str
    """The path as it was given."""
    checksum: str
    """Of the document that was imported: tells it from another one at the same path."""
    checkpoint: CheckpointId


class PipelineDocument(msgspec.Struct, frozen=True, kw_only=True, tag_field="format", tag="pipeline/1"):
    """Made at the first start, the same for ever."""

    pipeline: PipelineId
    max_parallelism: int
    fingerprint: str = ""
    """Of the plan of the first start; informational: what must fit is checked operator by operator."""
    imported_from: Import | None = None
    """The pipeline begins with an imported checkpoint: nothing is claimed before that stands."""
    checksum: str = ""
    """CRC-32 of the document with this field empty; ``encode_pipeline`` fills it in."""


Document = TypeVar("Document", bound=msgspec.Struct)


def encode(document: msgspec.Struct) -> bytes:
    body = msgspec.msgpack.encode(document)
    return b"tidegate crc32=%08x bytes=%d\n%b" % (zlib.crc32(body), len(body), body)


def decode(kind: type[Document], key: str, data: bytes) -> Document:
    """The document stored at ``key``. Raises ``CorruptSnapshot``, naming the key, for anything but an intact one, and
    ``InvalidQuery`` for an intact one of a format that this version does not know yet."""
    header = _HEADER.match(data[:_HEADER_BYTES_MAX])
    if header is None:
        raise _corrupt(key, "its header is not one of Tidegate's")
    body = data[header.end() :]
    if len(body) != int(header[2]):
        raise _corrupt(key, f"it should hold {int(header[2])} bytes and holds {len(body)}")
    if zlib.crc32(body) != int(header[1], 16):
        raise _corrupt(key, "its checksum does not match its content")
    try:
        return formats.decode(body, kind)
    except (msgspec.ValidationError, msgspec.DecodeError, UnicodeDecodeError) as error:
        _refuse_newer(kind, key, lambda: msgspec.msgpack.decode(body, type=_AnyFormat))
        raise _corrupt(key, f"it cannot be understood: {error}") from error


def encode_pipeline(document: PipelineDocument) -> bytes:
    fields = msgspec.json.decode(msgspec.json.encode(document))
    return msgspec.json.format(msgspec.json.encode(fields | {"checksum": _pipeline_checksum(fields)}), indent=2) + b"\n"


def decode_pipeline(data: bytes) -> PipelineDocument:
    """What ``pipeline.json`` holds; raises as ``decode`` does."""
    try:
        document = formats.decode(data, PipelineDocument, decoder=msgspec.json.decode)
        fields = msgspec.json.decode(data)
    except (msgspec.ValidationError, msgspec.DecodeError, UnicodeDecodeError) as error:
        _refuse_newer(PipelineDocument, PIPELINE_KEY, lambda: msgspec.json.decode(data, type=_AnyFormat))
        raise _corrupt(PIPELINE_KEY, f"it cannot be understood: {error}") from error
    if fields.get("checksum") != _pipeline_checksum(fields):
        raise _corrupt(PIPELINE_KEY, "its checksum does not match its content")
    return msgspec.structs.replace(document, checksum="")


def _pipeline_checksum(fields: dict[str, Any]) -> str:
    """Of the fields as they are stored: a version that knows more or fewer of them finds the same."""
    return f"{zlib.crc32(msgspec.json.encode(fields | {'checksum': ''})):08x}"


class _AnyFormat(msgspec.Struct):
    """The one field that every format has."""

    format: str


def _refuse_newer(kind: type[msgspec.Struct], key: str, look: Callable[[], _AnyFormat]) -> None:
    """Raises ``InvalidQuery`` when the document is of a later format than ours; returns when it is something else."""
    word, _, known = str(kind.__struct_config__.tag).partition("/")
    try:
        name, _, number = look().format.partition("/")
    except (msgspec.ValidationError, msgspec.DecodeError, UnicodeDecodeError):
        return
    if name == word and number.isdecimal() and int(number) > int(known):
        raise InvalidQuery(
            f"{key} was written by a newer Tidegate: its format is {name}/{number}, and this version reads {word}/{known}",
            hint="start the query with that version or a later one; nothing has been changed",
        )


def agree(stored: PipelineDocument, wanted: PipelineDocument, location: str) -> PipelineDocument:
    """The identity a start goes on with. Raises ``InvalidQuery`` when this start cannot continue the stored pipeline."""
    if stored.max_parallelism != wanted.max_parallelism:
        raise InvalidQuery(
            f"{location} was made with maxParallelism {stored.max_parallelism}; "
            f"this start asks for {wanted.max_parallelism}",
            hint=f'keep .option("maxParallelism", {stored.max_parallelism}), or start at a new checkpointLocation',
        )
    return stored


def _corrupt(key: str, why: str) -> CorruptSnapshot:
    return CorruptSnapshot(
        f"{key} is damaged: {why}",
        hint="restore the file from a copy, or start from an older checkpoint",
    )
