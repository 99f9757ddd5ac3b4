"""From a connector's frame to the rows of a Scan: the plan's names, order and types, whatever the source delivered."""

from __future__ import annotations

from typing import Protocol

import polars as pl

from tidegate.model.errors import DataError
from tidegate.model.types import Schema, simple_string
from tidegate.operators.columns import polars_type


class Wanted(Protocol):
    """Columns of a source, and their names and types in the plan: a ``ReaderContext`` says so."""

    @property
    def columns(self) -> tuple[str, ...]: ...

    @property
    def schema(self) -> Schema: ...


class RowShape:
    """Casts and renames frames with source columns into rows of the plan. Built once per reader."""

    def __init__(self, wanted: Wanted) -> None:
        self.columns = wanted.columns
        self._plan_names = tuple(field.name for field in wanted.schema)
        self._types = tuple(polars_type(field.type) for field in wanted.schema)
        self._schema = wanted.schema
        self.empty = pl.DataFrame(schema=dict(zip(self._plan_names, self._types, strict=True)))

    def rows(self, frame: pl.DataFrame, where: str) -> pl.DataFrame:
        """``frame`` holds some of the source's columns under the source's names; a missing one is null."""
        found = frame.schema
        if self.columns and all(found.get(name) == kind for name, kind in zip(self.columns, self._types, strict=True)):
            # Nothing to compute: an expression would be handed to another thread, and rows would wait for it.
            pairs = zip(self.columns, self._plan_names, strict=True)
            return pl.DataFrame([frame.get_column(source).alias(plan) for source, plan in pairs])
        expressions = [
            _conformed(found.get(source), frame.height, source, plan, kind)
            for source, plan, kind in zip(self.columns, self._plan_names, self._types, strict=True)
        ]
        if not expressions:  # count(*): rows without columns still count.
            return pl.DataFrame(height=frame.height)
        try:
            return frame.select(expressions)
        except pl.exceptions.PolarsError as error:
            raise DataError(
                f"{where} does not fit the schema {_shown(self.columns, self._schema)}: {error}",
                hint="correct the schema given to readStream, or the data",
            ) from error


def _conformed(found: pl.DataType | None, height: int, source: str, plan: str, kind: pl.DataType) -> pl.Expr:
    if found is None:
        # A scalar literal alone would make one row: repeat it for every row of the frame.
        return pl.repeat(None, height, dtype=kind).alias(plan)
    column = pl.col(source)
    if found == kind:
        return column.alias(plan)
    if isinstance(found, pl.Datetime) and isinstance(kind, pl.Datetime):
        column = column.cast(pl.Datetime("us", found.time_zone))
        if found.time_zone is None:
            column = column.dt.replace_time_zone(kind.time_zone)
        elif kind.time_zone is not None:
            column = column.dt.convert_time_zone(kind.time_zone)
    return column.cast(kind).alias(plan)


def _shown(columns: tuple[str, ...], schema: Schema) -> str:
    return ", ".join(f"{name} {simple_string(field.type)}" for name, field in zip(columns, schema, strict=True))
