"""Driver side of the Delta sink: data files become part of the table, each once.

Every commit carries an application transaction ``(tidegate/<pipeline>/<sink>, checkpoint)``. What is not newer than the one in the
table is there already; of two commits that race, Delta refuses the second, because it read a table without the first's.
"""

from __future__ import annotations

from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import CommitFailedError, DeltaProtocolError
from deltalake.transaction import AddAction

from tidegate.connectors.delta.config import parse_sink
from tidegate.connectors.delta.files import DeltaFile, decode
from tidegate.connectors.delta.table import ensure_table, open_table, partition_columns, storage_of
from tidegate.connectors.lake.notes import SinkName, StagingNotes, file_name
from tidegate.connectors.lake.pending import newer, refuse_lost
from tidegate.connectors.lake.racing import until_accepted
from tidegate.connectors.lake.storage import failed, in_short
from tidegate.model.errors import InvalidQuery
from tidegate.model.ids import Attempt
from tidegate.model.snapshot import Committable
from tidegate.plan.relational import Sink


class DeltaCommitter:
    """Makes the table if there is none. Raises InvalidQuery when the result does not fit it."""

    def __init__(self, sink: Sink) -> None:
        self._config = parse_sink(sink, warn=True)
        self._name = SinkName.of(sink)
        self._table = ensure_table(self._config, sink.schema)
        self._storage = storage_of(self._config)
        self._notes = StagingNotes(self._storage, "", self._name)

    @property
    def application(self) -> str:
        """Under which name the table remembers this sink's newest checkpoint."""
        return f"tidegate/{self._name.pipeline}/{self._name.sink}"

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
        pending = newer(committables, table.transaction_version(self.application), whole=self._config.whole)
        if not pending:
            return
        files = [file for one in pending for file in decode(one.payload).files]
        refuse_lost(self._storage, self._config.uri, [file.path for file in files])
        checkpoint = max(one.checkpoint for one in pending)
        try:
            table.create_write_transaction(
                [_action(file) for file in files],
                mode="overwrite" if self._config.whole else "append",
                schema=table.schema(),
                partition_by=list(partition_columns(table)),
                commit_properties=CommitProperties(
                    app_transactions=[Transaction(self.application, checkpoint)],
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

    def _refreshed(self) -> DeltaTable:
        try:
            self._table.update_incremental()
        except Exception:  # noqa: BLE001  a log that was cleaned up or a table made anew is read from its beginning
            self._table = open_table(self._config)
        return self._table


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
