"""For every sink: killed at every step of the protocol, and a zombie that commits late. Each row is visible exactly once each time.

The table of the documentation is what these tests have seen.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.integration.sink_steps.page import COMMAND, PAGE, page, written_cells
from tests.integration.sink_steps.scenarios import SCENARIOS, THOROUGH, Scenario
from tests.integration.sink_steps.sinks import ADAPTERS
from tests.integration.sink_steps.trying import Trying

SEEN: dict[tuple[str, str], int] = {}


@pytest.fixture(scope="module")
def trying() -> Iterator[Trying]:
    with Trying() as trying:
        yield trying


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.words)
@pytest.mark.parametrize("sink", ADAPTERS)
def test_every_row_is_visible_once(trying: Trying, sink: str, scenario: Scenario) -> None:
    """T1, T5, T9, T46, T54: with the real sink, and processes that really die."""
    SEEN[sink, scenario.words] = trying.sink(sink).suffer(scenario)


@pytest.mark.soak
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("scenario", THOROUGH, ids=lambda scenario: scenario.words)
@pytest.mark.parametrize("sink", ADAPTERS)
def test_every_row_is_visible_once_at_many_more_places(trying: Trying, sink: str, scenario: Scenario) -> None:
    assert trying.sink(sink).suffer(scenario) > 0


def test_the_table_in_the_documentation_is_what_was_seen() -> None:
    """Of the cases that ran: all of them, unless some were chosen."""
    written = written_cells(PAGE.read_text())
    assert {cell: written.get(cell) for cell in SEEN} == SEEN, f"run {COMMAND}"


def test_the_page_is_what_the_generator_writes() -> None:
    written = PAGE.read_text()
    assert written == page(written_cells(written)), f"run {COMMAND}"


def test_every_cell_of_the_table_has_a_number() -> None:
    written = written_cells(PAGE.read_text())
    assert {(sink, scenario.words) for sink in ADAPTERS for scenario in SCENARIOS} == written.keys(), f"run {COMMAND}"
