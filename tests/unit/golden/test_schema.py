"""A change of what is stored that old documents do not survive fails here, whatever else stays green."""

from __future__ import annotations

import base64
import copy
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.golden import documents, schema
from tests.unit.golden.test_documents import assert_says

_GOLDEN = Path(__file__).parents[2] / "golden"
VERSIONS = sorted(path.parent.name for path in _GOLDEN.glob("*/schema.json"))
NEWEST = "ca51a25"
Change = Callable[[dict[str, Any], int], None]
"""Of one struct of a schema, at one of its fields."""


def stored(version: str, file: str) -> dict[str, Any]:
    return json.loads((_GOLDEN / version / file).read_text())


@pytest.fixture(scope="module")
def today() -> schema.Schema:
    return json.loads(schema.written(schema.described()))


def test_the_formats_are_those_of_the_file(today: schema.Schema) -> None:
    """Nobody changes a format without seeing it: ``python -m tests.golden.schema`` writes the file, and the diff shows it."""
    known = json.loads(schema.TODAY.read_text())
    changed = sorted(name for name in known.keys() | today.keys() if known.get(name) != today.get(name))
    assert changed == [], "a stored struct has changed: python -m tests.golden.schema, and look at the difference"


@pytest.mark.parametrize("version", VERSIONS)
def test_documents_of_released_formats_survive_every_change_since(today: schema.Schema, version: str) -> None:
    """T79: a field that is renamed, moved, of another type or has another default needs a new number and an upgrade."""
    assert schema.contradictions(stored(version, "schema.json"), today) == []


# --- mistakes planted, one at a time --------------------------------------------------------------------------------------


def renamed(struct: dict[str, Any], at: int) -> None:
    struct["fields"][at]["name"] += "_renamed"


def removed(struct: dict[str, Any], at: int) -> None:
    del struct["fields"][at]


def retyped(struct: dict[str, Any], at: int) -> None:
    was = struct["fields"][at]["type"]
    struct["fields"][at]["type"] = "str" if was != "str" else "int"


def otherwise_when_absent(struct: dict[str, Any], at: int) -> None:
    struct["fields"][at]["default"] = "something else"


def put_before(struct: dict[str, Any], at: int) -> None:
    """A new field, which in an array takes the place of an old one."""
    struct["fields"].insert(at, {"name": "new", "type": "int", "default": 0})


def demanded(struct: dict[str, Any], at: int) -> None:
    """A new field that old documents do not have."""
    struct["fields"].append({"name": "new", "type": "int"})


@pytest.mark.parametrize("change", [renamed, removed, retyped, otherwise_when_absent, put_before, demanded])
def test_no_change_of_a_stored_field_goes_unnoticed(change: Change) -> None:
    """T79: every field of every struct that is stored, in turn."""
    was = stored(NEWEST, "schema.json")
    for name, struct in was.items():
        for at in range(len(struct["fields"])):
            changed = copy.deepcopy(was)
            change(changed[name], at)
            harmless = change is put_before and not struct["array"]
            assert bool(schema.contradictions(was, changed)) != harmless, f"{change.__name__} {name} {at}"


def test_a_field_may_be_added_with_a_default_and_parts_may_have_other_names() -> None:
    was = stored(NEWEST, "schema.json")
    changed = json.loads(json.dumps(was).replace('"OperatorSnapshot"', '"EntryOfAnOperator"'))
    for struct in changed.values():
        struct["fields"].append({"name": "new", "type": "int", "default": 0})
    assert schema.contradictions(was, changed) == []


PLANTED = [
    ("manifest-every-field", "checkpoint"),
    ("manifest-every-field", "drained"),
    ("manifest-every-field", "kind"),
    ("manifest-every-field", "operators"),
    ("manifest-every-field", "sources"),
    ("manifest-every-field", "stateful"),
    ("savepoint", "manifest"),
    ("savepoint", "drained"),
    ("claim", "attempt"),
    ("restored", "checkpoint"),
    ("committed", "checkpoint"),
    ("kafka-known", "splits"),
    ("kafka-position/1", "offset"),
    ("file/1", "path"),
    ("line/1", "offset"),
    ("files/1", "files"),
    ("postgres-staged/1", "keys"),
    ("split-watermarks/1", "splits"),
    ("source-idleness/1", "splits"),
    ("history/1", "records"),
]
"""Golden document, field: renamed, the document would be read as if it said nothing there."""


@pytest.mark.parametrize(("document", "field"), PLANTED)
def test_a_renamed_field_is_noticed_by_what_a_golden_document_says(document: str, field: str) -> None:
    """T79: not by the schema alone. The struct with the field renamed reads the real bytes of an earlier version."""
    entry = stored(NEWEST, "documents.json")[document]
    kind = documents.kind_of(entry)
    body = base64.b64decode(entry["data"])
    body = body.partition(b"\n")[2] if entry["how"] == "document" else body
    assert_says(documents.plain(msgspec.msgpack.decode(body, type=with_renamed(kind, None))), entry["says"], "")
    with pytest.raises((AssertionError, msgspec.ValidationError)):
        assert_says(documents.plain(msgspec.msgpack.decode(body, type=with_renamed(kind, field))), entry["says"], "")


def with_renamed(kind: type[msgspec.Struct], field: str | None) -> type[msgspec.Struct]:
    config = kind.__struct_config__
    return msgspec.defstruct(
        kind.__name__,
        [*_fields(kind, field)],
        tag_field=config.tag_field,
        tag=config.tag,
        array_like=config.array_like,
        omit_defaults=config.omit_defaults,
        kw_only=True,
    )


def _fields(kind: type[msgspec.Struct], renamed: str | None) -> Iterator[tuple[Any, ...]]:
    for field in msgspec.structs.fields(kind):
        name = f"{field.name}_renamed" if field.name == renamed else field.name
        default = () if field.default is msgspec.NODEFAULT else (field.default,)
        factory = field.default_factory
        made = () if factory is msgspec.NODEFAULT else (msgspec.field(default_factory=factory),)
        yield (name, field.type, *default, *made)
