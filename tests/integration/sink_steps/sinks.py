"""The real sinks: how a target is made for each, and how a reader sees what is in it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import unquote, urlsplit

import pyarrow.parquet as pq
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog
from pyiceberg.table import Table
from tests.integration.sink_steps.cases import Target, Wrong
from tests.integration.sink_steps.pipeline import CONFIG, RealSinks, SinkFormats, sink_node
from tests.integration.sink_steps.users_code import Batches, Numbers
from tests.servers import kafka, postgres, s3

from tidegate.connectors.home import Home, RealConnectors
from tidegate.connectors.kafka.client.transactions import Transactions
from tidegate.connectors.python_source.payload import pack
from tidegate.connectors.spark_types import spark_schema
from tidegate.plan.relational import Sink
from tidegate.storage.options import StorageOptions, storage_options
from tidegate.storage.output_directory import open_directory

REAL = RealSinks()
MakeTarget: TypeAlias = Callable[[Path], Target]
"""A new, empty target; the folder is its own."""


@dataclass(frozen=True)
class Adapter:
    """A column of the table. ``open`` starts what all cases share, a server for instance, given a folder to keep it in."""

    title: str
    open: Callable[[Path], AbstractContextManager[MakeTarget]]
    modules: tuple[str, ...] = ()
    """What the connector imports: loaded once, before processes are forked."""


# --- files ----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Parquet:
    folder: Path
    formats: SinkFormats = REAL

    def sink(self) -> Sink:
        return sink_node("parquet", {"path": str(self.folder)})

    def visible(self) -> list[int]:
        """As Spark sees it, which goes by the log, and as everybody else does, who goes by the names. Between commits they agree."""
        by_name = sorted(str(path) for path in self.folder.glob("part-*"))
        by_log = sorted(self._logged())
        if by_name != by_log:
            raise Wrong(f"Spark reads {by_log}, others {by_name}")
        return [row for path in by_name for row in pq.read_table(path, columns=["id"])["id"].to_pylist()]

    def leftovers(self) -> list[str]:
        return [str(path) for path in (self.folder / "_tidegate" / "staged").rglob("*") if path.is_file()]

    def _logged(self) -> list[str]:
        batches = {path.name: path.read_text() for path in (self.folder / "_spark_metadata").glob("[0-9]*")}
        return [unquote(urlsplit(uri).path) for uri in logged_uris(batches)]


def logged_uris(batches: dict[str, str]) -> list[str]:
    """What Spark takes from a log: ``batches`` are its files."""
    compact = max((int(name.removesuffix(".compact")) for name in batches if name.endswith(".compact")), default=-1)
    counted = [name for name in batches if name == f"{compact}.compact" or (name.isdigit() and int(name) > compact)]
    return [json.loads(line)["path"] for name in counted for line in batches[name].splitlines()[1:]]


@contextmanager
def files(_: Path) -> Iterator[MakeTarget]:
    yield Parquet


@dataclass(frozen=True)
class SinksInStores(RealSinks):
    options: StorageOptions

    def at(self, home: Home) -> RealConnectors:
        return RealConnectors(CONFIG, partial(open_directory, options=self.options), home)


@dataclass(frozen=True)
class ParquetOnS3:
    """Each case has a bucket of its own. What is in it is seen by the vendor's own client."""

    client: Any
    bucket: str
    formats: SinkFormats

    def sink(self) -> Sink:
        return sink_node("parquet", {"path": f"s3a://{self.bucket}/out"})

    def visible(self) -> list[int]:
        by_name = sorted(key for key in self._keys() if key.startswith("out/part-"))
        batches = {key: key.removeprefix("out/_spark_metadata/") for key in self._keys("out/_spark_metadata/")}
        texts = {name: self._read(key).decode() for key, name in batches.items() if name[0].isdigit()}
        by_log = sorted(uri.removeprefix(f"s3a://{self.bucket}/") for uri in logged_uris(texts))
        if by_name != by_log:
            raise Wrong(f"Spark reads {by_log}, others {by_name}")
        tables = [pq.read_table(BytesIO(self._read(key)), columns=["id"]) for key in by_name]
        return [row for table in tables for row in table["id"].to_pylist()]

    def leftovers(self) -> list[str]:
        return self._keys("out/_tidegate/staged/")

    def _keys(self, prefix: str = "") -> list[str]:
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=prefix)
        return [one["Key"] for page in pages for one in page.get("Contents", ())]

    def _read(self, key: str) -> bytes:
        return self.client.get_object(Bucket=self.bucket, Key=key)["Body"].read()


@contextmanager
def files_on_s3(folder: Path) -> Iterator[MakeTarget]:
    with s3.s3_server(folder / "s3") as server:
        given = {name.removeprefix("storage."): value for name, value in server.options.items()}
        formats, client = SinksInStores(storage_options(given)), server.client()
        yield lambda _: ParquetOnS3(client, server.bucket(), formats)


# --- code of the user -----------------------------------------------------------------------------------------------------


def waiting(checkpoints: Path) -> list[str]:
    """Objects beside the checkpoints that wait for code of the user."""
    return [str(path) for path in (checkpoints / "batches").glob("*/waiting/*")]


@dataclass(frozen=True)
class PythonSink:
    """A ``DataSourceStreamWriter`` whose commit is a rename."""

    folder: Path
    formats: SinkFormats = REAL

    def sink(self) -> Sink:
        options = {"folder": str(self.folder)}
        schema = spark_schema(sink_node("noop", {}).schema)
        return sink_node("numbers", options, payload=pack(Numbers, options, schema))

    def visible(self) -> list[int]:
        files = list(self.folder.glob("visible/*"))
        batches = {int(path.name.partition("-")[0]) for path in files}
        if batches != set(range(len(batches))):
            raise Wrong(f"ids of batches leave some out: {sorted(batches)}")
        return [int(line) for path in files for line in path.read_text().split()]

    def leftovers(self) -> list[str]:
        return waiting(self.folder.parent / "checkpoints")


@contextmanager
def python_sink(_: Path) -> Iterator[MakeTarget]:
    yield PythonSink


@dataclass(frozen=True)
class ForeachBatch:
    """A function that puts a batch in the place of what it has put there under the same id."""

    folder: Path

    @property
    def formats(self) -> SinkFormats:
        return Batches(self.folder)

    def sink(self) -> Sink:
        return sink_node("foreachbatch", {})

    def visible(self) -> list[int]:
        return [int(line) for path in self.folder.glob("batch-*") for line in path.read_text().split()]

    def leftovers(self) -> list[str]:
        return waiting(self.folder.parent / "checkpoints")


@contextmanager
def foreach_batch(_: Path) -> Iterator[MakeTarget]:
    yield ForeachBatch


# --- tables of files ------------------------------------------------------------------------------------------------------


def unclaimed(root: Path, known: set[str]) -> list[str]:
    """Data files that no version of the table names, and notes about files under way."""
    data = {str(path) for path in root.rglob("*.parquet")} - known
    return sorted(data) + [str(path) for path in (root / "_tidegate").rglob("*") if path.is_file()]


@dataclass(frozen=True)
class Delta:
    folder: Path
    formats: SinkFormats = REAL

    def sink(self) -> Sink:
        return sink_node("delta", {"path": str(self.folder)})

    def visible(self) -> list[int]:
        return DeltaTable(str(self.folder)).to_pyarrow_table(columns=["id"])["id"].to_pylist()

    def leftovers(self) -> list[str]:
        return unclaimed(self.folder, {unquote(urlsplit(uri).path) for uri in DeltaTable(str(self.folder)).file_uris()})


@contextmanager
def delta(_: Path) -> Iterator[MakeTarget]:
    yield Delta


@dataclass(frozen=True)
class Iceberg:
    folder: Path
    formats: SinkFormats = REAL

    def sink(self) -> Sink:
        return sink_node(
            "iceberg", {"path": "db.t"} | {f"catalog.{name}": value for name, value in self._catalog.items()}
        )

    def visible(self) -> list[int]:
        return self._table().scan(selected_fields=("id",)).to_arrow()["id"].to_pylist()

    def leftovers(self) -> list[str]:
        locations = self._table().inspect.all_data_files()["file_path"].to_pylist()
        return unclaimed(self.folder / "warehouse", {urlsplit(location).path for location in locations})

    @property
    def _catalog(self) -> dict[str, str]:
        return {
            "type": "sql",
            "uri": f"sqlite:///{self.folder}/catalog.db",
            "warehouse": f"file://{self.folder}/warehouse",
        }

    def _table(self) -> Table:
        return load_catalog("default", **self._catalog).load_table("db.t")


@contextmanager
def iceberg(_: Path) -> Iterator[MakeTarget]:
    yield Iceberg


# --- servers --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Postgres:
    """Each case has a database of its own."""

    server: postgres.Server
    url: str
    options: dict[str, str]
    formats: SinkFormats = REAL

    def sink(self) -> Sink:
        return sink_node("postgres", {"url": self.url, "dbtable": "rows", **self.options})

    def visible(self) -> list[int]:
        return [row[0] for row in self.server.query(self.url, "SELECT id FROM rows")]

    def leftovers(self) -> list[str]:
        prepared = "SELECT gid FROM pg_prepared_xacts WHERE database = current_database()"
        staged = "SELECT tablename FROM pg_tables WHERE tablename LIKE 'tidegate_staged_%'"
        tables = [row[0] for row in self.server.query(self.url, staged)]
        waiting = [
            f"{table}: {self.server.query(self.url, f'SELECT count(*) FROM {table}')[0][0]} rows" for table in tables
        ]
        return [row[0] for row in self.server.query(self.url, prepared)] + [
            one for one in waiting if not one.endswith(": 0 rows")
        ]


@contextmanager
def postgres_server(options: dict[str, str]) -> Iterator[MakeTarget]:
    with postgres.postgres_server() as server:
        yield lambda _: Postgres(server, server.database(), options)


@dataclass(frozen=True)
class Kafka:
    """Each case has a topic of its own."""

    broker: kafka.Broker
    topic: str
    formats: SinkFormats = REAL

    def sink(self) -> Sink:
        options = {"kafka.bootstrap.servers": self.broker.bootstrap, "topic": self.topic}
        return sink_node("kafka", options, columns=("value",))

    def visible(self) -> list[int]:
        """As a ``read_committed`` consumer sees it."""
        messages = self.broker.read(self.topic, 0)
        return [int(message.value() or b"") for message in messages]

    def leftovers(self) -> list[str]:
        """Records that nobody can read are part of aborted transactions; behind one that is open nobody could read on."""
        with closing(Transactions({"bootstrap.servers": self.broker.bootstrap})) as transactions:
            return list(transactions.open_ids("tidegate/"))


@contextmanager
def kafka_broker(folder: Path) -> Iterator[MakeTarget]:
    with kafka.kafka_broker(folder / "kafka", session_ms=30_000) as broker:
        yield lambda _: Kafka(broker, broker.topic(partitions=2))


FILE_MODULES = ("tidegate.connectors.files.spec",)
ADAPTERS = {
    "parquet": Adapter("Parquet", files, FILE_MODULES),
    "parquet-s3": Adapter(
        "Parquet on S3", files_on_s3, (*FILE_MODULES, "tidegate.storage.object_files", "obstore.store")
    ),
    "delta": Adapter("Delta", delta, ("tidegate.connectors.delta.spec",)),
    "iceberg": Adapter("Iceberg", iceberg, ("tidegate.connectors.iceberg.spec", "pyiceberg.catalog.sql")),
    "postgres": Adapter("PostgreSQL", lambda _: postgres_server({}), ("tidegate.connectors.postgres.spec",)),
    "postgres-upsert": Adapter(
        "PostgreSQL, upsert", lambda _: postgres_server({"keys": "id"}), ("tidegate.connectors.postgres.spec",)
    ),
    "kafka": Adapter("Kafka", kafka_broker, ("tidegate.connectors.kafka.spec",)),
    "foreachBatch": Adapter("`foreachBatch`", foreach_batch, ("tidegate.connectors.foreach_batch.spec",)),
    "python": Adapter("Python data source", python_sink, ("tidegate.connectors.python_sink.spec",)),
}
