"""The tables of a sink: looked at, made if missing, refused if rows would not fit. Runs before the query does."""

from __future__ import annotations

from collections.abc import Sequence

import psycopg
from psycopg import sql

from tidegate.connectors.postgres.column_types import TargetColumn, created_type, fits
from tidegate.connectors.postgres.config import PREPARED, STAGED, PostgresConfig
from tidegate.connectors.postgres.names import Table
from tidegate.connectors.postgres.session import SERVER_VERSION_MIN, Connection, connected_errors
from tidegate.model.errors import InvalidQuery, Unavailable
from tidegate.model.types import simple_string

PART_COLUMNS: tuple[str, ...] = ("tidegate_attempt", "tidegate_subtask", "tidegate_part", "tidegate_seq")
"""Whose a staged row is, and its place among those: (attempt, subtask, part) is what one subtask wrote for one checkpoint."""

_NULLS_NOT_DISTINCT = 150_000
"""From this version on a unique index can treat nulls as equal."""

_COLUMNS = """
SELECT a.attname, format_type(coalesce(nullif(k.typbasetype, 0), k.oid), NULL), b.typcategory::text,
       CASE WHEN a.atttypmod > 0 AND b.typname = 'numeric' THEN (a.atttypmod - 4) >> 16 & 65535 END,
       CASE WHEN a.atttypmod > 0 AND b.typname = 'numeric' THEN (a.atttypmod - 4) & 2047 END,
       a.attnotnull, a.atthasdef OR a.attidentity <> '', a.attgenerated <> '' OR a.attidentity = 'a'
  FROM pg_attribute a
  JOIN pg_type k ON k.oid = a.atttypid
  JOIN pg_type b ON b.oid = coalesce(nullif(k.typbasetype, 0), k.oid)
 WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped
 ORDER BY a.attnum"""
_UNIQUE = """
SELECT array_agg(a.attname::text ORDER BY a.attname), {}
  FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey[0:i.indnkeyatts - 1])
 WHERE i.indrelid = %s AND i.indisunique AND i.indisvalid AND i.indimmediate AND i.indpred IS NULL AND i.indexprs IS NULL
 GROUP BY i.indexrelid{}"""


def ensure(connection: Connection, config: PostgresConfig) -> None:
    """After this the query may run. Raises InvalidQuery for whatever stands against it."""
    _check_server(connection, config)
    with connected_errors(config, f"prepare {config.table} at"), connection.transaction():
        # Of two queries that start at once one waits here: IF NOT EXISTS alone is no lock.
        connection.execute("SELECT pg_advisory_xact_lock(hashtext('tidegate'), hashtext(%s))", (str(config.ledger),))
        if find(connection, config.table) is None:
            _create_target(connection, config)
        check_target(connection, config)
        _make(connection, config, config.ledger, _ledger_sql(config.ledger))
        if config.strategy == STAGED:
            _create_staging(connection, config)


def find(connection: Connection, table: Table) -> tuple[int, str] | None:
    """Its oid and kind; None: there is no such table."""
    found = connection.execute(
        "SELECT oid::bigint, relkind::text FROM pg_class WHERE oid = to_regclass(%s)", (str(table),)
    ).fetchone()
    return (int(found[0]), str(found[1])) if found is not None else None


def target_columns(connection: Connection, config: PostgresConfig) -> list[TargetColumn]:
    """Of the table, in the order of the query's columns. Raises InvalidQuery when the table is gone or has other columns."""
    found = find(connection, config.table)
    columns = {} if found is None else {one.name: one for one in _columns(connection, found[0])}
    if found is None or any(name not in columns for name in config.columns):
        raise InvalidQuery(
            f"table {config.table} at {config.where} is not what it was when the query started",
            hint="start the query again: start() says what does not fit",
        )
    return [columns[name] for name in config.columns]


def nulls_count_as_keys(connection: Connection, config: PostgresConfig) -> bool:
    """Whether rows with a null in a key column replace each other; else such a row would be added again and again."""
    found = find(connection, config.table)
    return found is not None and any(
        keys == sorted(config.keys) and nulls for keys, nulls in _unique_keys(connection, found[0])
    )


def check_target(connection: Connection, config: PostgresConfig) -> None:
    found = find(connection, config.table)
    if found is None:
        raise InvalidQuery(
            f"there is no table {config.table} at {config.where}",
            hint="create it, or let the sink do it: option createTable true",
        )
    oid, kind = found
    if kind not in ("r", "p"):
        raise InvalidQuery(
            f"{config.table} is no ordinary table", hint="write to a table, not to a view or a foreign table"
        )
    columns = {column.name: column for column in _columns(connection, oid)}
    problems = [*_misfits(config, columns), *_missing(config, columns)]
    if problems:
        raise InvalidQuery(
            f"the result does not fit table {config.table} at {config.where}: {'; '.join(problems)}",
            hint="rename or cast columns in the query, or alter the table",
        )
    _check_keys(connection, config, oid)
    rights = ["INSERT", *(["SELECT", "UPDATE"] if config.keys else []), *(["DELETE"] if config.whole else [])]
    for right in rights:
        row = connection.execute("SELECT has_table_privilege(%s::oid, %s), current_user", (oid, right)).fetchone()
        if row is not None and not row[0]:
            raise InvalidQuery(
                f"user {row[1]} lacks the right to {right} on table {config.table}",
                hint=f"GRANT {', '.join(rights)} ON {config.table} TO {row[1]}",
            )


def _check_server(connection: Connection, config: PostgresConfig) -> None:
    if connection.info.server_version < SERVER_VERSION_MIN:
        raise InvalidQuery(
            f"PostgreSQL at {config.where} is version {connection.info.server_version // 10_000}: too old",
            hint=f"version {SERVER_VERSION_MIN // 10_000} or later is needed",
        )
    with connected_errors(config, "ask"):
        row = connection.execute(
            "SELECT pg_is_in_recovery(), current_setting('max_prepared_transactions')::int"
        ).fetchone()
    standby, transactions_max = row if row is not None else (False, 0)
    if standby:
        raise Unavailable(
            f"PostgreSQL at {config.where} is a standby: nothing can be written there", hint="connect to the primary"
        )
    if config.strategy == PREPARED and transactions_max == 0:
        raise InvalidQuery(
            f"PostgreSQL at {config.where} has max_prepared_transactions = 0: it cannot keep a checkpoint's rows until the commit",
            hint="set max_prepared_transactions = 64 (three per slot) and restart the server; "
            'or have the rows staged in a table: .option("commitStrategy", "staged")',
        )


def _create_target(connection: Connection, config: PostgresConfig) -> None:
    if not config.create:
        return
    key = ""
    if config.keys:
        listed = ", ".join(sql.Identifier(name).as_string(None) for name in config.keys)
        nullable = any(field.nullable for field in config.schema if field.name in config.keys)
        nulls = nullable and connection.info.server_version >= _NULLS_NOT_DISTINCT
        key = f", UNIQUE NULLS NOT DISTINCT ({listed})" if nulls else f", PRIMARY KEY ({listed})"
    columns = ", ".join(
        f"{sql.Identifier(field.name).as_string(None)} {created_type(field.type, field.name)}"
        for field in config.schema
    )
    _make(connection, config, config.table, f"CREATE TABLE {config.table} ({columns}{key})")


def _create_staging(connection: Connection, config: PostgresConfig) -> None:
    # Not unlogged: such a table is empty after a crash of the server, and the checkpoint that named its rows is not.
    parts = ", ".join(f"{name} bigint NOT NULL" for name in PART_COLUMNS)
    copied = "INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING GENERATED INCLUDING IDENTITY"
    created = f"CREATE TABLE {config.staging} (LIKE {config.table} {copied}, {parts})"
    # Rows of a checkpoint lie together; a B-tree would make them dearer than the table they end in.
    index = f"CREATE INDEX ON {config.staging} USING brin ({', '.join(PART_COLUMNS[:3])})"
    _make(connection, config, config.staging, f"{created}; {index}")


def _ledger_sql(ledger: Table) -> str:
    return (
        f"CREATE TABLE {ledger} (pipeline text, sink text, checkpoint bigint, attempt bigint, subtask bigint,"
        " rows bigint NOT NULL, prepared_at timestamptz NOT NULL DEFAULT now(),"
        " PRIMARY KEY (pipeline, sink, checkpoint, attempt, subtask))"
    )


def _make(connection: Connection, config: PostgresConfig, table: Table, statement: str) -> None:
    if find(connection, table) is not None:
        return
    try:
        connection.execute(statement.encode())
    except (psycopg.errors.InsufficientPrivilege, psycopg.errors.InvalidSchemaName) as error:
        raise InvalidQuery(
            f"table {table} is missing at {config.where} and cannot be made: {error.diag.message_primary}",
            hint=f"create the schema, give the user the right to CREATE in it, or have somebody run: {statement}",
        ) from error


def _columns(connection: Connection, oid: int) -> list[TargetColumn]:
    return [TargetColumn(*row) for row in connection.execute(_COLUMNS, (oid,)).fetchall()]


def _misfits(config: PostgresConfig, columns: dict[str, TargetColumn]) -> list[str]:
    problems: list[str] = []
    for field in config.schema:
        column = columns.get(field.name)
        if column is None:
            close = next((name for name in columns if name.lower() == field.name.lower()), None)
            problems.append(f"it has no column {field.name!r}" + (f" (but {close!r})" if close else ""))
        elif column.generated:
            problems.append(f"column {field.name!r} is generated by the table")
        elif not fits(field.type, column):
            precision = "" if column.precision is None else f"({column.precision},{column.scale})"
            problems.append(
                f"column {field.name!r} is {column.type}{precision}, the result's {simple_string(field.type)}"
            )
    return problems


def _missing(config: PostgresConfig, columns: dict[str, TargetColumn]) -> list[str]:
    return [
        f"column {name!r} must not be null, and the result does not have it"
        for name, column in columns.items()
        if name not in config.columns and column.not_null and not (column.has_default or column.generated)
    ]


def _check_keys(connection: Connection, config: PostgresConfig, oid: int) -> None:
    if config.keys and not any(keys == sorted(config.keys) for keys, _ in _unique_keys(connection, oid)):
        listed = ", ".join(sql.Identifier(name).as_string(None) for name in config.keys)
        raise InvalidQuery(
            f"table {config.table} has no primary key or unique index on exactly ({listed})",
            hint=f"CREATE UNIQUE INDEX ON {config.table} ({listed}), or name other keys",
        )


def _unique_keys(connection: Connection, oid: int) -> Sequence[tuple[list[str], bool]]:
    """Columns of each unique index, sorted, and whether nulls are equal in it."""
    known = connection.info.server_version >= _NULLS_NOT_DISTINCT
    column, group = ("i.indnullsnotdistinct", ", i.indnullsnotdistinct") if known else ("false", "")
    return [
        (list(keys), bool(nulls)) for keys, nulls in connection.execute(_UNIQUE.format(column, group).encode(), (oid,))
    ]
