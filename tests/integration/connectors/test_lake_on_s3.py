"""Tables in an object store: the same claims against a real S3 server, and what happens when it refuses."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyiceberg.catalog import load_catalog
from tests.integration.connectors.lake_tables import committer, numbers, table_sink, visible, writer, wrote
from tests.servers.s3 import REGION, AccessKey, S3Server, s3_server

from tidegate.model.errors import TidegateError, Unavailable
from tidegate.model.ids import Attempt

ANYBODY = AccessKey("", "anybody", "secret")


@dataclass(frozen=True)
class DeltaOnS3:
    server: S3Server
    bucket: str
    key: AccessKey = field(default=ANYBODY)
    format: str = "delta"
    root: Path = Path()

    @property
    def uri(self) -> str:
        return f"s3://{self.bucket}/tables/t"

    @property
    def storage(self) -> dict[str, str]:
        return {
            "AWS_ENDPOINT_URL": self.server.endpoint,
            "AWS_REGION": REGION,
            "AWS_ACCESS_KEY_ID": self.key.id,
            "AWS_SECRET_ACCESS_KEY": self.key.secret,
        }

    @property
    def options(self) -> dict[str, str]:
        return {"path": self.uri} | {f"storageOptions.{name}": value for name, value in self.storage.items()}

    @property
    def table(self) -> DeltaTable:
        return DeltaTable(self.uri, storage_options={**self.storage, "AWS_ALLOW_HTTP": "true"})

    def rows(self) -> list[dict[str, Any]]:
        return self.table.to_pyarrow_table().to_pylist()

    def versions(self) -> int:
        return self.table.version()

    def append(self, rows: pa.Table) -> None:
        write_deltalake(self.table, rows, mode="append")


@dataclass(frozen=True)
class IcebergOnS3:
    server: S3Server
    bucket: str
    directory: Path
    key: AccessKey = field(default=ANYBODY)
    format: str = "iceberg"
    root: Path = Path()

    @property
    def properties(self) -> dict[str, str]:
        return {
            "type": "sql",
            "uri": f"sqlite:///{self.directory}/catalog.db",
            "warehouse": f"s3://{self.bucket}/warehouse",
            "s3.endpoint": self.server.endpoint,
            "s3.region": REGION,
            "s3.access-key-id": self.key.id,
            "s3.secret-access-key": self.key.secret,
        }

    @property
    def options(self) -> dict[str, str]:
        return {"path": "db.t"} | {f"catalog.{name}": value for name, value in self.properties.items()}

    def rows(self) -> list[dict[str, Any]]:
        return load_catalog("default", **self.properties).load_table("db.t").scan().to_arrow().to_pylist()

    def versions(self) -> int:
        return len(load_catalog("default", **self.properties).load_table("db.t").snapshots())

    def append(self, rows: pa.Table) -> None:
        load_catalog("default", **self.properties).load_table("db.t").append(rows)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with s3_server(tmp_path_factory.mktemp("s3")) as running:
        yield running


def table_of(form: str, server: S3Server, tmp_path: Path, key: AccessKey = ANYBODY) -> DeltaOnS3 | IcebergOnS3:
    bucket = server.bucket()
    return DeltaOnS3(server, bucket, key) if form == "delta" else IcebergOnS3(server, bucket, tmp_path, key)


@pytest.mark.parametrize("form", ["delta", "iceberg"])
def test_rows_in_an_object_store_are_exactly_once(form: str, server: S3Server, tmp_path: Path) -> None:
    """Prepared, swept around, committed by two at once, committed again: objects are where they end up from the beginning."""
    table = table_of(form, server, tmp_path)
    sink = table_sink(table, partition_by=("k",))
    to = committer(sink)
    carried = wrote(writer(sink, attempt=1), 1, numbers(1, 2, 3).with_columns(k="a b/%:ü=" + numbers(1, 2, 3)["k"]))
    lost = wrote(writer(sink, attempt=1, subtask=1), 2, numbers(4))
    assert lost and visible(table) == []
    to.sweep(Attempt(2), carried)
    committers = [committer(sink) for _ in range(2)]
    threads = [threading.Thread(target=one.commit, args=(carried,)) for one in committers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    to.commit(carried)
    assert visible(table) == [1, 2, 3] and table.versions() == 1
    keys = [key for key in server.keys(table.bucket) if not key.endswith("/")]
    assert len([key for key in keys if "part-" in key]) == 3 and not any("_tidegate/" in key for key in keys)


@pytest.mark.parametrize("form", ["delta", "iceberg"])
def test_a_revoked_key_is_named_and_nothing_is_lost(form: str, server: S3Server, tmp_path: Path) -> None:
    key = server.access_key()
    table = table_of(form, server, tmp_path, key)
    sink = table_sink(table)
    with server.check_keys():
        to, out = committer(sink), writer(sink)
        first = wrote(out, 1, numbers(1))
        server.revoke(key)
        with pytest.raises(Unavailable, match="cannot "):
            to.commit(first)
        with pytest.raises(Unavailable, match="cannot write"):
            wrote(out, 2, numbers(2))
    to.commit(first)
    assert visible(table) == [1]


@pytest.mark.parametrize("form", ["delta", "iceberg"])
def test_a_bucket_that_is_not_there_is_named_at_the_start(form: str, server: S3Server, tmp_path: Path) -> None:
    bucket = "nobody-made-this"
    table = DeltaOnS3(server, bucket) if form == "delta" else IcebergOnS3(server, bucket, tmp_path)
    with pytest.raises(TidegateError, match=bucket):
        committer(table_sink(table))
