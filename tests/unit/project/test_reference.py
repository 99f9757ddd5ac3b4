"""Pages that are generated equal what the generator writes now."""

from __future__ import annotations

from pathlib import Path

import pytest
from reference import NOT_OFFERED, PAGES
from traps import NOT_BUILT, TRAPS, closings

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("page", ["options.md", "functions.md", "protocol.md", "traps.md"])
def test_a_generated_page_is_what_the_code_says(page: str) -> None:
    written = (ROOT / "docs" / "reference" / page).read_text()
    assert written == PAGES[page](), "run .venv/bin/python tools/reference.py"


def test_every_function_stands_on_the_page() -> None:
    from tidegate.operators.accumulators import FUNCTIONS
    from tidegate.operators.expressions import function_names

    page = (ROOT / "docs" / "reference" / "functions.md").read_text()
    missing = [name for name in (*FUNCTIONS, *function_names()) if f"`{name}`" not in page]
    assert set(missing) <= NOT_OFFERED


def test_every_trap_is_closed_by_a_test_or_its_absence_has_a_reason() -> None:
    closed = set(closings())
    assert sorted(TRAPS) == list(range(1, len(TRAPS) + 1))
    assert closed <= set(TRAPS), "a docstring names a trap that does not exist"
    assert sorted(set(TRAPS) - closed) == sorted(NOT_BUILT)
