"""Driver side of the Iceberg sink: data files become part of the table, each once.

Every commit appends one snapshot, whose summary names pipeline, sink and checkpoint, and sets one property of the table to the same
checkpoint, in one change of the table's metadata. What is not newer than the property is there already. The property outlives the
snapshots, which people expire.

Of two commits that race, the catalogue refuses the second, because it was made for a table whose newest snapshot was another. The
``pyiceberg`` library would then refresh and append once more, rows and all; here it is told not to, and the property is read again.
"""

from __future__ import annotations

from pyiceberg.exceptions import CommitFailedException, ValidationException
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.table import Table, Transaction

from tidegate.connectors.iceberg.config import parse_sink
from tidegate.connectors.iceberg.files import IcebergFile, decode, entry
from tidegate.connectors.iceberg.table import IcebergTables, explained, storage_of
from tidegate.connectors.lake.notes import SinkName, StagingNotes, file_name
from tidegate.connectors.lake.pending import newer, refuse_lost
from tidegate.connectors.lake.racing import until_accepted
from tidegate.model.errors import InvalidQuery
from tidegate.model.ids import Attempt
from tidegate.model.snapshot import Committable
from tidegate.plan.relational import Sink

REFUSALS = (CommitFailedException, ValidationException)
"""The table was changed by somebody else meanwhile."""

PIPELINE, SINK, CHECKPOINT = "tidegate.pipeline", "tidegate.sink", "tidegate.checkpoint"
"""In the summary of a snapshot."""

MERGE, RETRIES = "commit.manifest-merge.enabled", "commit.retry.num-retries"
"""Properties of a table that change how the library commits."""


class IcebergCommitter:
    """Makes the table if there is none. Raises InvalidQuery when the result does not fit it."""

    def __init__(self, sink: Sink) -> None:
        self._config = parse_sink(sink, warn=True)
        self._name = SinkName.of(sink)
        self._tables = IcebergTables(self._config)
        self._files = _Files(self._name, self._tables.ensure(sink.schema))

    @property
    def property(self) -> str:
        """Under which name the table remembers this sink's newest checkpoint."""
        return f"tidegate.committed.{self._name.pipeline}.{self._name.sink}"

    def commit(self, committables: tuple[Committable, ...]) -> None:
        """All checkpoints that are not in the table yet, in one snapshot."""
        until_accepted(
            lambda: self._append_newer(self._tables.load(), committables),
            REFUSALS,
            f"Iceberg table {self._config.table}",
        )
        # Only now are the files the table's own: whatever comes, no sweep may take them for garbage.
        self._files.notes.remove(tuple(file.note for one in committables for file in decode(one.payload).files))

    def sweep(self, older_than: Attempt, keep: tuple[Committable, ...]) -> None:
        kept = frozenset(file.note for one in keep for file in decode(one.payload).files)
        garbage = self._files.notes.older_than(older_than, kept)
        if not garbage:
            return
        table = self._tables.load()
        self._files.follow(table)
        known = _names(table)
        self._files.storage.delete([location for location in garbage.values() if file_name(location) not in known])
        self._files.notes.remove(tuple(garbage))

    def _append_newer(self, table: Table, committables: tuple[Committable, ...]) -> None:
        self._files.follow(table)
        pending = newer(committables, self._newest(table), whole=self._config.whole)
        if not pending:
            return
        files = [file for one in pending for file in decode(one.payload).files]
        self._refuse_other_spec(table, files)
        refuse_lost(self._files.storage, self._config.table, [file.location for file in files])
        checkpoint = max(one.checkpoint for one in pending)
        try:
            change = _for_commit(table).transaction()
            self._fill(change, files, checkpoint)
            change.commit_transaction()
        except REFUSALS:
            raise
        except Exception as error:
            doing = f"commit checkpoint {checkpoint} to the Iceberg table"
            raise explained(error, doing, self._config.table) from error

    def _fill(self, change: Transaction, files: list[IcebergFile], checkpoint: int) -> None:
        summary = {
            **self._config.snapshot_properties,
            PIPELINE: self._name.pipeline,
            SINK: self._name.sink,
            CHECKPOINT: str(checkpoint),
        }
        change.set_properties({self.property: str(checkpoint)})
        if self._config.whole and change.table_metadata.current_snapshot() is not None:
            change.delete(AlwaysTrue(), snapshot_properties=summary)
        metadata = change.table_metadata
        update = change.update_snapshot(snapshot_properties=summary)
        with update.merge_append() as append:
            for file in files:
                append.append_data_file(entry(file, metadata.spec(), metadata.schema()))

    def _newest(self, table: Table) -> int | None:
        """The newest checkpoint in the table: by the property, and by the snapshots should somebody have removed it."""
        found = [
            int(snapshot.summary[CHECKPOINT] or -1)
            for snapshot in table.metadata.snapshots
            if snapshot.summary is not None
            and snapshot.summary.get(PIPELINE) == self._name.pipeline
            and snapshot.summary.get(SINK) == self._name.sink
        ]
        if (value := table.properties.get(self.property)) is not None:
            found.append(int(value))
        return max(found, default=None)

    def _refuse_other_spec(self, table: Table, files: list[IcebergFile]) -> None:
        spec = table.spec().spec_id
        if any(file.spec_id != spec for file in files):
            raise InvalidQuery(
                f"the partition spec of the Iceberg table {self._config.table} was changed while the query ran, and rows "
                "prepared for the old one wait for their commit",
                hint="set the old spec again, start the query once so that they are committed, stop it, then change the spec",
            )


class _Files:
    """The table's files and our notes about them, reached as the table was reached last: a catalogue may hand out credentials
    that expire, with every load others."""

    def __init__(self, name: SinkName, table: Table) -> None:
        self._name = name
        self._open(table)

    def follow(self, table: Table) -> None:
        """``table`` is the newest there is."""
        if (table.location(), table.io.properties) != self._reached:
            self._open(table)

    def _open(self, table: Table) -> None:
        self._reached = (table.location(), dict(table.io.properties))
        self.storage = storage_of(table)
        self.notes = StagingNotes(self.storage, table.location(), self._name)


def _for_commit(table: Table) -> Table:
    """The same table with settings for the library's eyes only: in the catalogue they stay as they are.

    It must not repeat a refused commit by itself. It should merge manifests, as Iceberg's own library does: a commit per
    checkpoint would soon leave thousands of them.
    """
    properties = {MERGE: "true", **table.metadata.properties, RETRIES: "0"}
    table.metadata = table.metadata.model_copy(update={"properties": properties})
    return table


def _names(table: Table) -> set[str]:
    """Of the files that are part of the table. For a table of many files this takes a moment."""
    if table.current_snapshot() is None:
        return set()
    return {file_name(location) for location in table.inspect.data_files()["file_path"].to_pylist()}
