"""What every stored document is made of: fields, types, defaults, order. And which changes old documents survive.

python -m tests.golden.schema        writes tests/golden/schema.json: the formats of this tree, whose changes are to be seen
python -m tests.golden.schema FILE   of the version that is imported
"""

from __future__ import annotations

import importlib
import json
import pkgutil
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec import inspect

import tidegate

TODAY = Path(__file__).with_name("schema.json")
_FORMAT = re.compile(r"[a-z-]+/\d+")
_NOT_STORED = ("tidegate.testing",)
_NEVER_STORED = {("OperatorSnapshot", "source")}
"""In messages alone: a manifest has it in ``sources``."""
Schema = dict[str, Any]
"""By name: a root is named by its format, a part by its class."""


def roots() -> list[type[msgspec.Struct]]:
    """Every struct whose tag is a format, anywhere in the package, today's and older ones."""
    modules = (module.name for module in pkgutil.walk_packages(tidegate.__path__, "tidegate."))
    stored = (name for name in modules if not name.startswith(_NOT_STORED) and not name.endswith("__main__"))
    found = {kind for name in stored for kind in vars(importlib.import_module(name)).values() if _has_format(kind)}
    return sorted(found, key=lambda kind: (str(kind.__struct_config__.tag), name_of(kind)))


def _has_format(kind: Any) -> bool:
    is_struct = isinstance(kind, type) and issubclass(kind, msgspec.Struct)
    return is_struct and _FORMAT.fullmatch(str(kind.__struct_config__.tag)) is not None


def name_of(kind: type[msgspec.Struct]) -> str:
    """Not by module or class: both may be renamed. A tag alone is not unique: a split and a transaction are both ``kafka/1``."""
    tag = kind.__struct_config__.tag
    if tag is None:
        return kind.__name__
    package = kind.__module__.removeprefix("tidegate.")
    package = _MOVED.get(package, package)
    return f"{package} {tag}" if tag in _AMBIGUOUS else str(tag)


_AMBIGUOUS = frozenset({"kafka/1"})
_MOVED = {
    "connectors.kafka.sink.names": "connectors.kafka.names",
    "connectors.kafka.source.splits": "connectors.kafka.splits",
}
"""Modules, and where released versions had them."""


def described() -> Schema:
    schema: Schema = {}
    for kind in roots():
        _describe(kind, schema)
    return dict(sorted(schema.items()))


def _describe(kind: type[msgspec.Struct], schema: Schema) -> str:
    name = name_of(kind)
    if name not in schema:
        config = kind.__struct_config__
        schema[name] = entry = {"array": config.array_like, "tag": [config.tag_field, config.tag], "fields": []}
        entry["fields"] = [
            {"name": field.encode_name, "type": _type(field.type, schema), **_default(field)}
            for field in _struct(kind).fields
            if (kind.__name__, field.name) not in _NEVER_STORED
        ]
    return name


def _struct(kind: type[msgspec.Struct]) -> inspect.StructType:
    info = inspect.type_info(kind)
    assert isinstance(info, inspect.StructType)
    return info


def _default(field: inspect.Field) -> dict[str, Any]:
    if field.default is not inspect.NODEFAULT:
        return {"default": msgspec.to_builtins(field.default, str_keys=True)}
    if field.default_factory is not inspect.NODEFAULT:
        return {"default": msgspec.to_builtins(field.default_factory(), str_keys=True)}
    return {}


def _type(info: Any, schema: Schema) -> Any:
    match info:
        case inspect.StructType(cls=cls):
            return {"struct": _describe(cls, schema)}
        case inspect.EnumType(cls=cls):
            return {"enum": sorted(msgspec.to_builtins(one) for one in cls)}
        case inspect.LiteralType(values=values):
            return {"enum": sorted(values)}
        case inspect.UnionType(types=types):
            return {"union": [_type(one, schema) for one in types]}
        case inspect.TupleType(item_types=types):
            return {"tuple": [_type(one, schema) for one in types]}
        case inspect.NamedTupleType(fields=fields):
            return {"tuple": [_type(field.type, schema) for field in fields]}
        case inspect.VarTupleType(item_type=one) | inspect.ListType(item_type=one):
            return {"list": _type(one, schema)}
        case inspect.FrozenSetType(item_type=one) | inspect.SetType(item_type=one):
            return {"list": _type(one, schema)}
        case inspect.DictType(key_type=key, value_type=value):
            return {"dict": [_type(key, schema), _type(value, schema)]}
        case _:
            return type(info).__name__.removesuffix("Type").lower()


# --- changes that old documents survive -----------------------------------------------------------------------------------


def contradictions(old: Schema, new: Schema) -> list[str]:
    """Why documents of the old formats cannot be read with the new ones, or would say something else. Roots are compared, with all
    that they are made of: names of parts do not matter."""
    roots = [name for name, entry in old.items() if entry["tag"][1] is not None]
    return [
        f"{words}: raise the number of the format and write an upgrade (model/formats.py)"
        for name in roots
        for words in _compared(name, name, old, new, name, frozenset())
    ]


def _compared(was: str, now: str, old: Schema, new: Schema, at: str, above: frozenset[str]) -> Iterator[str]:
    if was in above:
        return
    if now not in new:
        yield f"{at} is gone"
        return
    before, after = old[was], new[now]
    if (before["array"], before["tag"]) != (after["array"], after["tag"]):
        yield f"{at} is laid out or tagged otherwise"
    known = {field["name"]: field for field in after["fields"]}
    for number, field in enumerate(before["fields"]):
        name = field["name"]
        path = f"{at}.{name}"
        found = known.pop(name, None)
        if found is None:
            yield f"{path} is gone or has another name"
            continue
        if before["array"] and [one["name"] for one in after["fields"]].index(name) != number:
            yield f"{path} has moved"
        if ("default" in field) != ("default" in found) or field.get("default") != found.get("default"):
            yield f"{path} means {found.get('default', 'something that must be said')!r} when it is absent, not {field.get('default', 'nothing')!r}"
        yield from _types(field["type"], found["type"], old, new, path, above | {was})
    for name, field in known.items():
        if "default" not in field:
            yield f"{at}.{name} is new and has no default"


def _types(was: Any, now: Any, old: Schema, new: Schema, at: str, above: frozenset[str]) -> Iterator[str]:
    match was, now:
        case {"struct": before}, {"struct": after}:
            yield from _compared(before, after, old, new, at, above)
        case {"enum": before}, {"enum": after} if set(before) <= set(after):
            pass
        case {"list": before}, {"list": after}:
            yield from _types(before, after, old, new, at, above)
        case ({"tuple": before}, {"tuple": after}) | ({"dict": before}, {"dict": after}) if len(before) == len(after):
            for one, other in zip(before, after, strict=True):
                yield from _types(one, other, old, new, at, above)
        case {"union": before}, {"union": after} if len(before) <= len(after):
            for one, other in zip(before, after, strict=False):
                yield from _types(one, other, old, new, at, above)
        case _ if was != now:
            yield f"{at} is of another type: {json.dumps(was)} → {json.dumps(now)}"
        case _:
            pass


def written(schema: Schema) -> str:
    return json.dumps(schema, indent=1, sort_keys=True) + "\n"


if __name__ == "__main__":
    (Path(sys.argv[1]) if sys.argv[1:] else TODAY).write_text(written(described()))
