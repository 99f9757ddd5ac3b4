"""What users see by `help()`: every public name is documented, and what PySpark has keeps PySpark's name."""

from __future__ import annotations

import inspect

import pytest
from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

import tidegate

CLASSES = [tidegate.DataStreamWriter, tidegate.Job, tidegate.StreamingJob, tidegate.StreamingQuery]


def members(of: type) -> dict[str, object]:
    return {name: member for name, member in vars(of).items() if not name.startswith("_")}


@pytest.mark.parametrize("name", sorted(set(tidegate.__all__) - {"__version__"}))
def test_every_public_name_is_there_and_documented(name: str) -> None:
    assert inspect.getdoc(getattr(tidegate, name))


@pytest.mark.parametrize("of", CLASSES, ids=lambda of: of.__name__)
def test_every_public_member_is_documented(of: type) -> None:
    assert [name for name, member in members(of).items() if not inspect.getdoc(member)] == []


@pytest.mark.parametrize(
    ("ours", "theirs", "missing"),
    [(tidegate.DataStreamWriter, DataStreamWriter, {"clusterBy"}), (tidegate.StreamingQuery, StreamingQuery, set())],
)
def test_whatever_pyspark_offers_has_the_same_name_here(ours: type, theirs: type, missing: set[str]) -> None:
    assert set(members(theirs)) - set(members(ours)) == missing


def test_a_job_is_asked_like_a_query() -> None:
    only_of_jobs = {"names", "queries", "query"}
    assert set(members(tidegate.StreamingJob)) - only_of_jobs <= set(members(tidegate.StreamingQuery))
