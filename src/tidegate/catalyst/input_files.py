"""Where a row was read: the hidden column ``_metadata`` of file sources, ``input_file_name()`` and its relatives."""

from __future__ import annotations

from dataclasses import replace

from tidegate.catalyst.java import Java, items
from tidegate.catalyst.naming import INPUT_FILE, Names, Relation
from tidegate.catalyst.tree import read
from tidegate.model import types as t
from tidegate.model.types import Field, Struct
from tidegate.plan.expressions import Call, Column, Expression, FieldOf, Literal
from tidegate.plan.relational import Scan

METADATA = "_metadata"
FUNCTIONS = {
    "InputFileName": "file_path",
    "InputFileBlockStart": "file_block_start",
    "InputFileBlockLength": "file_block_length",
}
"""Catalyst's classes, and the field of ``_metadata`` that says the same."""
_FILE = Struct(
    (
        Field("file_path", t.STRING, False),
        Field("file_block_start", t.LONG, False),
        Field("file_block_length", t.LONG, False),
    )
)
_SCHEME = "file:"
_LONGEST = 2**31 - 1


def reads_input_files(analysed: Java) -> bool:
    """Whether the query asks for the name of the file a row comes from."""
    pending = [analysed]
    while pending:
        plan = pending.pop()
        if not plan.isStreaming() or plan.deterministic():
            pending.extend(items(plan.children()) if plan.isStreaming() else [])
            continue
        for expression in items(plan.expressions()):
            if not expression.deterministic() and any(node.kind in FUNCTIONS for node in read(expression).walk()):
                return True
        pending.extend(items(plan.children()))
    return False


def with_metadata(names: Names, scanned: Relation) -> Relation:
    """The scan of a file source with its hidden column, which no schema of the user lists."""
    scan = scanned.plan
    assert isinstance(scan, Scan)
    listed = tuple(field for field in scan.spec.schema if field.name != METADATA)
    spec = replace(scan.spec, schema=listed)
    found = [field for name, field in zip(scan.columns, scan.schema, strict=True) if name == METADATA]
    if found:
        column = Column(found[0].name, found[0].type)
        return Relation(replace(scan, spec=spec), scanned.scope.plus({INPUT_FILE: column}))
    column = names.column(METADATA, _FILE)
    hidden = replace(
        scan,
        schema=(*scan.schema, Field(column.name, column.type, False)),
        columns=(*scan.columns, METADATA),
        spec=spec,
    )
    return Relation(hidden, scanned.scope.plus({INPUT_FILE: column}))


def of_input_file(kind: str, metadata: Column) -> Expression:
    """``input_file_name()`` writes ``file:///a`` where ``_metadata.file_path`` writes ``file:/a``."""
    assert isinstance(metadata.type, Struct)
    of = next(field.type for field in metadata.type.fields if field.name == FUNCTIONS[kind])
    value = FieldOf(metadata, FUNCTIONS[kind], of)
    if kind != "InputFileName":
        return value
    start = (Literal(len(_SCHEME) + 1, t.INTEGER), Literal(_LONGEST, t.INTEGER))
    path = Call("substring", (value, *start), t.STRING, sql="input_file_name()")
    return Call("concat", (Literal(f"{_SCHEME}//", t.STRING), path), t.STRING, sql="input_file_name()")
