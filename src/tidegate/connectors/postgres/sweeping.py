"""What attempts before this one left in the database and nobody will commit: removed. Never another pipeline's, never a newer attempt's."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import psycopg
from psycopg import sql

from tidegate.connectors.postgres import ledger
from tidegate.connectors.postgres.config import PostgresConfig
from tidegate.connectors.postgres.merging import parts_of
from tidegate.connectors.postgres.names import Prepared, PreparedTransaction, StagedRows, session_attempt
from tidegate.connectors.postgres.session import Connection
from tidegate.connectors.postgres.target import PART_COLUMNS
from tidegate.model.ids import Attempt
from tidegate.model.snapshot import Committable

_SESSIONS = """
SELECT pid, application_name FROM pg_stat_activity
 WHERE starts_with(application_name, %s) AND usename = current_user AND datname = current_database() AND pid <> pg_backend_pid()"""
_TRANSACTIONS = (
    "SELECT gid FROM pg_prepared_xacts WHERE starts_with(gid, 'tidegate/') AND database = current_database()"
)
_STAGING = """
SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace AND n.nspname = coalesce(%s, current_schema())
 WHERE c.relkind = 'r' AND starts_with(c.relname, %s)"""


def sweep_database(
    connection: Connection, config: PostgresConfig, older_than: Attempt, keep: Sequence[tuple[Committable, Prepared]]
) -> None:
    _end_sessions(connection, config, older_than)
    _roll_back(connection, config, older_than, keep)
    _delete_staged(connection, config, older_than, [(one, rows) for one, rows in keep if isinstance(rows, StagedRows)])
    ledger.trim(connection, config.ledger, config.names)


def _end_sessions(connection: Connection, config: PostgresConfig, older_than: Attempt) -> None:
    """A slot that hangs or lost its driver may sit in an open transaction, whose locks would stop its successor."""
    for pid, name in connection.execute(_SESSIONS, (config.names.session_prefix,)).fetchall():
        attempt = session_attempt(name)
        if attempt is not None and attempt < older_than:
            connection.execute("SELECT pg_terminate_backend(%s)", (pid,))


def _roll_back(
    connection: Connection, config: PostgresConfig, older_than: Attempt, keep: Sequence[tuple[Committable, Prepared]]
) -> None:
    kept = {prepared.gid for _, prepared in keep if isinstance(prepared, PreparedTransaction)}
    for (gid,) in connection.execute(_TRANSACTIONS).fetchall():
        attempt = config.names.attempt_of(gid)
        if attempt is None or attempt >= older_than or gid in kept:
            continue
        # Gone, or in somebody's hands, since we looked: the next round sees what became of it.
        with suppress(psycopg.errors.UndefinedObject, psycopg.errors.ObjectInUse):
            connection.execute(sql.SQL("ROLLBACK PREPARED {}").format(sql.Literal(gid)))


def _delete_staged(
    connection: Connection, config: PostgresConfig, older_than: Attempt, keep: Sequence[tuple[Committable, StagedRows]]
) -> None:
    """Also in tables of the sink whose result had other columns; such a table goes when it is empty."""
    names = connection.execute(_STAGING, (config.table.schema, config.names.staging_prefix)).fetchall()
    attempt, *_ = map(sql.Identifier, PART_COLUMNS)
    marks = sql.SQL(", ").join(map(sql.Identifier, PART_COLUMNS[:3]))
    for (name,) in names:
        table = config.table.beside(name)
        kept = parts_of([(one, rows) for one, rows in keep if rows.staging.name == name])
        connection.execute(
            sql.SQL(
                "DELETE FROM {} WHERE {} < %s"
                " AND ({}) NOT IN (SELECT * FROM unnest(%s::bigint[], %s::bigint[], %s::bigint[]))"
            ).format(table.sql, attempt, marks),
            (older_than, *kept),
        )
        if name != config.staging.name and not kept[0]:
            left = connection.execute(sql.SQL("SELECT 1 FROM {} LIMIT 1").format(table.sql)).fetchone()
            if left is None:
                connection.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(table.sql))
