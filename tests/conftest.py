"""Fixtures shared by all tests: one quiet Spark session per run, seeds that a failure prints, where Spark's log lies."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

import hypothesis
import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# A slow machine is not a failing test, and a failure prints the line that replays it.
hypothesis.settings.register_profile("tidegate", deadline=None, print_blob=True)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "tidegate"))


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Spark with two task slots, shared by every test of the run: use a temp view name or directory of your own."""
    from tidegate.spark.session import local_session

    session = local_session("tidegate-tests", cores=2)
    yield session
    session.stop()


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
