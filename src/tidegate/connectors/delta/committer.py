"""Driver side of the Delta sink: data files become part of the table, each once.

Every commit carries two application transactions: ``tidegate/<pipeline>/<sink>`` with the checkpoint as its version, as earlier
versions wrote it, and ``…/published`` with attempt and checkpoint. What is not newer than those in the table is there already; of two
commits that race, Delta refuses the second, because it read a table without the first's.
"""

from __future__ import annotations

from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import CommitFailedError, DeltaProtocolError
from deltalake.transaction import AddAction

from tidegate.connectors.delta.config import DeltaConfig
from tidegate.connectors.delta.files import DeltaFile, decode
from tidegate.connectors.delta.restored import restored_to
from tidegate.connectors.delta.table import ensure_table, open_table, partition_columns, storage_of
from tidegate.connectors.lake.memory import Known, prepared_for, remembered, warn_of_older_copy
from tidegate.connectors.lake.notes import SinkName, StagingNotes, file_name
from tidegate.connectors.lake.pending import newer, refuse_lost
from tidegate.connectors.lake.racing import until_accepted
from tidegate.connectors.lake.storage import failed, in_short
from tidegate.model.errors import InvalidQuery
from tidegate.model.ids import Attempt, CheckpointId
from tidegate.model.snapshot import Committable, Published
from tidegate.model.types import Schema
from tidegate.ports.context import CommitterContext
from tidegate.ports.sink import SinkCommitter

ATTEMPT_UNIT = 10**10
"""A transaction has one number: ``30000000042`` is checkpoint 42 of attempt 3. A larger checkpoint would not match the other transaction, and
count without its attempt."""


class DeltaCommitter(SinkCommitter):
    """Makes the table if there is none. Raises InvalidQuery when the result does not fit it."""

    forgets = False

    def __init__(self, config: DeltaConfig, schema: Schema, context: CommitterContext) -> None:
        self._config = config
        self._name = SinkName.of(context)
        self._table = ensure_table(config, schema)
        self._storage = storage_of(self._config)
        self._notes = StagingNotes(self._storage, "", self._name)
        self._looked = False
        self._known = Known(f"Delta table {self._config.uri}")

    @property
    def application(self) -> str:
        """Under which name the table remembers this sink's newest checkpoint."""
        return f"tidegate/{self._name.pipeline}/{self._name.sink}"

    def published(self) -> Published | None:
        """By the transactions, which Delta's ``RESTORE`` leaves as they are: after one, a warning says what the table has lost."""
        table = self._refreshed()
        newest = self._newest(table)
        if newest is not None and not self._looked and not self._config.whole:
            self._looked = True
            self._warn_of_restore(table, newest)
        return newest

    def commit(self, committables: tuple[Committable, ...]) -> None:
        """All checkpoints that are not in the table yet, in one version of it."""
        until_accepted(
            lambda: self._append_newer(committables), (CommitFailedError,), f"Delta table {self._config.uri}"
        )
        # Only now are the files the table's own: whatever comes, no sweep may take them for garbage.
        self._notes.remove(tuple(file.note for one in committables for file in decode(one.payload).files))

    def sweep(self, older_than: Attempt, keep: tuple[Committable, ...]) -> None:
        kept = frozenset(file.note for one in keep for file in decode(one.payload).files)
        garbage = self._notes.older_than(older_than, kept)
        if not garbage:
            return
        known = _names(self._refreshed())
        self._storage.delete([path for path in garbage.values() if file_name(path) not in known])
        self._notes.remove(tuple(garbage))

    def _append_newer(self, committables: tuple[Committable, ...]) -> None:
        table = self._refreshed()
        than = self._known.newest(self._newest(table))
        pending = newer(committables, than, _epoch_of, whole=self._config.whole)
        if not pending:
            return
        files = [file for one in pending for file in decode(one.payload).files]
        refuse_lost(self._storage, self._config.uri, [file.path for file in files])
        newest = _epoch_of(pending[-1])
        checkpoint = newest.checkpoint
        try:
            table.create_write_transaction(
                [_action(file) for file in files],
                mode="overwrite" if self._config.whole else "append",
                schema=table.schema(),
                partition_by=list(partition_columns(table)),
                commit_properties=CommitProperties(
                    app_transactions=self._transactions(newest),
                    custom_metadata={"tidegate.checkpoint": str(checkpoint)},
                ),
            )
        except CommitFailedError:
            raise
        except DeltaProtocolError as error:
            raise InvalidQuery(
                f"the Delta table {self._config.uri} has a feature that the deltalake library cannot write: {in_short(error)}",
                hint="a newer deltalake may know it; the prepared rows wait in the checkpoint",
            ) from error
        except Exception as error:
            raise failed(error, f"commit checkpoint {checkpoint} to the Delta table", self._config.uri) from error
        self._known.brought(newest)

    def _warn_of_restore(self, table: DeltaTable, newest: Published) -> None:
        restore = restored_to(table, self._config)
        # What has been committed since stands above: the warning was given before that.
        if restore is None or self._newest(restore.after) != newest:
            return
        holds = "an older state" if restore.before is None else self._newest(restore.before)
        if holds != newest:
            warn_of_older_copy(f"Delta table {self._config.uri}", holds, newest)

    def _newest(self, table: DeltaTable) -> Published | None:
        try:
            packed = table.transaction_version(f"{self.application}/published")
            number = table.transaction_version(self.application)
        except Exception as error:
            raise failed(error, "read the transactions of the Delta table", self._config.uri) from error
        both = None if packed is None else divmod(packed, ATTEMPT_UNIT)
        return remembered(number, None if both is None else Published(Attempt(both[0]), CheckpointId(both[1])))

    def _transactions(self, newest: Published) -> list[Transaction]:
        found = [Transaction(self.application, newest.checkpoint)]
        if newest.attempt:
            packed = newest.attempt * ATTEMPT_UNIT + newest.checkpoint
            found.append(Transaction(f"{self.application}/published", packed))
        return found

    def _refreshed(self) -> DeltaTable:
        try:
            self._table.update_incremental()
        except Exception:  # noqa: BLE001  a log that was cleaned up or a table made anew is read from its beginning
            self._table = open_table(self._config)
        return self._table


def _epoch_of(one: Committable) -> Published:
    return prepared_for(one.checkpoint, tuple(file.note for file in decode(one.payload).files))


def _action(file: DeltaFile) -> AddAction:
    return AddAction(
        path=file.path,
        size=file.size_bytes,
        partition_values=file.partition,
        modification_time=file.modified_ms,
        data_change=True,
        stats=file.statistics,
    )


def _names(table: DeltaTable) -> set[str]:
    """Of the files that are part of the table. For a table of many files this takes a moment."""
    return {file_name(uri) for uri in table.file_uris()}
