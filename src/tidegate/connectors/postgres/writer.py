"""Slot side: rows go to the server with COPY as they come; at the barrier they are durable there, and nobody sees them."""

from __future__ import annotations

import secrets
from contextlib import ExitStack
from typing import Protocol

import msgspec
import polars as pl
import psycopg
from psycopg import sql

from tidegate.connectors.legacy import Sink, SinkConnector
from tidegate.connectors.postgres.config import STAGED, PostgresConfig, parse_sink
from tidegate.connectors.postgres.copy_text import CopyText
from tidegate.connectors.postgres.names import Prepared, PreparedTransaction, StagedRows, Table
from tidegate.connectors.postgres.session import Connection, connect, connected_errors
from tidegate.connectors.postgres.target import PART_COLUMNS, nulls_count_as_keys, target_columns
from tidegate.model.errors import DataError
from tidegate.model.ids import Attempt, CheckpointId, SlotIndex
from tidegate.ports.sink import SinkWriter


class PostgresSink(SinkConnector):
    """Slot side."""

    guarantee = "exactly_once"

    def writer(self, sink: Sink, attempt: Attempt, subtask: SlotIndex) -> PostgresWriter:
        config = parse_sink(sink)
        way = Staging(config, attempt, subtask) if config.strategy == STAGED else Preparing(config, attempt, subtask)
        return PostgresWriter(config, way, config.names.session(attempt, subtask))


class Way(Protocol):
    """How rows wait for their commit."""

    table: Table
    """Where COPY writes."""
    extra: tuple[str, ...]
    """Columns beyond the query's."""

    def rows(self, rows: pl.DataFrame, before: int) -> pl.DataFrame:
        """What is written of them. ``before``: how many rows of this checkpoint came before."""
        ...

    def finish(self, connection: Connection | None, checkpoint: CheckpointId, rows: int) -> Prepared:
        """Ends the open transaction so that its rows survive everything. Without a connection nothing was written."""
        ...


class PostgresWriter(SinkWriter):
    """One session, one open transaction at most: from the first row after a barrier to the next barrier."""

    def __init__(self, config: PostgresConfig, way: Way, application_name: str) -> None:
        self._config = config
        self._way = way
        self._application_name = application_name
        self._connection: Connection | None = None
        self._text: CopyText | None = None
        self._refuse_null_keys = False
        self._open: ExitStack | None = None
        self._copy: psycopg.Copy | None = None
        self._rows = 0

    def write(self, rows: pl.DataFrame) -> None:
        with connected_errors(self._config, f"write to {self._config.table} at"):
            copy = self._copy or self._begin()
            assert self._text is not None
            if self._refuse_null_keys:
                self._check_keys(rows)
            written = self._way.rows(rows, self._rows)
            copy.write(self._text.encode(written))
            self._rows += written.height

    def prepare(self, checkpoint: CheckpointId) -> tuple[bytes, ...]:
        if not self._rows and not self._config.whole:
            return ()
        with connected_errors(self._config, f"keep the rows of checkpoint {checkpoint} for {self._config.table} at"):
            if self._open is not None:
                self._open.close()  # COPY ends: whatever the server objects to in the rows is said here at the latest.
            prepared = self._way.finish(self._connection if self._rows else None, checkpoint, self._rows)
        self._open, self._copy, self._rows = None, None, 0
        return (msgspec.msgpack.encode(prepared),)

    def close(self) -> None:
        """What was not prepared is not wanted: the server forgets it with the session."""
        connection, self._connection, self._open, self._copy = self._connection, None, None, None
        if connection is not None:
            connection.close()

    def _begin(self) -> psycopg.Copy:
        connection = self._session()
        table, names = self._way.table, (*self._config.columns, *self._way.extra)
        statement = sql.SQL("COPY {} ({}) FROM STDIN").format(table.sql, sql.SQL(", ").join(map(sql.Identifier, names)))
        self._open = ExitStack()
        self._copy = self._open.enter_context(connection.cursor().copy(statement))
        return self._copy

    def _session(self) -> Connection:
        """A session inside a new transaction. One that broke while nothing was in it is replaced: nothing was lost."""
        if self._connection is not None:
            try:
                self._connection.execute("BEGIN")
                return self._connection
            except psycopg.OperationalError:
                self._connection.close()
        connection = self._connection = connect(self._config, self._application_name)
        connection.execute("BEGIN")
        if self._text is None:
            targets = target_columns(connection, self._config)
            self._text = CopyText(self._config.schema, targets, self._way.extra)
            self._refuse_null_keys = bool(self._config.keys) and not nulls_count_as_keys(connection, self._config)
        return connection

    def _check_keys(self, rows: pl.DataFrame) -> None:
        for key in self._config.keys:
            if rows[key].null_count():
                raise DataError(
                    f"key column {key!r} of a row for {self._config.table} is null: no row of the table would ever match it",
                    hint=f"filter such rows out, or make the unique index of the table one with NULLS NOT DISTINCT; row: {rows.filter(pl.col(key).is_null()).row(0, named=True)}",
                )


class Preparing:
    """Rows stand in the table itself, in a prepared transaction, with a row in the ledger: both become visible or neither does."""

    extra: tuple[str, ...] = ()

    def __init__(self, config: PostgresConfig, attempt: Attempt, subtask: SlotIndex) -> None:
        self.table = config.table
        self._config = config
        self._attempt = attempt
        self._subtask = subtask

    def rows(self, rows: pl.DataFrame, before: int) -> pl.DataFrame:
        return rows

    def finish(self, connection: Connection | None, checkpoint: CheckpointId, rows: int) -> Prepared:
        assert connection is not None
        names, ledger = self._config.names, self._config.ledger
        gid = names.transaction(self._attempt, self._subtask, checkpoint)
        connection.execute(
            sql.SQL(
                "INSERT INTO {} (pipeline, sink, checkpoint, attempt, subtask, rows) VALUES (%s, %s, %s, %s, %s, %s)"
            ).format(ledger.sql),
            (names.pipeline, names.sink, checkpoint, self._attempt, self._subtask, rows),
        )
        connection.execute(sql.SQL("PREPARE TRANSACTION {}").format(sql.Literal(gid)))
        return PreparedTransaction(gid=gid, ledger=ledger, attempt=self._attempt, rows=rows)


class Staging:
    """Rows stand in a table of the sink's own; the commit moves them. They lock nothing in the meantime: with keys, the next checkpoint
    writes the same ones, and would wait for a commit that may have to wait for the next checkpoint."""

    def __init__(self, config: PostgresConfig, attempt: Attempt, subtask: SlotIndex) -> None:
        self.table = config.staging
        self.extra = PART_COLUMNS
        self._config = config
        self._attempt = attempt
        self._subtask = subtask
        # Random, so that a second writer of the same subtask could never add to the rows of the first.
        self._part = secrets.randbits(31) << 31

    def rows(self, rows: pl.DataFrame, before: int) -> pl.DataFrame:
        if self._config.keys:
            rows = rows.unique(subset=list(self._config.keys), keep="last", maintain_order=True)
        marks = (self._attempt, self._subtask, self._part)
        return rows.with_columns(
            *(pl.lit(mark, pl.Int64).alias(name) for mark, name in zip(marks, PART_COLUMNS, strict=False)),
            pl.int_range(before, before + rows.height, dtype=pl.Int64).alias(PART_COLUMNS[3]),
        )

    def finish(self, connection: Connection | None, checkpoint: CheckpointId, rows: int) -> Prepared:
        if connection is not None:
            connection.execute("COMMIT")
        config = self._config
        staged = StagedRows(
            staging=config.staging,
            table=config.table,
            ledger=config.ledger,
            columns=config.columns,
            keys=config.keys,
            whole=config.whole,
            attempt=self._attempt,
            part=self._part,
            rows=rows,
        )
        self._part += 1
        return staged
