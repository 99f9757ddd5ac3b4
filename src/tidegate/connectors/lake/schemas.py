"""What a query gives, held against what a table has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tidegate.model import types as t
from tidegate.model.errors import InvalidQuery
from tidegate.model.output_mode import OutputMode
from tidegate.ports.spec import ConnectorRequest


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column that the table has."""

    name: str
    type: str
    """For people."""
    fits: Callable[[t.DataType], bool]
    """Whether the table holds values of this type as they are."""
    required: bool = False


def refuse_mismatch(table: str, result: t.Schema, columns: Sequence[TableColumn], *, merge: bool) -> t.Schema:
    """Columns of the result that the table lacks: none, unless ``merge``. InvalidQuery names every column that does not fit."""
    known = {column.name: column for column in columns}
    by_case = {column.name.lower(): column.name for column in columns}
    missing = tuple(field for field in result if field.name not in known)
    problems = [
        f"{field.name} is called {by_case[field.name.lower()]} there"
        for field in missing
        if field.name.lower() in by_case
    ]
    if missing and not merge:
        problems += [
            f"{field.name} ({t.simple_string(field.type)}) is not there"
            for field in missing
            if field.name.lower() not in by_case
        ]
    for field in result:
        column = known.get(field.name)
        if column is None:
            continue
        if not column.fits(field.type):
            problems.append(f"{field.name} is {t.simple_string(field.type)} here and {column.type} there")
        elif column.required and field.nullable:
            problems.append(f"{field.name} may be null here and must not be there")
    given = {field.name for field in result}
    problems += [
        f"{column.name} must not be null there, and the result has no such column"
        for column in columns
        if column.required and column.name not in given
    ]
    if problems:
        raise InvalidQuery(
            f"the result does not fit the table {table}: {'; '.join(problems)}",
            hint="cast, rename or drop the columns in the query"
            + ("" if merge else ', or set .option("mergeSchema", True) to add those that are not there'),
        )
    return missing


def refuse_unwritable(sink: ConnectorRequest) -> None:
    """Types, modes and partition columns that no table can hold, found before the query starts."""
    for field in sink.schema:
        reason = _unwritable(field.type)
        if reason:
            raise InvalidQuery(
                f"column {field.name!r} is a {t.simple_string(field.type)}: the {sink.format} sink cannot write {reason}",
                hint="convert it in the query (cast, or leave it out)",
            )
    if sink.mode is OutputMode.UPDATE:
        raise InvalidQuery(
            f"the {sink.format} sink cannot take back rows: output mode update is refused",
            hint="use append, complete (the table is overwritten at every checkpoint), or foreachBatch with a MERGE",
        )


def _unwritable(kind: t.DataType) -> str | None:
    match kind:
        case t.Atomic("void"):
            return "columns without a type"
        case t.Atomic(name) if name.startswith("interval"):
            return "intervals"
        case t.Map(key, value):
            return _unwritable(key) or _unwritable(value)
        case t.Array(element):
            return _unwritable(element)
        case t.Struct(fields):
            return next(filter(None, (_unwritable(field.type) for field in fields)), None)
        case _:
            return None
