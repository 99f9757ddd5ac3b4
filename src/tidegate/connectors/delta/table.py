"""The Delta table itself: found or made, and held against the query's result before anything runs."""

from __future__ import annotations

import json
import logging
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, Field, Schema
from deltalake.exceptions import DeltaError, TableNotFoundError
from deltalake.fs import DeltaStorageHandler
from pyarrow import fs

from tidegate.connectors.delta.config import DeltaConfig
from tidegate.connectors.lake.schemas import TableColumn, refuse_mismatch
from tidegate.connectors.lake.storage import TableStorage, failed, in_short
from tidegate.model import types as t
from tidegate.model.errors import InvalidQuery, Unavailable
from tidegate.operators.columns import arrow_type

log = logging.getLogger("tidegate.connectors")

_PARTITION_TYPES = (t.BOOLEAN, *t.INTEGRAL, *t.FRACTIONAL, t.STRING, t.DATE, t.TIMESTAMP, t.TIMESTAMP_NTZ)


def storage_of(config: DeltaConfig) -> TableStorage:
    """Files of the table by path relative to it, with the credentials of the table."""
    if config.local:
        return TableStorage(lambda path: (fs.LocalFileSystem(), f"{config.uri}/{path}"))
    try:
        remote = fs.PyFileSystem(_Files(config.uri, config.storage_options))
    except Exception as error:
        raise failed(error, "reach", config.uri) from error
    return TableStorage(lambda path: (remote, path))


class _Files(DeltaStorageHandler):
    """The library's files for Arrow. Arrow writes buffers, which the library's streams do not take."""

    def open_output_stream(self, path: str, metadata: dict[str, str] | None = None) -> pa.PythonFile:
        return pa.PythonFile(_OfBytes(self._handler.open_output_stream(path, metadata)), mode="w")


class _OfBytes:
    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.closed = False

    def write(self, data: Any) -> int:
        return self._stream.write(bytes(data))

    def flush(self) -> None:
        self._stream.flush()

    def close(self) -> None:
        """What was written is an object of the store when this returns."""
        if not self.closed:
            self.closed = True
            self._stream.close()


def open_table(config: DeltaConfig) -> DeltaTable:
    """As it is now. Unavailable if it is not there any more."""
    table = find_table(config)
    if table is None:
        raise Unavailable(
            f"there is no Delta table at {config.uri}",
            hint="it was there when the query started: bring it back, or start the query again to have it made",
        )
    return table


def find_table(config: DeltaConfig) -> DeltaTable | None:
    try:
        return DeltaTable(config.uri, storage_options=config.storage_options)
    except TableNotFoundError:
        return None
    except Exception as error:
        raise failed(error, "read the Delta table", config.uri) from error


def ensure_table(config: DeltaConfig, result: t.Schema) -> DeltaTable:
    """The table, made if there is none, with columns added if the query may do that. InvalidQuery if the result does not fit."""
    table = find_table(config)
    if table is None:
        table = _made(config, result)
    _refuse_unenforced(config, table)
    _check_partitioning(config, table, result)
    added = refuse_mismatch(config.uri, result, _columns(table), merge=config.merge_schema)
    if added:
        _add_columns(config, table, added)
    return table


def partition_columns(table: DeltaTable) -> tuple[str, ...]:
    return tuple(table.metadata().partition_columns)


def _made(config: DeltaConfig, result: t.Schema) -> DeltaTable:
    _refuse_partition_types(config.partition_by, result)
    try:
        return DeltaTable.create(
            config.uri,
            _delta_schema(result),
            mode="error",
            partition_by=list(config.partition_by),
            configuration=dict(config.properties),
            storage_options=config.storage_options,
        )
    except DeltaError as error:
        if (made := find_table(config)) is not None:  # Somebody else was quicker; whether it fits is looked at next.
            return made
        raise InvalidQuery(
            f"cannot make a Delta table at {config.uri}: {in_short(error)}",
            hint="options delta.* are properties of the new table; the other words are the library's own",
        ) from error
    except Exception as error:
        raise failed(error, "make a Delta table at", config.uri) from error


def _add_columns(config: DeltaConfig, table: DeltaTable, added: t.Schema) -> None:
    try:
        table.alter.add_columns(list(_delta_schema(added).fields))
    except Exception as error:
        raise failed(error, f"add columns {', '.join(field.name for field in added)} to", config.uri) from error
    log.info("added %s to the Delta table %s", ", ".join(field.name for field in added), config.uri)


def _delta_schema(result: t.Schema) -> Schema:
    """Every column may hold nulls, as in the tables Spark's own sink makes."""
    return Schema.from_arrow(pa.schema([pa.field(field.name, arrow_type(field.type)) for field in result]))


def _columns(table: DeltaTable) -> list[TableColumn]:
    return [_column(field) for field in table.schema().fields]


def _column(field: Field) -> TableColumn:
    kind = json.loads(field.type.to_json())
    wanted = _without_nulls(kind)
    return TableColumn(
        field.name,
        kind if isinstance(kind, str) else field.type.to_json(),
        lambda given: _delta_type(given) == wanted,
        required=not field.nullable,
    )


def _delta_type(kind: t.DataType) -> Any:
    (field,) = _delta_schema((t.Field("x", kind),)).fields
    return _without_nulls(json.loads(field.type.to_json()))


def _without_nulls(kind: Any) -> Any:
    """The type without what it says about nulls inside."""
    match kind:
        case dict():
            skipped = ("nullable", "containsNull", "valueContainsNull", "metadata")
            return {name: _without_nulls(value) for name, value in kind.items() if name not in skipped}
        case list():
            return [_without_nulls(value) for value in kind]
        case _:
            return kind


def _check_partitioning(config: DeltaConfig, table: DeltaTable, result: t.Schema) -> None:
    has = partition_columns(table)
    if config.partition_by and config.partition_by != has:
        raise InvalidQuery(
            f"partitionBy names {', '.join(config.partition_by)}, but the table {config.uri} is partitioned by "
            f"{', '.join(has) or 'nothing'}",
            hint="leave partitionBy out, or name the columns of the table in its order",
        )
    given = {field.name for field in result}
    if missing := [name for name in has if name not in given]:
        raise InvalidQuery(
            f"the table {config.uri} is partitioned by {', '.join(missing)}, which the result does not have",
            hint="add the column to the query",
        )
    if given == set(has):
        raise InvalidQuery(
            "the table is partitioned by all columns of the result: nothing is left to write", hint="keep one out of it"
        )
    _refuse_partition_types(has, result)


def _refuse_partition_types(names: tuple[str, ...], result: t.Schema) -> None:
    for field in result:
        if field.name in names and field.type not in _PARTITION_TYPES and not isinstance(field.type, t.Decimal):
            raise InvalidQuery(
                f"a Delta table cannot be partitioned by {field.name!r}, a {t.simple_string(field.type)}",
                hint="partition by a column of a simple type",
            )


def _refuse_unenforced(config: DeltaConfig, table: DeltaTable) -> None:
    """Rules of the table that whoever writes data files must keep, and that are not kept here."""
    settings = table.metadata().configuration
    rules = [name for name in settings if name.startswith("delta.constraints.")]
    if settings.get("delta.columnMapping.mode", "none") != "none":
        rules.append("delta.columnMapping.mode")
    if settings.get("delta.enableRowTracking", "false").lower() == "true":
        rules.append("delta.enableRowTracking")
    if config.whole and settings.get("delta.appendOnly", "false").lower() == "true":
        rules.append("delta.appendOnly (output mode complete replaces rows)")
    for field in table.schema().fields:
        rules += [
            f"{name} of column {field.name}"
            for name in field.metadata
            if name in ("delta.invariants", "delta.generationExpression") or name.startswith("delta.identity.")
        ]
    if rules:
        raise InvalidQuery(
            f"the Delta table {config.uri} asks its writers for {', '.join(rules)}, which this sink does not do",
            hint="write to a plain table and MERGE from there, or drop the rule",
        )
    if "delta.setTransactionRetentionDuration" in settings:
        log.warning(
            "the Delta table %s forgets transactions after %s: a commit that comes later than that is not recognised",
            config.uri,
            settings["delta.setTransactionRetentionDuration"],
        )
