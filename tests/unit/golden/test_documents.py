"""Documents that earlier versions have stored, read by today's code."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.golden import documents, schema

from tidegate.checkpoint.invariants import every_source_tells_its_progress
from tidegate.checkpoint.manifest import Manifest, decode
from tidegate.checkpoint.savepoint import Savepoint

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


UNRELEASED = {"kafka-note/1"}
"""Formats that no released version has stored: until golden documents are made for the next release."""


def test_every_format_has_a_golden_document() -> None:
    golden = {documents.format_of(entry.values[0]) for entry in STORED}
    assert documents.kinds() - golden == UNRELEASED


def test_golden_documents_say_something_in_every_field() -> None:
    """T79: a field that has its default in them all could be lost without a difference."""
    entries = json.loads((_GOLDEN / NEWEST / "documents.json").read_text()).values()
    told: set[tuple[str, str]] = set()
    for entry in entries:
        if "format" in entry:
            told |= set(said(documents.decoded(entry)))
    formats = json.loads((_GOLDEN / NEWEST / "schema.json").read_text())
    fields = {(name, field["name"]) for name, struct in formats.items() for field in struct["fields"]}
    # The checksum is of the bytes, and empty once it has been checked. Types of columns are told apart by their tags.
    silent = {
        ("pipeline/1", "checksum"),
        *((name, field) for name, field in fields if formats[name]["tag"][1] in TYPES),
    }
    assert fields - told == silent - told


NEWEST = "ca51a25"
TYPES = ("array", "map", "struct", "decimal")
"""Of stored types of columns, a golden document has one."""


def said(value: Any) -> Iterator[tuple[str, str]]:
    """Struct and field, wherever there is another value than the default."""
    match value:
        case msgspec.Struct():
            for field in msgspec.structs.fields(type(value)):
                inner = getattr(value, field.name)
                default = field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()
                if inner != default:
                    yield schema.name_of(type(value)), field.encode_name
                yield from said(inner)
        case dict():
            for one in value.values():
                yield from said(one)
        case list() | tuple() | frozenset():
            for one in value:
                yield from said(one)
        case _:
            pass


LOCATIONS = sorted(_GOLDEN.glob("*/*.tar.xz"))


@pytest.mark.parametrize("archive", LOCATIONS, ids=lambda path: f"{path.parent.name} {path.name.partition('.')[0]}")
def test_every_document_of_a_stored_location_is_read_and_contradicts_nothing(archive: Path) -> None:
    """T78: what holds between the parts of a manifest has held in all that was ever stored."""
    read = 0
    with tarfile.open(archive) as files:
        for file in files:
            name = file.name.rpartition("/")[2]
            stored = files.extractfile(file)
            if name in ("manifest", "savepoint") and stored is not None:
                document = decode(Manifest if name == "manifest" else Savepoint, file.name, stored.read())
                manifest = document.manifest if isinstance(document, Savepoint) else document
                sources = [one.operator for one in manifest.operators if one.operator.startswith("source-")]
                assert sources and not [*every_source_tells_its_progress(manifest, sources)]
                read += 1
    assert read > 0


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
