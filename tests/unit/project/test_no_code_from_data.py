"""Nothing that is stored or received can run code: a pickle is planted wherever bytes are read, and nobody unpickles it.

What comes from the user's own program does run: his functions, data sources and handlers travel in the closure of Spark's tasks.
"""

from __future__ import annotations

import ast
import io
import pickle
import struct
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import polars as pl
import pyarrow as pa
import pytest
import zmq
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, DataSourceStreamWriter, WriterCommitMessage
from tests.golden import schema
from tests.nodes import ByNode
from tests.unit.checkpoint.scenario import PLAN
from tests.unit.connectors.reading import BOUNDED, scan_of

from tidegate.api.foreach_batch import read_part
from tidegate.checkpoint import importing, layout, manifest, savepoint
from tidegate.checkpoint.layout import ManifestRef
from tidegate.checkpoint.recovery import facts_from
from tidegate.connectors.delta import files as delta
from tidegate.connectors.files import splits as files
from tidegate.connectors.files.local_directory import LocalDirectory
from tidegate.connectors.files.spark_log import SparkLog
from tidegate.connectors.foreach_batch.parts import BatchPart
from tidegate.connectors.iceberg import files as iceberg
from tidegate.connectors.kafka.sink import names as kafka
from tidegate.connectors.kafka.source import splits as kafka_splits
from tidegate.connectors.legacy import PIPELINE, Scan, Sink
from tidegate.connectors.nexmark.source import NexmarkSplit
from tidegate.connectors.postgres import names as postgres
from tidegate.connectors.python_sink.sink import MessageToCommit, PickledMessage, PythonSinkCommitter
from tidegate.connectors.python_source import splits as python_source
from tidegate.connectors.python_source.payload import pack
from tidegate.connectors.rate.source import RateSplit
from tidegate.model import types as t
from tidegate.model.batch_ids import BatchIds
from tidegate.model.config import QueryConfig
from tidegate.model.errors import CorruptSnapshot, SlotLost
from tidegate.model.ids import Attempt, BatchId, CheckpointId, OperatorId, SlotIndex
from tidegate.model.messages import SlotReady
from tidegate.model.snapshot import Committable, OperatorSnapshot, Split
from tidegate.model.types import Field
from tidegate.operators.stateful.codec import Codec
from tidegate.operators.stateful.variables import Declared, ValueCodec, VariableKind
from tidegate.operators.user_functions import record_maker
from tidegate.operators.values import decoded
from tidegate.runtime.stage_time import restored_start_us
from tidegate.spark.history import read_history
from tidegate.state.codec import decode_chunk
from tidegate.storage.local import LocalBlobStore
from tidegate.storage.options import NO_OPTIONS
from tidegate.transport import wire
from tidegate.transport.control import DriverControl, SlotControl
from tidegate.transport.endpoints import DriverEndpoints, SlotEndpoints

SOURCE = Path(__file__).parents[3] / "src/tidegate"
LOADERS = {
    "catalyst/sources.py": "the user's data source, as Spark registered it",
    "catalyst/data_sources.py": "the user's data source, as Spark registered it",
    "catalyst/stateful.py": "the user's function, in Spark's plan",
    "connectors/foreach/sink.py": "the user's handler, in the plan",
    "connectors/python_source/payload.py": "the user's data source, in the plan",
    "spark/functions.py": "the user's functions, in the plan",
    "spark/slot.py": "the plan, in the closure of Spark's task",
    "spark/driver.py": "writes the plan into the closure of Spark's task",
}
"""Who touches pickles, and whose they are. Whoever adds a line says why nobody else can have written them."""
IMPORTERS = {
    "__init__.py": "names of this package",
    "connectors/kafka/client/tokens.py": "the function that an option of the user's query names",
    "connectors/registry.py": "formats of this package",
    "connectors/legacy.py": "formats of this package",
    "spark/daemon.py": "modules that a worker needs",
    "storage/rocksdb_entries.py": "rocksdict",
}
"""Who imports by name, and which names."""


def test_nobody_else_unpickles_or_runs_what_it_reads() -> None:
    """T63, T83."""
    found: dict[str, set[str]] = {}
    for path in SOURCE.rglob("*.py"):
        name = path.relative_to(SOURCE).as_posix()
        if not name.startswith("testing/"):
            for used in uses(ast.parse(path.read_text())):
                found.setdefault(used, set()).add(name)
    assert found.pop("pickle", set()) == set(LOADERS)
    assert found.pop("import_module", set()) == set(IMPORTERS)
    assert found == {}


def uses(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names) | ast.ImportFrom(names=names):
                module = (node.module or "") if isinstance(node, ast.ImportFrom) else ""
                words = {word for one in names for word in f"{module}.{one.name}".split(".")}
                if words & {"pickle", "cloudpickle", "serializers"}:
                    yield "pickle"
                yield from words & {"marshal", "shelve", "dill", "joblib", "import_module", "runpy", "code"}
            case ast.Attribute(attr="import_module" | "read_pickle" | "deserialize" as name):
                yield name
            case ast.Call(func=ast.Name(id="eval" | "exec" | "compile" | "__import__" as name)):
                yield name
            case ast.keyword(arg="allow_pickle"):
                yield "allow_pickle"
            case _:
                pass


# --- what is planted ----------------------------------------------------------------------------------------------------


class Bomb:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


@pytest.fixture
def touched(tmp_path: Path) -> Iterator[Path]:
    """Exists when a pickle has been unpickled."""
    path = tmp_path / "touched"
    yield path
    assert not path.exists()


@pytest.fixture
def bomb(touched: Path) -> bytes:
    return pickle.dumps(Bomb(touched))


def framed(body: bytes) -> bytes:
    """As a document of ours, header and checksum included."""
    return b"tidegate crc32=%08x bytes=%d\n%b" % (zlib.crc32(body), len(body), body)


def test_the_bomb_goes_off_when_it_is_unpickled(tmp_path: Path) -> None:
    pickle.loads(pickle.dumps(Bomb(tmp_path / "there")))
    assert (tmp_path / "there").exists()


# --- documents of a location ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", schema.roots(), ids=schema.name_of)
def test_a_pickle_in_place_of_a_document_is_refused(kind: type[msgspec.Struct], bomb: bytes) -> None:
    """T63, T83: every kind of document that is stored, by the list that the golden documents are made from."""
    with pytest.raises(CorruptSnapshot, match="the document cannot be read"):
        decoded(bomb, kind, "the document")
    with pytest.raises(CorruptSnapshot, match="some/key"):
        manifest.decode(kind, "some/key", bomb)
    with pytest.raises(CorruptSnapshot, match="some/key"):
        manifest.decode(kind, "some/key", framed(bomb))


@pytest.mark.parametrize("kind", schema.roots(), ids=schema.name_of)
def test_text_that_is_none_is_refused_as_damage_too(kind: type[msgspec.Struct]) -> None:
    """Not as an error of Python's, which names nothing."""
    config = kind.__struct_config__
    body = b"\x81" + msgspec.msgpack.encode(config.tag_field) + b"\xa2\xff\xfe"
    with pytest.raises(CorruptSnapshot, match="the document cannot be read"):
        decoded(body, kind, "the document")
    with pytest.raises(CorruptSnapshot, match="some/key"):
        manifest.decode(kind, "some/key", framed(body))


def test_pickles_in_a_location_are_refused_by_name(tmp_path: Path, bomb: bytes) -> None:
    """T83: manifest, ``restored``, savepoint and ``pipeline.json`` where they really lie."""
    store = LocalBlobStore(tmp_path / "location")
    ref = ManifestRef(CheckpointId(1), Attempt(1))
    store.create(layout.claim_key(Attempt(1)), bomb)
    store.create(layout.restored_key(Attempt(1)), framed(msgspec.msgpack.encode(manifest.Restored(attempt=Attempt(1)))))
    store.create(layout.manifest_key(ref), framed(bomb))
    facts = facts_from(PLAN, Attempt(2), store.list(""), store.read)
    assert "checkpoints/000001-000001/manifest" in facts.damaged[ref]
    store.create(layout.restored_key(Attempt(2)), framed(bomb))
    with pytest.raises(CorruptSnapshot, match="attempts/000002/restored"):
        facts_from(PLAN, Attempt(3), store.list(""), store.read)
    with pytest.raises(CorruptSnapshot, match=r"pipeline\.json"):
        manifest.decode_pipeline(bomb)
    saved = LocalBlobStore(tmp_path / "saved")
    saved.create(layout.SAVEPOINT_KEY, framed(bomb))
    with pytest.raises(CorruptSnapshot, match="savepoint"):
        importing.find(str(tmp_path / "saved"), lambda path: LocalBlobStore(Path(path)))
    with pytest.raises(CorruptSnapshot, match="savepoint"):
        savepoint.read_savepoint(saved)
    store.create(layout.history_key(1), framed(bomb))
    assert read_history(store) == (), "it is for people: damage is a warning"


# --- chunks and values ------------------------------------------------------------------------------------------------------


def chunk(body: bytes) -> bytes:
    return struct.pack("<4sHHIQ", b"TGCK", 2, 0, zlib.crc32(body), len(body)) + body


def arrow(metadata: dict[bytes, bytes], of: bytes = b"x") -> bytes:
    field = pa.field("a", pa.binary(), metadata=metadata)
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, pa.schema([field])) as writer:
        writer.write_table(pa.table([pa.array([of], pa.binary())], schema=pa.schema([field])))
    return sink.getvalue()


@pytest.mark.parametrize("name", [b"arrow.py_extension_type", b"POLARS_EXTENSION_TYPE", b"python.object"])
def test_a_pickle_in_a_chunk_is_refused_by_the_chunks_name(name: bytes, bomb: bytes) -> None:
    """T63: as the chunk, as its body, and as the metadata that makes Arrow's older versions unpickle."""
    planted = arrow({b"ARROW:extension:name": name, b"ARROW:extension:metadata": bomb})
    for data in (bomb, chunk(bomb), chunk(planted)):
        with pytest.raises(CorruptSnapshot, match="aggregate-0/000001"):
            decode_chunk(data, "aggregate-0/000001")


def test_a_pickle_in_the_state_of_a_stateful_processor_is_refused(bomb: bytes) -> None:
    """T63: values are MessagePack, whatever the bytes say; text that is none, too."""
    schema = (Field("n", t.LONG),)
    variable = Declared("count", VariableKind.VALUE, (schema,))
    for planted in (bomb, msgspec.msgpack.encode({"a": 1}), b"\x91\xa2\xff\xfe"):
        with pytest.raises(CorruptSnapshot, match="state of a stateful processor"):
            Codec(schema, "key").decode(planted)
        with pytest.raises(CorruptSnapshot, match="state of a stateful processor"):
            ValueCodec(variable, record_maker).decode(planted)


def test_a_pickle_in_the_event_time_of_a_stage_is_refused(bomb: bytes) -> None:
    entry = OperatorSnapshot(operator=OperatorId("a.inputs"), subtask=SlotIndex(0), value=bomb)
    with pytest.raises(CorruptSnapshot, match="event time of a stage"):
        restored_start_us(OperatorId("a.inputs"), (entry,), SlotIndex(0), 1, exchanged=True)


# --- committables -------------------------------------------------------------------------------------------------------------


class Wrote(WriterCommitMessage):
    pass


class Writer(DataSourceStreamWriter):
    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        return Wrote()

    def commit(self, messages: list[Any], batchId: int) -> None:
        raise AssertionError("nothing may be committed")

    def abort(self, messages: list[Any], batchId: int) -> None:
        raise AssertionError("nothing may be aborted")


class Reader(DataSourceStreamReader):
    def initialOffset(self) -> dict[str, int]:
        return {"at": 0}

    def latestOffset(self) -> dict[str, int]:  # pyright: ignore[reportIncompatibleMethodOverride]  as before Spark 4.2
        return {"at": 1}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[Any]:
        return []

    def read(self, partition: Any) -> Iterator[Any]:
        return iter(())


class Own(DataSource):
    @classmethod
    def name(cls) -> str:
        return "own"

    def streamWriter(self, schema: Any, overwrite: bool) -> Writer:
        return Writer()

    def streamReader(self, schema: Any) -> Reader:
        return Reader()


SCHEMA = (Field("n", t.LONG),)
PAYLOAD = pack(Own, {}, '{"type":"struct","fields":[{"name":"n","type":"long","nullable":true,"metadata":{}}]}')


def sink(form: str, **options: str) -> Sink:
    payload = PAYLOAD if form == "own" else b""
    return Sink(
        id=OperatorId("sink-0"), format=form, options=options, columns=(("n", "n"),), schema=SCHEMA, payload=payload
    )


def committable(payload: bytes) -> tuple[Committable, ...]:
    return (Committable(checkpoint=CheckpointId(1), subtask=SlotIndex(0), number=0, payload=payload),)


@pytest.mark.parametrize("form", ["parquet", "memory", "console", "foreachBatch", "own"])
def test_a_pickle_in_place_of_a_committable_is_refused(tmp_path: Path, form: str, bomb: bytes) -> None:
    """T83: by the committers that need no server; of the others below."""
    store = LocalBlobStore(tmp_path / "location")
    options = {"path": str(tmp_path / "out"), PIPELINE: "0123456789abcdef"} if form == "parquet" else {}
    committer = ByNode(store).committer(sink(form, **options))
    with pytest.raises(CorruptSnapshot, match=r"cannot be (read|decoded)"):
        committer.commit(committable(bomb))


@pytest.mark.parametrize("decode", [kafka.decode, postgres.decode, delta.decode, iceberg.decode])
def test_a_pickle_in_place_of_a_committable_of_a_server_is_refused(decode: Callable[[bytes], Any], bomb: bytes) -> None:
    """T83."""
    with pytest.raises(CorruptSnapshot, match=r"a committable of the .* cannot be read"):
        decode(bomb)


@pytest.mark.parametrize("kind", [MessageToCommit, PickledMessage])
def test_a_pickle_in_a_message_of_a_python_sink_is_refused_by_its_key(tmp_path: Path, kind: Any, bomb: bytes) -> None:
    """T83: this is where one was unpickled."""
    store = LocalBlobStore(tmp_path / "location")
    committer = ByNode(store).committer(sink("own", **{PIPELINE: "p1"}))
    assert isinstance(committer, PythonSinkCommitter)
    committer.number_batches(BatchIds(OperatorId("sink-0"), BatchId(1), ((CheckpointId(1), BatchId(0)),)))
    key = layout.waiting_key(OperatorId("sink-0"), Attempt(1), SlotIndex(0), 1)
    with pytest.raises(CorruptSnapshot, match=key):
        committer.commit(committable(msgspec.msgpack.encode(kind(attempt=Attempt(1), key=key, message=bomb))))
    store.create(key, bomb)
    with pytest.raises(CorruptSnapshot, match=key):
        committer.sweep(Attempt(2), ())


def test_a_pickle_in_the_rows_of_foreach_batch_is_refused_by_its_key(tmp_path: Path, bomb: bytes) -> None:
    """T83: with the right checksum, in the place where a slot had put the rows."""
    store = LocalBlobStore(tmp_path)
    key = layout.waiting_key(OperatorId("sink-0"), Attempt(1), SlotIndex(0), 1)
    store.create(key, bomb)
    part = BatchPart(key=key, rows=1, size_bytes=len(bomb), checksum=zlib.crc32(bomb))
    with pytest.raises(CorruptSnapshot, match=key):
        list(read_part(part, SCHEMA, "UTC", str(tmp_path), NO_OPTIONS))


def test_a_pickle_in_a_log_of_files_is_refused_by_the_logs_name(tmp_path: Path, bomb: bytes) -> None:
    """T83."""
    log = SparkLog(LocalDirectory(tmp_path))
    for line in (bomb.replace(b"\n", b" "), b'{"path":"\xff\xfe"}'):
        with pytest.raises(CorruptSnapshot, match="_spark_metadata"):
            log.decoded(line)


# --- splits and positions -----------------------------------------------------------------------------------------------------


def scans(directory: Path) -> dict[str, tuple[Scan, bytes]]:
    """Each source with a split that it could open."""
    pack_one = msgspec.msgpack.encode
    (directory / "a").write_text("")
    pl.DataFrame({"n": [1]}).write_parquet(directory / "p")
    text = pack_one(files.FileSplit(path=str(directory / "a"), size_bytes=0))
    parquet = pack_one(files.FileSplit(path=str(directory / "p"), size_bytes=(directory / "p").stat().st_size))
    rate = (Field("timestamp", t.TIMESTAMP), Field("value", t.LONG))
    return {
        "json": (scan_of("json", SCHEMA, path=directory), text),
        "csv": (scan_of("csv", SCHEMA, path=directory), text),
        "text": (scan_of("text", (Field("value", t.STRING),), path=directory), text),
        "parquet": (scan_of("parquet", SCHEMA, path=directory), parquet),
        "rate": (scan_of("rate", rate), pack_one(RateSplit(part=0, of=1, started_ms=0))),
        "own": (scan_of("own", SCHEMA, payload=PAYLOAD), pack_one(python_source.PartitionSplit(start="{}", end="{}", index=0, count=0))),
        "tidegate-nexmark": (
            scan_of("tidegate-nexmark", (Field("auction", t.LONG),), table="bid"),
            pack_one(NexmarkSplit(part=0, of=1, started_ms=0)),
        ),
    }  # fmt: skip


@pytest.mark.parametrize("form", ["json", "csv", "text", "parquet", "rate", "own", "tidegate-nexmark"])
def test_a_pickle_in_place_of_a_split_or_a_position_is_refused(tmp_path: Path, form: str, bomb: bytes) -> None:
    """T83."""
    scan, split = scans(tmp_path)[form]
    connectors = ByNode(LocalBlobStore(tmp_path / "location"))
    with pytest.raises(CorruptSnapshot, match=r"a (split|partition) of "):
        connectors.source(scan).open(Split(number=0, payload=bomb), None)
    with pytest.raises(CorruptSnapshot, match="a position of "):
        connectors.source(scan).open(Split(number=0, payload=split), bomb)
    with pytest.raises(CorruptSnapshot, match=r"cannot be (read|decoded)"):
        connectors.enumerator(scan, QueryConfig()).restore(bomb, ())


def test_a_pickle_in_place_of_what_the_kafka_source_stores_is_refused(bomb: bytes) -> None:
    """T83."""
    for decode in (kafka_splits.decode_split, kafka_splits.decode_position, kafka_splits.decode_known):
        with pytest.raises(CorruptSnapshot, match="of the Kafka source cannot be read"):
            decode(bomb)


def test_a_pickle_in_a_sealed_list_of_files_is_refused(tmp_path: Path, bomb: bytes) -> None:
    """T83: as the segment, and compressed as one."""
    scan, _ = scans(tmp_path)["json"]
    for segment in (bomb, zlib.compress(bomb)):
        state = msgspec.msgpack.encode(files.KnownFiles(segments=(segment,)))
        with pytest.raises(CorruptSnapshot, match="list of known files"):
            ByNode().enumerator(scan, BOUNDED).restore(state, ())


# --- messages -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", [False, True])
def test_a_pickle_on_the_control_channel_is_dropped_by_the_driver_and_ends_a_slot(bomb: bytes, text: bool) -> None:
    """T63: over real sockets."""
    planted = b"\x81\xa2\xff\xfe\x01" if text else bomb
    endpoints = DriverEndpoints.on_one_host()
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    try:
        driver = DriverControl(context, endpoints)
        side = SlotEndpoints(driver.address, "", endpoints.directory, endpoints.keys)
        slot = SlotControl(context, side, Attempt(1), SlotIndex(0))
        slot.socket.send(planted)
        slot.send(SlotReady(attempt=Attempt(1), slot=SlotIndex(0)))
        heard: list[Any] = []
        while not heard:
            assert driver.socket.poll(60_000)
            heard += driver.receive()
        assert heard == [SlotReady(attempt=Attempt(1), slot=SlotIndex(0))]
        driver.socket.send_multipart([b"1/0", planted])
        assert slot.socket.poll(60_000)
        with pytest.raises(SlotLost, match="control channel"):
            list(slot.receive())
    finally:
        context.destroy(linger=0)
        endpoints.remove()


def test_a_pickle_on_a_data_channel_ends_the_attempt(bomb: bytes) -> None:
    """T63: as a header, as rows, and in the metadata of rows."""
    header = struct.pack("<BIIIIQqq", 1, 1, 0, 0, 1, 0, 1, 0)
    planted = arrow({b"ARROW:extension:name": b"arrow.py_extension_type", b"ARROW:extension:metadata": bomb})
    large = arrow(
        {b"ARROW:extension:name": b"arrow.py_extension_type", b"ARROW:extension:metadata": bomb}, bytes(100_000)
    )
    for parts in ([bomb], [header, bomb], [header, planted], [header, large]):
        with pytest.raises(SlotLost):
            wire.decode(list(parts))
