"""Sessions with the server, and its errors as what a person can do about them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeAlias

import psycopg
from psycopg.rows import TupleRow

from tidegate.connectors.postgres.config import PostgresConfig
from tidegate.model.errors import DataError, InvalidQuery, TidegateError, Unavailable

Connection: TypeAlias = psycopg.Connection[TupleRow]

SERVER_VERSION_MIN = 120_000
_GONE_AFTER_S = 30
"""A peer that does not acknowledge for this long is gone: no call hangs in a cut network."""
_ERRAND_IDLE_S = 5
"""A driver that was frozen or cut off in the middle of a commit holds locks that its successor waits for. The server ends its
transaction after this long; it waits for nothing between two statements, so only one that is not at work is ever late."""
_SETTINGS = """SET TimeZone = 'UTC'; SET DateStyle = 'ISO'; SET IntervalStyle = 'postgres';
SET statement_timeout = 0; SET idle_in_transaction_session_timeout = 0"""
_WRONG = (
    (
        "password authentication failed",
        "check options user and password; without password libpq asks PGPASSWORD and ~/.pgpass",
    ),
    ("no password supplied", "set option password, PGPASSWORD or ~/.pgpass, on the driver and on every executor"),
    ("no pg_hba.conf entry", "the server does not let this user in from here: see its pg_hba.conf"),
    ("does not exist", "check the database and the user of option url"),
    ("does not support SSL", "leave sslmode=require out of option url, or switch TLS on in the server"),
    ("certificate", "check sslmode, sslrootcert and sslcert of option url"),
    ("is not permitted to log in", "give the role the right to log in: ALTER ROLE … LOGIN"),
    ("permission denied for database", "give the user the right: GRANT CONNECT ON DATABASE … TO …"),
)
"""What the server or libpq says to a connection that will never succeed as it is."""


def connect(config: PostgresConfig, application_name: str) -> Connection:
    """A session in autocommit, in UTC. Raises InvalidQuery for what will not pass, Unavailable for what may."""
    try:
        connection = psycopg.connect(
            "",
            autocommit=True,
            prepare_threshold=None,  # Poolers between here and the server do not know prepared statements.
            **{  # pyright: ignore[reportArgumentType]
                "keepalives_idle": 10,
                "keepalives_interval": 5,
                "keepalives_count": 3,
                "tcp_user_timeout": _GONE_AFTER_S * 1_000,
                "client_encoding": "UTF8",
                **config.connection,
                "connect_timeout": config.connect_timeout_s,
                "application_name": application_name,
            },
        )
    except psycopg.ProgrammingError as error:
        raise InvalidQuery(f"option 'url' of the postgres sink cannot be read: {str(error).strip()}") from None
    except psycopg.Error as error:
        raise _not_connected(error, config) from error
    try:
        connection.execute(_SETTINGS)
        connection.execute("SELECT set_config('lock_timeout', %s, false)", (f"{config.lock_timeout_s}s",))
        # What was staged must survive a crash of the server, whatever its default is.
        connection.execute(
            "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"
        )
    except psycopg.Error as error:
        connection.close()
        raise explain(error, f"cannot set up a session with {config.where}") from error
    return connection


@contextmanager
def session(config: PostgresConfig, application_name: str) -> Iterator[Connection]:
    """A session for one errand of the driver. Its transactions do not outlive it, and cannot be held open by doing nothing."""
    connection = connect(config, application_name)
    try:
        with connected_errors(config, "set up a session with"):
            connection.execute(
                "SELECT set_config('idle_in_transaction_session_timeout', %s, false)", (f"{_ERRAND_IDLE_S}s",)
            )
        yield connection
    finally:
        connection.close()


@contextmanager
def connected_errors(config: PostgresConfig, doing: str) -> Iterator[None]:
    """Errors of the server inside, explained: ``cannot <doing> <where>: …``."""
    try:
        yield
    except psycopg.Error as error:
        raise explain(error, f"cannot {doing} {config.where}") from error


def explain(error: psycopg.Error, what: str) -> TidegateError:
    """InvalidQuery when set-up or rights are wrong, DataError when a row is, Unavailable when the same call may succeed later."""
    state = error.sqlstate or ""
    text = f"{what}: {_told(error)}"
    match state[:2]:
        case "22" | "23":
            return DataError(text, hint=_data_hint(state))
        case "53":
            hint = (
                "raise max_prepared_transactions of the server: each subtask needs one per checkpoint under way"
                if "prepared transactions" in str(error)
                else "the server lacks room (disk, memory, connections); it is tried again"
            )
            return Unavailable(text, hint=hint)
        case "40":
            return Unavailable(text, hint="another session wanted the same rows; it is tried again")
        case "55":
            return Unavailable(
                text,
                hint="a lock was not to be had within option lockTimeout: who holds it stands in pg_locks and pg_prepared_xacts",
            )
        case "25" if state == "25006":
            return Unavailable(text, hint="the server is a standby or read-only: connect to the primary")
        case "42" if state == "42501":
            return InvalidQuery(text, hint="give the user of the sink that right")
        case "0A" | "28" | "3D" | "3F" | "42":
            return InvalidQuery(
                text, hint="what the query started with has changed, or is not allowed: see the message"
            )
        case _:
            return Unavailable(text, hint="the server did not answer as it should; it is tried again")


def _not_connected(error: psycopg.Error, config: PostgresConfig) -> TidegateError:
    reason = " ".join(str(error).split())
    text = f"cannot connect to PostgreSQL at {config.where}: {reason}"
    for words, hint in _WRONG:
        if words in reason:
            return InvalidQuery(text, hint=hint)
    return Unavailable(text, hint="is the server up and reachable from the driver and from every executor?")


def _told(error: psycopg.Error) -> str:
    """The server's words, its detail and where in the data it was."""
    parts = (error.diag.message_primary, error.diag.message_detail, error.diag.context)
    return "; ".join(part for part in parts if part) or " ".join(str(error).split())


def _data_hint(state: str) -> str:
    match state:
        case "23505":
            return "the table has a row with this key already: option keys makes the sink replace it"
        case "23502":
            return "filter such rows out, or fill them: coalesce(column, …)"
        case "22021":
            return "text of PostgreSQL cannot hold the character U+0000: replace it in the query"
        case _:
            return "mend the row in the query, or the column or constraint of the table"
