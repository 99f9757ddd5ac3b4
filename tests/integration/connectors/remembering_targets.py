"""A query into each sink whose target remembers what was published: started again and again, its location copied, damaged, put back."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import polars as pl
import pyarrow.parquet as pq
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from tests.integration.connectors.lake_tables import IcebergSinkTable
from tests.servers.kafka import Broker
from tests.servers.postgres import Server

import tidegate
from tidegate.checkpoint import layout
from tidegate.checkpoint.layout import ManifestRef
from tidegate.connectors.kafka.client.transactions import Transactions
from tidegate.storage.local import LocalBlobStore


class Target(Protocol):
    """Where the query writes, seen with the eyes of another library."""

    format: str

    @property
    def options(self) -> dict[str, str]: ...

    def rows(self) -> list[int]: ...

    def state(self) -> object:
        """Whatever a commit, a sweep or a start could change."""
        ...


@dataclass
class Files:
    root: Path
    log: str
    format: str = "parquet"

    @property
    def options(self) -> dict[str, str]:
        return {"path": str(self.root), "sparkMetadataLog": self.log}

    def rows(self) -> list[int]:
        return [row for path in self.root.glob("part-*") for row in self._ids(path)]

    def _ids(self, path: Path) -> list[int]:
        if self.format == "parquet":
            return pq.read_table(path)["id"].to_pylist()
        lines = path.read_text().splitlines()
        return [json.loads(line)["id"] if self.format == "json" else int(line) for line in lines]

    def state(self) -> object:
        return contents(self.root)


@dataclass
class Delta:
    root: Path
    format: str = "delta"

    @property
    def options(self) -> dict[str, str]:
        return {"path": str(self.root)}

    def rows(self) -> list[int]:
        return DeltaTable(str(self.root)).to_pyarrow_table()["id"].to_pylist()

    def state(self) -> object:
        return contents(self.root)


@dataclass
class Iceberg:
    table: IcebergSinkTable
    format: str = "iceberg"

    @property
    def options(self) -> dict[str, str]:
        return self.table.options

    def rows(self) -> list[int]:
        return [row["id"] for row in self.table.rows()]

    def state(self) -> object:
        return contents(self.table.directory)


@dataclass
class Postgres:
    server: Server
    url: str
    format: str = "postgres"

    @property
    def options(self) -> dict[str, str]:
        return {"url": self.url, "dbtable": "rows"}

    def rows(self) -> list[int]:
        return [row[0] for row in self.server.query(self.url, "SELECT id FROM rows")]

    def state(self) -> object:
        asked = ("SELECT id FROM rows ORDER BY 1", "SELECT checkpoint, attempt FROM tidegate_ledger ORDER BY 1, 2")
        return [self.server.query(self.url, one) for one in (*asked, "SELECT gid FROM pg_prepared_xacts ORDER BY 1")]


@dataclass
class Kafka:
    broker: Broker
    topic: str
    format: str = "kafka"
    expected: int = 0
    """Rows that a reader waits for."""

    @property
    def options(self) -> dict[str, str]:
        return {"kafka.bootstrap.servers": self.broker.bootstrap, "topic": self.topic}

    def rows(self) -> list[int]:
        messages = self.broker.read(self.topic, self.expected)
        self.expected = len(messages)
        return [int(message.value() or b"") for message in messages]

    def state(self) -> object:
        with closing(Transactions({"bootstrap.servers": self.broker.bootstrap})) as transactions:
            names = transactions.known_ids("tidegate/")
        return sorted(self.rows()), [name for name in names if not name.endswith("/start")]


@dataclass
class Query:
    """``ids`` of files in ``in`` go to the target. ``runs`` may use any location: they are the same query."""

    spark: SparkSession
    folder: Path
    target: Target
    written: int = field(default=0)

    @property
    def location(self) -> Path:
        return self.folder / "ck"

    @property
    def incoming(self) -> Path:
        return self.folder / "in"

    def stream(self) -> DataFrame:
        self.incoming.mkdir(exist_ok=True)
        found = self.spark.readStream.schema("id bigint").parquet(str(self.incoming))
        return found.selectExpr("CAST(id AS STRING) AS value") if self.target.format in ("kafka", "text") else found

    def endless(self, location: Path | None = None, **options: str) -> tidegate.DataStreamWriter:
        """Takes a checkpoint when it is asked for one."""
        return self._writer(location, **options).trigger(checkpoint="5 minutes")

    def writer(self, location: Path | None = None, **options: str) -> tidegate.DataStreamWriter:
        return self._writer(location, **options).trigger(availableNow=True)

    def _writer(self, location: Path | None, **options: str) -> tidegate.DataStreamWriter:
        writer = tidegate.writeStream(self.stream()).format(self.target.format).options(**self.target.options)
        return writer.options(parallelism="1", checkpointLocation=str(location or self.location), **options)

    def add(self, *ids: int) -> None:
        """One file of them, seen whole."""
        self.incoming.mkdir(exist_ok=True)
        draft = self.incoming / f".{self.written:04}"
        pl.DataFrame({"id": list(ids)}, schema={"id": pl.Int64}).write_parquet(draft)
        draft.rename(self.incoming / f"{self.written:04}.parquet")
        self.written += 1

    def run(self, *ids: int, location: Path | None = None, **options: str) -> None:
        """To the end of the input, ``ids`` being new in it."""
        if ids:
            self.add(*ids)
        query = self.writer(location, **options).start()
        assert query.awaitTermination(120)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


COPIES_MAX = 20


def copy(location: Path, to: Path) -> Path:
    """A running query deletes old files meanwhile: then it is copied again."""
    for _ in range(COPIES_MAX):
        shutil.rmtree(to, ignore_errors=True)
        try:
            return Path(shutil.copytree(location, to))
        except (FileNotFoundError, shutil.Error) as error:
            changed = error
    raise changed


def newest(location: Path) -> ManifestRef:
    """By the names of the manifests that are there."""
    keys = map(layout.parse, LocalBlobStore(location, make=False).list("checkpoints/"))
    return max(key.ref for key in keys if isinstance(key, layout.ManifestKey))


def delete_newest(location: Path, *, marker: bool) -> ManifestRef:
    """``marker``: what says that it was committed goes as well."""
    ref = newest(location)
    (location / layout.manifest_key(ref)).unlink()
    if marker:
        (location / layout.committed_key(ref)).unlink(missing_ok=True)
    return ref


@contextmanager
def unchanged(target: Target, location: Path) -> Iterator[None]:
    before: tuple[Any, ...] = (target.state(), contents(location))
    yield
    assert target.state() == before[0], "the target was written to"
    assert contents(location) == before[1], "the location was written to"
