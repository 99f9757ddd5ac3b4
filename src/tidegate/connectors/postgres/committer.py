"""Driver side: makes prepared rows visible, each once, however often and by however many it is asked."""

from __future__ import annotations

import time
from collections.abc import Iterable

import psycopg
from psycopg import sql

from tidegate.connectors.legacy import Sink
from tidegate.connectors.postgres import ledger
from tidegate.connectors.postgres.config import parse_sink
from tidegate.connectors.postgres.merging import merge
from tidegate.connectors.postgres.names import PreparedTransaction, StagedRows, decode
from tidegate.connectors.postgres.session import Connection, connected_errors, session
from tidegate.connectors.postgres.sweeping import sweep_database
from tidegate.connectors.postgres.target import ensure
from tidegate.model.errors import CorruptSnapshot, Unavailable
from tidegate.model.ids import Attempt
from tidegate.model.snapshot import Committable, Published, by_checkpoint
from tidegate.ports.sink import SinkCommitter

BUSY_SECONDS_MAX = 10.0


class PostgresCommitter(SinkCommitter):
    """Opens a session per errand: nothing is held between checkpoints."""

    forgets = False

    def __init__(self, sink: Sink) -> None:
        self._config = parse_sink(sink, warn=True)
        self._name = f"tidegate {self._config.names.digest} driver"
        with session(self._config, self._name) as connection:
            ensure(connection, self._config)

    def commit(self, committables: tuple[Committable, ...]) -> None:
        """Checkpoint by checkpoint. Raises CorruptSnapshot, naming the checkpoint, for rows that are neither prepared nor committed."""
        if not committables:
            return
        with session(self._config, self._name) as connection:
            for checkpoint, group in by_checkpoint(committables):
                with connected_errors(self._config, f"commit checkpoint {checkpoint} to {self._config.table} at"):
                    self._commit(connection, group)

    def published(self) -> Published | None:
        """By the ledger, which is part of every backup of the database."""
        with session(self._config, self._name) as connection, connected_errors(self._config, "read the ledger at"):
            return ledger.newest(connection, self._config.ledger, self._config.names)

    def sweep(self, older_than: Attempt, keep: tuple[Committable, ...]) -> None:
        with session(self._config, self._name) as connection, connected_errors(self._config, "clean up at"):
            sweep_database(connection, self._config, older_than, [(one, decode(one.payload)) for one in keep])

    def _commit(self, connection: Connection, committables: Iterable[Committable]) -> None:
        staged: list[tuple[Committable, StagedRows]] = []
        for one in committables:
            match decode(one.payload):
                case PreparedTransaction() as transaction:
                    self._commit_prepared(connection, one, transaction)
                case StagedRows() as rows:
                    staged.append((one, rows))
        if staged:
            merge(connection, self._config.names, staged)

    def _commit_prepared(self, connection: Connection, one: Committable, transaction: PreparedTransaction) -> None:
        """COMMIT PREPARED works once. Whoever comes later finds no such transaction: the ledger, written by the transaction itself,
        tells "committed before" from "lost"."""
        give_up = time.monotonic() + BUSY_SECONDS_MAX
        while True:
            try:
                connection.execute(sql.SQL("COMMIT PREPARED {}").format(sql.Literal(transaction.gid)))
                return
            except psycopg.errors.UndefinedObject:
                if ledger.is_committed(connection, self._config.names, one, transaction):
                    return
                raise self._lost(one, transaction) from None
            except psycopg.errors.ObjectInUse:
                # Somebody else commits it right now.
                if time.monotonic() > give_up:
                    raise Unavailable(
                        f"transaction {transaction.gid!r} of checkpoint {one.checkpoint} is busy in another session",
                        hint="somebody else is committing it; it is tried again",
                    ) from None
                time.sleep(0.01)

    def _lost(self, one: Committable, transaction: PreparedTransaction) -> CorruptSnapshot:
        return CorruptSnapshot(
            f"output of checkpoint {one.checkpoint} is lost: the {transaction.rows} rows that subtask {one.subtask} of attempt "
            f"{transaction.attempt} prepared for {self._config.table} as {transaction.gid!r} are neither prepared nor committed",
            hint=ledger.ways_out("somebody rolled the transaction back", self._config.names, [(one, transaction)]),
        )
