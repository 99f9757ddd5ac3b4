"""Fixtures shared by all tests: one quiet Spark session per run, seeds that a failure prints, where Spark's log lies."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

import hypothesis
import pytest
from tests.jvm import prefer_short_lives

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from tests.servers.hdfs import Hdfs
    from tests.servers.kafka import Broker
    from tests.servers.postgres import Server
    from tests.servers.s3 import S3Server

# A slow machine is not a failing test, and a failure prints the line that replays it. `make test` tries the same examples everywhere, so that
# a commit is green or red for what it changed; `make properties` looks for new ones.
hypothesis.settings.register_profile("tidegate", deadline=None, print_blob=True, derandomize=True)
hypothesis.settings.register_profile("search", deadline=None, print_blob=True)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "tidegate"))

prefer_short_lives()


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Spark with two task slots, shared by every test of the run: use a temp view name or directory of your own."""
    from tidegate.spark.session import local_session

    session = local_session("tidegate-tests", cores=2)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A Kafka broker, shared by every test of the run: make topics of your own. Who kills one starts one of its own."""
    from tests.servers.kafka import kafka_broker

    with kafka_broker(tmp_path_factory.mktemp("kafka") / "broker", session_ms=30_000) as broker:
        yield broker


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """A PostgreSQL server, shared by every test of the run: make a database of your own. Who kills one starts one of its own."""
    from tests.servers.postgres import postgres_server

    with postgres_server() as server:
        yield server


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """An S3 server, shared by every test of the run: make a bucket of your own."""
    from tests.servers.s3 import s3_server

    with s3_server(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture(scope="session")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hdfs]:
    """An HDFS cluster, shared by every test of the run: use a directory of your own."""
    from tests.servers.hdfs import hdfs_cluster

    with hdfs_cluster(tmp_path_factory.mktemp("hdfs")) as cluster:
        yield cluster


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """The same for the same test on every machine; ``TIDEGATE_SEED`` chooses another."""
    chosen = os.environ.get("TIDEGATE_SEED")
    return int(chosen) if chosen else zlib.crc32(request.node.nodeid.encode())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    report = yield
    names = getattr(item, "fixturenames", ())
    if report.failed and "spark" in names:
        from tidegate.spark.session import spark_log_path

        report.sections.append(("Spark's log", str(spark_log_path())))
    if report.failed and "seed" in names:
        report.sections.append(("replay", f"TIDEGATE_SEED={item.funcargs.get('seed')}"))  # type: ignore[attr-defined]
    return report
