"""Every document that is stored, as the imported version encodes it, and what it says."""

from __future__ import annotations

import base64
import importlib
import zlib
from typing import Any

import msgspec
from tests.golden import schema
from tests.golden.names import names
from tests.golden.samples import every_kind_of_column, sample

from tidegate.checkpoint import manifest as m
from tidegate.checkpoint.savepoint import Savepoint
from tidegate.connectors.files import splits as files
from tidegate.connectors.foreach_batch.parts import BatchPart, decode_rows, encode_rows
from tidegate.connectors.kafka.source import splits as kafka
from tidegate.model.batch_ids import BatchIds, Numbering
from tidegate.model.elements import CheckpointKind
from tidegate.model.ids import Attempt, BatchId, CheckpointId, OperatorId, PipelineId, SlotIndex
from tidegate.model.shape import StateShape
from tidegate.model.snapshot import (
    ChunkHandle,
    Committable,
    InFlight,
    KeyGroupRange,
    OperatorSnapshot,
    Published,
    Split,
    SplitPosition,
)
from tidegate.state.codec import decode_chunk, encode_chunk

RENAMED = {
    "tidegate.connectors.kafka.names:PreparedTransaction": "tidegate.connectors.kafka.sink.names:PreparedTransaction",
    **{
        f"tidegate.connectors.kafka.splits:{name}": f"tidegate.connectors.kafka.source.splits:{name}"
        for name in ("KafkaPosition", "KafkaSplit", "KnownPartitions")
    },
    "tidegate.connectors.python_sink.sink:MessageToCommit": "tidegate.connectors.python_sink.sink:PickledMessage",
}
"""Classes that have another name today. Entries of later versions name formats, which never change."""


def made() -> dict[str, dict[str, Any]]:
    return {name: _entry(how, value) for name, (how, value) in {**_written(), **_sampled()}.items()}


def kinds() -> frozenset[str]:
    """Every format that is stored."""
    return frozenset(map(schema.name_of, schema.roots()))


def decoded(entry: dict[str, Any]) -> Any:
    """By the imported version; ``entry`` as another one wrote it."""
    data = base64.b64decode(entry["data"])
    match entry["how"]:
        case "pipeline":
            return m.decode_pipeline(data)
        case "document":
            return m.decode(kind_of(entry), entry.get("format") or entry["type"], data)
        case "chunk":
            return decode_chunk(data, "golden").to_dicts()
        case "batch":
            part = BatchPart(key="", rows=2, size_bytes=len(data), checksum=zlib.crc32(data))
            return decode_rows(part, data).to_dicts()
        case "names":
            return names()
        case _:
            return msgspec.msgpack.decode(data, type=kind_of(entry))


def kind_of(entry: dict[str, Any]) -> type[msgspec.Struct]:
    """What such a document is decoded as."""
    if "format" in entry:
        return next(kind for kind in schema.roots() if schema.name_of(kind) == entry["format"])
    module, _, name = RENAMED.get(entry["type"], entry["type"]).partition(":")
    return getattr(importlib.import_module(module), name)


def format_of(entry: dict[str, Any]) -> str | None:
    """None: it is no document, and has a version of its own or none."""
    return schema.name_of(kind_of(entry)) if "format" in entry or "type" in entry else None


def plain(value: Any) -> Any:
    return msgspec.to_builtins(value, str_keys=True)


def _entry(how: str, value: Any) -> dict[str, Any]:
    encode = {"pipeline": m.encode_pipeline, "document": m.encode, "msgpack": msgspec.msgpack.encode}.get(how)
    if encode is None:
        entry = {"how": how, "data": base64.b64encode(value).decode()}
        return {**entry, "says": plain(decoded(entry))}
    data = base64.b64encode(encode(value)).decode()
    return {"format": schema.name_of(type(value)), "how": how, "data": data, "says": plain(value)}


def _written() -> dict[str, tuple[str, Any]]:
    """By hand: what has rules of its own, and what several sources know."""
    pipeline = PipelineId("0123456789abcdef")
    one, two = CheckpointId(7), CheckpointId(8)
    imported = m.Import(source="/data/saved", checksum="9a0b1c2d", checkpoint=CheckpointId(3))
    return {
        "pipeline": ("pipeline", m.PipelineDocument(pipeline=pipeline, max_parallelism=128, fingerprint="ab12")),
        "pipeline-imported": (
            "pipeline",
            m.PipelineDocument(pipeline=pipeline, max_parallelism=8, imported_from=imported),
        ),
        "claim": ("document", m.Claim(attempt=Attempt(2), process="p-1")),
        "restored": ("document", m.Restored(attempt=Attempt(2), checkpoint=(one, Attempt(1)))),
        "restored-older": (
            "document",
            m.Restored(
                attempt=Attempt(4), checkpoint=(one, Attempt(2)), accepted=(Published(Attempt(3), two),), batches_lost=5
            ),
        ),
        "restored-nothing": ("document", m.Restored(attempt=Attempt(1))),
        "committed": ("document", m.Committed(checkpoint=two, attempt=Attempt(2))),
        "manifest-empty": (
            "document",
            m.Manifest(pipeline=pipeline, checkpoint=one, attempt=Attempt(1), max_parallelism=8),
        ),
        "manifest": ("document", _manifest(pipeline, one, two)),
        "manifest-every-field": ("document", _manifest_with_every_field(pipeline)),
        "savepoint": ("document", _savepoint(_manifest(pipeline, one, two))),
        "chunk": ("chunk", encode_chunk(every_kind_of_column())),
        "rows-of-a-batch": ("batch", encode_rows(every_kind_of_column())),
        "names": ("names", b""),
        "known-files-sealed": (
            "msgpack",
            files.KnownFiles(segments=(files.seal([_file(0), _file(1)]),), newest=(_file(2), _file(3))),
        ),
        "kafka-split-endless": ("msgpack", kafka.KafkaSplit(topic="bids", partition=3)),
        "kafka-known": (
            "msgpack",
            kafka.KnownPartitions(
                started=True,
                following=9,
                splits=(
                    kafka.NumberedSplit(0, kafka.KafkaSplit(topic="bids", partition=0, topic_id="t-1")),
                    kafka.NumberedSplit(8, kafka.KafkaSplit(topic="bids", partition=1, start=40, end=90)),
                ),
            ),
        ),
    }


def _savepoint(manifest: m.Manifest) -> Savepoint:
    operators = tuple(msgspec.structs.replace(one, committables=(), in_flight=()) for one in manifest.operators)
    bare = msgspec.structs.replace(manifest, operators=operators)
    return Savepoint(manifest=bare, query="== Plan ==", created_by="0.1.0", drained=True)


def _file(number: int) -> files.FileSplit:
    return files.FileSplit(path=f"/data/in/{number}.json", size_bytes=1_000 + number)


def _manifest(pipeline: PipelineId, before: CheckpointId, checkpoint: CheckpointId) -> m.Manifest:
    """A source with files that are done and open, one with partitions; every kind of state; output that nobody has confirmed."""
    from tidegate.eventtime.generator import GeneratorState
    from tidegate.operators.source import Idleness
    from tidegate.runtime.stage_time import ChannelTimeState, StageTime

    pack = msgspec.msgpack.encode
    data = b"not a real chunk"
    stored = ChunkHandle(
        name="aggregate-k/000001-00000-000007-0", groups=KeyGroupRange(0, 64), rows=3, size_bytes=900, checksum=4711
    )
    inlined = ChunkHandle(
        name="aggregate-k/000002-00000-000008-0",
        groups=KeyGroupRange(0, 128),
        rows=1,
        size_bytes=len(data),
        checksum=12,
        data=data,
    )
    time = StageTime(
        combined_us=1_000_000,
        parallelism=2,
        channels=(ChannelTimeState(0, 1_000_000, False, False), ChannelTimeState(1, 5, True, False)),  # type: ignore[arg-type]
    )
    quiet = Idleness(splits=(2,), idle=False)
    generator = GeneratorState(splits={1: 6_000_000, 2: 7_000_001}, closed_us=5_500_000)
    first, second = SlotIndex(0), SlotIndex(1)

    def entry(name: str, subtask: SlotIndex, **parts: Any) -> OperatorSnapshot:
        return OperatorSnapshot(operator=OperatorId(name), subtask=subtask, **parts)

    operators = (
        entry("aggregate-k", first, chunks=(stored, inlined), value=b"\x90"),
        entry("aggregate-k", second),
        entry(
            "aggregate-k.inputs",
            first,
            value=pack(time),
            in_flight=(InFlight(edge=0, source=second, chunk=inlined),),
        ),
        entry(
            "sink-parquet",
            second,
            committables=(
                Committable(checkpoint=before, subtask=second, number=0, payload=b"a"),
                Committable(checkpoint=checkpoint, subtask=second, number=1, payload=b"b"),
            ),
        ),
        entry("source-json_in", first, value=pack(quiet)),
        entry("watermark-ts_json_in", first, value=pack(generator)),
    )
    open_file = Split(number=3, payload=pack(_file(3)))
    known = files.KnownFiles(newest=tuple(map(_file, range(5))))
    partition = Split(number=0, payload=pack(kafka.KafkaSplit(topic="bids", partition=0)))
    return m.Manifest(
        pipeline=pipeline,
        checkpoint=checkpoint,
        attempt=Attempt(2),
        parent=(before, Attempt(1)),
        kind=CheckpointKind.PERIODIC,
        max_parallelism=128,
        parallelism=2,
        operators=operators,
        sources=(
            m.SourceState(
                operator=OperatorId("source-json_in"),
                enumerator=pack(known),
                done=(m.Interval(0, 1), m.Interval(2, 3)),
                open=(
                    SplitPosition(split=open_file, position=pack(files.LinePosition(offset=512, row=9))),
                    SplitPosition(split=Split(number=4, payload=pack(_file(4))), position=None),
                ),
            ),
            m.SourceState(
                operator=OperatorId("source-kafka_bids"),
                open=(SplitPosition(split=partition, position=pack(kafka.KafkaPosition(offset=77))),),
            ),
        ),
        stateful=(OperatorId("aggregate-k"), OperatorId("sink-parquet"), OperatorId("watermark-ts_json_in")),
        shapes=(
            StateShape(OperatorId("aggregate-k"), (("key 1", "k bigint"), ("aggregate 1", "count(*)"))),
            StateShape(OperatorId("watermark-ts_json_in"), (("column", "ts timestamp"),)),
        ),
    )


def _manifest_with_every_field(pipeline: PipelineId) -> m.Manifest:
    """No field has the value that it would have if it were not read."""
    source, sink = OperatorId("source-json_in"), OperatorId("sink-parquet")
    checkpoint, attempt, slot = CheckpointId(9), Attempt(3), SlotIndex(1)
    chunk = ChunkHandle(
        name="sink-parquet.inputs/000003-00001-000009-4",
        groups=KeyGroupRange(3, 5),
        rows=2,
        size_bytes=4,
        checksum=7,
        data=b"rows",
    )
    late = Split(number=6, payload=b"6", earliest_us=1_000, cut=True)
    return m.Manifest(
        pipeline=pipeline,
        checkpoint=checkpoint,
        attempt=attempt,
        parent=(CheckpointId(8), Attempt(2)),
        kind=CheckpointKind.SAVEPOINT,
        drained=True,
        max_parallelism=8,
        parallelism=2,
        written=(m.Written(sink, attempt, checkpoint),),
        numbering=Numbering(sinks=(BatchIds(sink, BatchId(7), ((checkpoint, BatchId(6)),)),), floor=BatchId(4)),
        operators=(
            OperatorSnapshot(
                operator=sink,
                subtask=slot,
                chunks=(msgspec.structs.replace(chunk, name="sink-parquet/000003-00001-000009-4"),),
                value=b"value",
                committables=(Committable(checkpoint=checkpoint, subtask=slot, number=2, payload=b"c"),),
            ),
            OperatorSnapshot(
                operator=OperatorId("sink-parquet.inputs"),
                subtask=slot,
                in_flight=(InFlight(edge=2, source=slot, chunk=chunk),),
            ),
            OperatorSnapshot(operator=source, subtask=slot, value=b"quiet"),
        ),
        sources=(
            m.SourceState(
                operator=source,
                enumerator=b"known",
                done=(m.Interval(2, 4),),
                open=(SplitPosition(split=late, position=b"at", largest_us=2_000),),
                read_us=3_000,
            ),
        ),
        stateful=(sink, OperatorId("sink-parquet.inputs"), source),
        shapes=(StateShape(sink, (("format", "parquet"), ("place", "/data/out"))),),
    )


def _sampled() -> dict[str, tuple[str, Any]]:
    """One of every other kind, with a value in every field."""
    by_hand = (m.Manifest, m.Claim, m.Restored, m.Committed, m.PipelineDocument, Savepoint)
    kinds = (kind for kind in schema.roots() if kind not in by_hand)
    return {schema.name_of(kind): ("msgpack", sample(msgspec.inspect.type_info(kind))) for kind in kinds}
