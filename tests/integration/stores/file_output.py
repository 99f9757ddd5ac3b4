"""A file sink whose directory lies in a store, and what others see in that directory: by names, and by Spark's log."""

from __future__ import annotations

import gzip
import io
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any
from urllib.parse import unquote

import polars as pl
import pyarrow.parquet as pq
from hdfs_native import Client
from tests.integration.stores.conftest import Home
from tests.nodes import ByNode
from tests.servers.buckets import BucketServer
from tests.servers.s3 import S3Server
from tests.unit.connectors.test_file_sink import SCHEMA, prepared, rows

from tidegate.connectors.files.committer import FileSinkCommitter
from tidegate.connectors.files.sink import FileSinkWriter
from tidegate.connectors.legacy import Sink
from tidegate.model.ids import Attempt, OperatorId, SlotIndex
from tidegate.model.snapshot import Committable
from tidegate.storage.output_directory import open_directory
from tidegate.storage.places import HdfsPlace, place_of

LOG = "_spark_metadata"


@dataclass(frozen=True)
class Output:
    """``home``: how the sink comes there, through the proxy. What is seen is read by the vendors' own clients, past the proxy."""

    home: Home
    server: S3Server | BucketServer | Client
    format: str = "parquet"

    @property
    def url(self) -> str:
        """S3 by the name that Hadoop has for it."""
        return self.home.location.replace("s3://", "s3a://")

    # --- the sink --------------------------------------------------------------------------------------------------------

    def sink(self, pipeline: str = "p1", partition_by: tuple[str, ...] = (), **options: object) -> Sink:
        given = {"mergeSmallFiles": 0} | options
        return Sink(
            id=OperatorId("sink-0"),
            format=self.format,
            options={"path": self.url, "tidegate.pipeline": pipeline} | {name: str(one) for name, one in given.items()},
            columns=tuple((field.name, field.name) for field in SCHEMA),
            schema=SCHEMA,
            partition_by=partition_by,
        )

    @property
    def connectors(self) -> ByNode:
        return ByNode(None, partial(open_directory, options=self.home.options))

    def writer(self, sink: Sink, attempt: int = 1, subtask: int = 0) -> FileSinkWriter:
        writer = self.connectors.sink(sink).writer(sink, Attempt(attempt), SlotIndex(subtask))
        assert isinstance(writer, FileSinkWriter)
        return writer

    def committer(self, sink: Sink) -> FileSinkCommitter:
        committer = self.connectors.committer(sink)
        assert isinstance(committer, FileSinkCommitter)
        return committer

    def epoch(self, sink: Sink, subtasks: int, checkpoint: int = 1, attempt: int = 1) -> tuple[Committable, ...]:
        """Each subtask writes one row: a hundred times the checkpoint, and its own number."""
        owed: tuple[Committable, ...] = ()
        for subtask in range(subtasks):
            to = self.writer(sink, attempt, subtask)
            to.write(rows(100 * checkpoint + subtask))
            owed += prepared(to, checkpoint, subtask)
        return owed

    # --- what is there ---------------------------------------------------------------------------------------------------

    def files(self) -> dict[str, bytes]:
        """Everything under the directory, by its name there."""
        place = place_of(self.home.location)
        if isinstance(place, HdfsPlace):
            assert isinstance(self.server, Client)
            found = [one.path for one in self.server.list_status(place.path, recursive=True) if not one.isdir]
            return {name.partition(place.path + "/")[2]: self.server.read(name).read() for name in found}
        if isinstance(self.server, BucketServer):
            prefix = self.home.location.split("/bucket/", 1)[1] + "/"
            return {key.removeprefix(prefix): data for key, (data, _) in self.server.objects.items()}
        assert isinstance(self.server, S3Server)
        bucket, _, prefix = self.home.location.removeprefix("s3://").partition("/")
        client = _client(self.server)
        pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix + "/")
        keys = [one["Key"] for page in pages for one in page.get("Contents", ())]
        return {key[len(prefix) + 1 :]: client.get_object(Bucket=bucket, Key=key)["Body"].read() for key in keys}

    def staged(self) -> list[str]:
        return sorted(name for name in self.files() if name.startswith("_tidegate/staged/"))

    def visible(self) -> list[int]:
        """To readers that go by names; those that go by the log see the same between two commits."""
        files = self.files()
        named = sorted(name for name in files if not name.startswith("_"))
        assert sorted(self.logged(files)) == named
        return self._numbers(files, named)

    def visible_to_spark(self) -> list[int]:
        files = self.files()
        return self._numbers(files, self.logged(files))

    def logged(self, files: dict[str, bytes]) -> list[str]:
        batches = [name.removeprefix(f"{LOG}/") for name in files if re.fullmatch(rf"{LOG}/\d+(\.compact)?", name)]
        compact = max((int(name.removesuffix(".compact")) for name in batches if "." in name), default=-1)
        counted = [name for name in batches if name == f"{compact}.compact" or (name.isdigit() and int(name) > compact)]
        entries = [json.loads(line) for name in counted for line in files[f"{LOG}/{name}"].splitlines()[1:]]
        paths = [unquote(entry["path"]) for entry in entries]
        assert len(set(paths)) == len(paths), "a file is named twice"
        assert all(path.startswith(self.url + "/") for path in paths)
        names = [path[len(self.url) + 1 :] for path in paths]
        assert [entry["size"] for entry in entries] == [len(files[name]) for name in names]
        return names

    def _numbers(self, files: dict[str, bytes], names: Sequence[str]) -> list[int]:
        return sorted(number for name in names for number in self._decoded(files[name])["n"].to_list())

    def _decoded(self, data: bytes) -> pl.DataFrame:
        data = gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data
        match self.format:
            case "json":
                return pl.read_ndjson(data)
            case "csv":
                return pl.read_csv(data, has_header=False, new_columns=["k", "n"])
            case _:
                return pl.DataFrame(pq.read_table(io.BytesIO(data)))


@cache
def _client(server: S3Server) -> Any:
    """Making one takes longer than most of what is done with it."""
    return server.client()
