"""Which rows are late, beside Structured Streaming: every row that it gives, when it gives it. `make eventtime` runs all of it ten times."""

from __future__ import annotations

import zlib
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.integration.event_time.engines import run_on_tidegate
from tests.integration.event_time.scenarios import SCENARIOS, scenario
from tests.integration.event_time.verdict import oracle

pytestmark = pytest.mark.spark
VARIATIONS = {
    "one parquet file in random order, available now",
    "one parquet file in random order, drained",
    "64 parquet files in random order, endless",
    "64 parquet files in random order, drained",
    "one csv file in random order, endless",
    "one csv file in random order, drained",
    "64 csv files in random order, available now",
    "64 csv files in random order, drained",
    "one json file in random order, endless",
    "one json file in random order, available now",
    "64 json files in random order, endless",
    "64 json files in random order, available now",
    "backlog of part files",
    "one by one deduplicated",
    "bursts",
    "late for a session",
    "one file per trigger in windows",
    "bursts three files per trigger",
    "restarts between bursts two files per trigger",
}
"""Of what the other scenarios show: `make soak` runs them here."""


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.soak if n in VARIATIONS else ()) for n in SCENARIOS]
)
def test_rows_are_late_only_where_they_are_for_spark(spark: SparkSession, tmp_path: Path, name: str, seed: int) -> None:
    """T69, T70: files of one time range, bursts after silence, quiet streams; no fault, and nothing is lost."""
    made = scenario(name, seed)
    asked = oracle(spark, made, tmp_path)
    parallelism = 1 + zlib.crc32(name.encode()) % 2
    run = run_on_tidegate(spark, made, tmp_path / "tidegate", parallelism)
    assert not asked.problems(run), f"parallelism {parallelism}: {asked.problems(run)}"


def test_variations_are_scenarios() -> None:
    assert SCENARIOS.keys() > VARIATIONS
