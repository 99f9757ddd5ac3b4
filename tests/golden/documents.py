"""Every document that is stored, as the imported version encodes it, and what it says."""

from __future__ import annotations

import base64
import importlib
from collections.abc import Iterator
from typing import Any

import msgspec

from tidegate.checkpoint import manifest as m
from tidegate.checkpoint.savepoint import Savepoint
from tidegate.connectors.files import splits as files
from tidegate.connectors.kafka import splits as kafka
from tidegate.model.elements import CheckpointKind
from tidegate.model.ids import Attempt, CheckpointId, OperatorId, PipelineId, SlotIndex
from tidegate.model.shape import StateShape
from tidegate.model.snapshot import (
    ChunkHandle,
    Committable,
    InFlight,
    KeyGroupRange,
    OperatorSnapshot,
    Split,
    SplitPosition,
)

PACKAGES = [
    "checkpoint.savepoint",
    "connectors.collected",
    "connectors.delta.files",
    "connectors.files.splits",
    "connectors.files.staging",
    "connectors.fixed_splits",
    "connectors.foreach_batch.parts",
    "connectors.iceberg.files",
    "connectors.kafka.names",
    "connectors.kafka.splits",
    "connectors.nexmark.source",
    "connectors.postgres.names",
    "connectors.python_sink.sink",
    "connectors.python_source.enumerator",
    "connectors.python_source.splits",
    "connectors.rate.source",
    "eventtime.generator",
    "operators.horizon",
    "operators.limit",
    "operators.source",
    "operators.stateful_process",
    "operators.stream_join",
    "runtime.stage_time",
    "spark.history",
]
"""Where stored documents are defined, beside ``checkpoint.manifest``."""


def made() -> dict[str, dict[str, Any]]:
    return {name: _entry(how, value) for name, (how, value) in {**_written(), **_sampled()}.items()}


def kinds() -> frozenset[str]:
    """Everything that is stored, as an entry names its type."""
    by_hand = (m.Manifest, m.Claim, m.Restored, m.Committed, m.PipelineDocument, Savepoint)
    return frozenset(map(_name, (*by_hand, *(kind for _, kind in _kinds()))))


def decoded(entry: dict[str, Any]) -> Any:
    """By the imported version; ``entry`` as another one wrote it."""
    data = base64.b64decode(entry["data"])
    module, _, name = entry["type"].partition(":")
    kind = getattr(importlib.import_module(module), name)
    match entry["how"]:
        case "pipeline":
            return m.decode_pipeline(data)
        case "document":
            return m.decode(kind, entry["type"], data)
        case _:
            return msgspec.msgpack.decode(data, type=kind)


def plain(value: Any) -> Any:
    return msgspec.to_builtins(value, str_keys=True)


def _entry(how: str, value: Any) -> dict[str, Any]:
    encode = {"pipeline": m.encode_pipeline, "document": m.encode, "msgpack": msgspec.msgpack.encode}[how]
    data = base64.b64encode(encode(value)).decode()
    return {"type": _name(type(value)), "how": how, "data": data, "says": plain(value)}


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
        "restored-nothing": ("document", m.Restored(attempt=Attempt(1))),
        "committed": ("document", m.Committed(checkpoint=two, attempt=Attempt(2))),
        "manifest-empty": (
            "document",
            m.Manifest(pipeline=pipeline, checkpoint=one, attempt=Attempt(1), max_parallelism=8),
        ),
        "manifest": ("document", _manifest(pipeline, one, two)),
        "savepoint": ("document", _savepoint(_manifest(pipeline, one, two))),
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


def _sampled() -> dict[str, tuple[str, Any]]:
    """One of every other kind, with a value in every field."""
    return {
        f"{package} {kind.__struct_config__.tag}": ("msgpack", _sample(msgspec.inspect.type_info(kind)))
        for package, kind in _kinds()
    }


def _kinds() -> Iterator[tuple[str, type[msgspec.Struct]]]:
    for package in PACKAGES:
        module = importlib.import_module(f"tidegate.{package}")
        for kind in vars(module).values():
            if not (isinstance(kind, type) and issubclass(kind, msgspec.Struct)) or kind is Savepoint:
                continue
            if kind.__module__ == module.__name__ and kind.__struct_config__.tag is not None:
                yield package, kind


def _name(kind: type) -> str:
    return f"{kind.__module__}:{kind.__name__}"


def _sample(of: Any) -> Any:
    info = msgspec.inspect
    match of:
        case info.IntType():
            return 12
        case info.FloatType():
            return 1.5
        case info.StrType():
            return "word"
        case info.BytesType():
            return b"bytes"
        case info.BoolType():
            return True
        case info.EnumType(cls=cls):
            return next(iter(cls))
        case info.LiteralType(values=values):
            return values[0]
        case info.UnionType(types=types):
            return _sample(next(one for one in types if not isinstance(one, info.NoneType)))
        case info.TupleType(item_types=types):
            return tuple(map(_sample, types))
        case info.VarTupleType(item_type=one):
            return (_sample(one),)
        case info.ListType(item_type=one):
            return [_sample(one)]
        case info.FrozenSetType(item_type=one):
            return frozenset((_sample(one),))
        case info.DictType(key_type=key, value_type=value):
            return {_sample(key): _sample(value)}
        case info.StructType(cls=cls, fields=fields):
            return cls(**{field.name: _sample(field.type) for field in fields})
        case _:
            raise TypeError(f"no sample of {of}")
