"""Pages that are generated equal what the generator writes now."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[3]


def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("reference", ROOT / "tools" / "reference.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("page", ["options.md", "functions.md", "protocol.md"])
def test_a_generated_page_is_what_the_code_says(page: str) -> None:
    written = (ROOT / "docs" / "reference" / page).read_text()
    assert written == generator().PAGES[page](), "run .venv/bin/python tools/reference.py"


def test_every_function_stands_on_the_page() -> None:
    from tidegate.operators.accumulators import FUNCTIONS
    from tidegate.operators.expressions import function_names

    page = (ROOT / "docs" / "reference" / "functions.md").read_text()
    missing = [name for name in (*FUNCTIONS, *function_names()) if f"`{name}`" not in page]
    assert set(missing) <= generator().NOT_OFFERED
