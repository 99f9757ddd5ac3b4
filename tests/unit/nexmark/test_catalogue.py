"""The list of queries is whole."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from tidegate.connectors.nexmark.config import TABLES
from tidegate.model.errors import InvalidQuery
from tidegate.nexmark import QUERIES, find_query
from tidegate.nexmark.tables import Events

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "nexmark.md"


def test_there_are_q0_to_q22() -> None:
    assert [query.name for query in QUERIES] == [f"q{number}" for number in range(23)]


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query.name)
def test_a_query_reads_the_tables_it_names_and_says_how_its_last_rows_are_found(query) -> None:
    words = query.sql.replace("\n", " ").split()
    read = {word for before, word in itertools.pairwise(words) if before in ("FROM", "JOIN")}
    assert read & set(TABLES) == set(query.tables)
    assert (query.mode == "update") == bool(query.keys) == bool(query.version)


def test_the_page_has_a_line_for_every_query_and_its_deviation() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for query in QUERIES:
        assert f"| {query.name} | {query.title} | {query.needs} |" in text
        assert query.deviation in text


def test_queries_are_found_by_name_or_number() -> None:
    assert find_query("q7") is find_query("7") is find_query("Q7")
    with pytest.raises(InvalidQuery, match="q0 to q22"):
        find_query("q23")


def test_the_watermark_waits_for_the_longest_auction() -> None:
    assert Events(1).delay == "4 seconds"
    assert Events(1, event_rate=100).delay == "34 seconds"
