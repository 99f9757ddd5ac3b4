"""Documents that earlier versions have stored, read by today's code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.golden import documents

_GOLDEN = Path(__file__).parents[2] / "golden"
STORED = [
    pytest.param(entry, id=f"{path.parent.name} {name}")
    for path in sorted(_GOLDEN.glob("*/documents.json"))
    for name, entry in json.loads(path.read_text()).items()
]


@pytest.mark.parametrize("entry", STORED)
def test_a_stored_document_still_says_what_it_said(entry: dict[str, Any]) -> None:
    """T79: a field that was renamed, or means something else now, would be read as empty."""
    assert_says(documents.plain(documents.decoded(entry)), entry["says"], "")


def test_every_kind_of_stored_document_has_a_golden_one() -> None:
    """Whoever adds a kind names it here until a released version has stored one."""
    golden = {entry.values[0]["type"] for entry in STORED}
    assert documents.kinds() - golden == set()


def assert_says(now: Any, then: Any, path: str) -> None:
    """``now`` has everything that ``then`` has, and perhaps more."""
    match then:
        case dict():
            assert isinstance(now, dict), path
            for name, value in then.items():
                assert name in now, f"{path}.{name} is not read any more"
                assert_says(now[name], value, f"{path}.{name}")
        case list() | tuple():
            # A document that is an array grows at its end.
            assert isinstance(now, list | tuple) and len(now) >= len(then), path
            for number, value in enumerate(then):
                assert_says(now[number], value, f"{path}[{number}]")
        case _:
            assert now == then, path
