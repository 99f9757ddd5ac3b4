"""Every kind of store over its real server."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.servers.hdfs import Hdfs
from tests.servers.proxy import Proxy, proxy_to
from tests.servers.s3 import S3Server

from tidegate.ports.store import BlobStore
from tidegate.storage.open import open_store
from tidegate.storage.options import StorageOptions, storage_options

OpenStore = Callable[[], BlobStore]


@dataclass(frozen=True, slots=True)
class Home:
    """A place of its own for one test. ``proxy`` stands before the server, where there is one."""

    kind: str
    location: str
    options: StorageOptions
    proxy: Proxy | None = None
    create_request: bytes = b""
    """Bytes by which the proxy knows the request that makes an object appear."""
    every_request: bytes = b""
    """Bytes that each of them has."""

    def open(self, *, make: bool = True) -> BlobStore:
        return open_store(self.location, self.options, make=make)

    def open_impatient(self) -> BlobStore:
        """For what is never answered: a test that has to wait for it waits for two seconds."""
        options = {**self.options.values, "timeoutSeconds": "2", "retries": "0"}
        return open_store(self.location, storage_options(options))


@pytest.fixture(scope="session")
def bucket(s3: S3Server) -> str:
    return s3.bucket()


@pytest.fixture
def s3_home(s3: S3Server, bucket: str) -> Iterator[Home]:
    with proxy_to(s3.port) as proxy:
        given = {**s3.options, "storage.endpoint": f"http://127.0.0.1:{proxy.port}"}
        options = {name.removeprefix("storage."): value for name, value in given.items()}
        location = f"s3://{bucket}/home {secrets.token_hex(4)}/ä"
        yield Home("s3", location, storage_options({**options, "retries": "1"}), proxy, b"PUT /", b" HTTP/1.1")


@pytest.fixture
def hdfs_home(hdfs: Hdfs) -> Iterator[Home]:
    with proxy_to(hdfs.port) as proxy:
        location = f"hdfs://127.0.0.1:{proxy.port}/homes/{secrets.token_hex(4)}"
        yield Home("hdfs", location, StorageOptions(), proxy, b"rename2", location.rpartition("/")[2].encode())


@pytest.fixture
def local_home(tmp_path: Path) -> Home:
    return Home("local", f"file://{tmp_path}/store", StorageOptions())


@pytest.fixture(params=["local", "s3", "hdfs"])
def home(request: pytest.FixtureRequest) -> Home:
    return request.getfixturevalue(f"{request.param}_home")


@pytest.fixture(params=["s3", "hdfs"])
def remote_home(request: pytest.FixtureRequest) -> Home:
    return request.getfixturevalue(f"{request.param}_home")
