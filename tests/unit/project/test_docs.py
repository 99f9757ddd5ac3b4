"""The documentation tells the truth about the tree: links lead somewhere, named files exist, code blocks fit the code."""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
CODE = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_link_leads_to_a_file(page: Path) -> None:
    targets = re.findall(r"\]\(([^)\s]+)\)", page.read_text())
    local = [target.partition("#")[0] for target in targets if "://" not in target]
    assert [target for target in local if target and not (page.parent / target).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_link_into_a_page_leads_to_a_heading(page: Path) -> None:
    links = [target.partition("#") for target in re.findall(r"\]\(([^)\s]+#[^)\s]+)\)", page.read_text())]
    local = [(page.parent / file if file else page, anchor) for file, _, anchor in links if "://" not in file]
    assert [anchor for target, anchor in local if anchor not in anchors_of(target)] == []


def anchors_of(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_file_named_in_the_text_exists(page: Path) -> None:
    """Paths are relative to the project, the package or the tests."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    named = re.findall(r"`((?:[\w.-]+/)+[\w.-]*)`", text)
    bases = (ROOT, ROOT / "src" / "tidegate", ROOT / "tests")
    foreign = ("_tidegate/", ".venv/")
    missing = [
        path for path in named if not path.startswith(foreign) and not any((base / path).exists() for base in bases)
    ]
    assert missing == []


@pytest.mark.parametrize("page", [page for page in PAGES if CODE.search(page.read_text())], ids=name_of)
def test_code_blocks_are_python_and_import_what_exists(page: Path) -> None:
    for block in CODE.findall(page.read_text()):
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.ImportFrom) and node.module:
                module = importlib.import_module(node.module)
                assert [alias.name for alias in node.names if not hasattr(module, alias.name)] == []


def test_every_option_of_an_example_exists() -> None:
    from tidegate.api.options import OPTIONS

    others = {"path", "table", "events", "rate", "header", "rowsPerSecond"}
    known = {option.name for option in OPTIONS} | others
    for text in (page.read_text() for page in PAGES):
        # Options of a connector stand in the first column of a table on its page.
        own = {
            name for cell in re.findall(r"^\| (.*?) \|", text, re.MULTILINE) for name in re.findall(r"`(\w+)`", cell)
        }
        assert set(re.findall(r'\.option\("(\w+)"', text)) <= known | own


def test_every_requirement_stands_on_the_page_once() -> None:
    page = (ROOT / "docs" / "reference" / "requirements.md").read_text()
    assert re.findall(r"^\| (R\d+) \|", page, re.MULTILINE) == [f"R{number}" for number in range(1, 21)]


def test_decisions_are_numbered_without_gaps() -> None:
    pages = sorted((ROOT / "docs" / "decisions").glob("*.md"))
    assert [int(page.name[:4]) for page in pages] == list(range(1, len(pages) + 1))
    for number, page in enumerate(pages, start=1):
        text = page.read_text()
        assert text.startswith(f"# {number}. ")
        assert all(part in text for part in ("**Context.**", "**Decision.**", "**Consequences.**")), page.name
