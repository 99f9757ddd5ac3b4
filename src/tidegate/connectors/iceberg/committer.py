"""Driver side of the Iceberg sink: data files become part of the table, each once.

Every commit appends one snapshot and sets two properties of the table, in one change of the table's metadata: ``tidegate.committed.…``
to the checkpoint, as earlier versions do, and ``tidegate.published.…`` to ``attempt/checkpoint``. What is not newer than these is there
already. The properties outlive the snapshots, which people expire; should somebody remove them, the summaries of the snapshots count.

Of two commits that race, the catalogue refuses the second, because it was made for a table whose newest snapshot was another. The
``pyiceberg`` library would then refresh and append once more, rows and all; here it is told not to, and the properties are read again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pyiceberg.exceptions import CommitFailedException, ValidationException
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.table import Table, Transaction
from pyiceberg.table.snapshots import Snapshot

from tidegate.connectors.iceberg.config import IcebergConfig
from tidegate.connectors.iceberg.files import IcebergFile, decode, entry
from tidegate.connectors.iceberg.table import IcebergTables, explained, storage_of
from tidegate.connectors.lake.memory import Known, newest, numbers_only, prepared_for, remembered, warn_of_older_copy
from tidegate.connectors.lake.notes import SinkName, StagingNotes, file_name
from tidegate.connectors.lake.pending import newer, refuse_lost
from tidegate.connectors.lake.racing import until_accepted
from tidegate.model.errors import InvalidQuery
from tidegate.model.ids import Attempt, CheckpointId
from tidegate.model.snapshot import Committable, Published
from tidegate.model.types import Schema
from tidegate.ports.context import CommitterContext
from tidegate.ports.sink import SinkCommitter

REFUSALS = (CommitFailedException, ValidationException)
"""The table was changed by somebody else meanwhile."""

PIPELINE, SINK, CHECKPOINT, ATTEMPT = "tidegate.pipeline", "tidegate.sink", "tidegate.checkpoint", "tidegate.attempt"
"""In the summary of a snapshot. Earlier versions did not name the attempt."""

MERGE, RETRIES = "commit.manifest-merge.enabled", "commit.retry.num-retries"
"""Properties of a table that change how the library commits."""


class IcebergCommitter(SinkCommitter):
    """Makes the table if there is none. Raises InvalidQuery when the result does not fit it."""

    forgets = False

    def __init__(self, config: IcebergConfig, schema: Schema, context: CommitterContext) -> None:
        self._config = config
        self._name = SinkName.of(context)
        self._tables = IcebergTables(config)
        self._files = _Files(self._name, self._tables.ensure(schema))
        self._looked = False
        self._known = Known(f"Iceberg table {self._config.table}")

    @property
    def with_number(self) -> str:
        """Under which name the table remembers this sink's newest checkpoint."""
        return f"tidegate.committed.{self._name.pipeline}.{self._name.sink}"

    @property
    def with_attempt(self) -> str:
        """The same together with its attempt."""
        return f"tidegate.published.{self._name.pipeline}.{self._name.sink}"

    def published(self) -> Published | None:
        """By the properties, which a rollback to an older snapshot leaves as they are: after one, a warning says what the table has lost."""
        table = self._tables.load()
        found = self._newest(table)
        if found is not None and not self._looked and not self._config.whole:
            self._looked = True
            self._warn_of_rollback(table, found)
        return found

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
        than = self._known.newest(self._newest(table))
        pending = newer(committables, than, _epoch_of, whole=self._config.whole)
        if not pending:
            return
        files = [file for one in pending for file in decode(one.payload).files]
        self._refuse_other_spec(table, files)
        refuse_lost(self._files.storage, self._config.table, [file.location for file in files])
        last = _epoch_of(pending[-1])
        try:
            change = _for_commit(table).transaction()
            self._fill(change, files, last)
            change.commit_transaction()
        except REFUSALS:
            raise
        except Exception as error:
            doing = f"commit checkpoint {last.checkpoint} to the Iceberg table"
            raise explained(error, doing, self._config.table) from error
        self._known.brought(last)

    def _fill(self, change: Transaction, files: list[IcebergFile], last: Published) -> None:
        summary = {
            **self._config.snapshot_properties,
            PIPELINE: self._name.pipeline,
            SINK: self._name.sink,
            CHECKPOINT: str(last.checkpoint),
        }
        properties = {self.with_number: str(last.checkpoint)}
        if last.attempt:
            summary[ATTEMPT] = str(last.attempt)
            properties[self.with_attempt] = f"{last.attempt}/{last.checkpoint}"
        change.set_properties(properties)
        if self._config.whole and change.table_metadata.current_snapshot() is not None:
            change.delete(AlwaysTrue(), snapshot_properties=summary)
        metadata = change.table_metadata
        update = change.update_snapshot(snapshot_properties=summary)
        with update.merge_append() as append:
            for file in files:
                append.append_data_file(entry(file, metadata.spec(), metadata.schema()))

    def _newest(self, table: Table) -> Published | None:
        """By the properties, and by the snapshots should somebody have removed those."""
        number, both = table.properties.get(self.with_number), table.properties.get(self.with_attempt)
        told = remembered(None if number is None else int(number), None if both is None else _parsed(both))
        return newest([*self._told_by(table.metadata.snapshots), *([] if told is None else [told])])

    def _told_by(self, snapshots: Iterable[Snapshot]) -> list[Published]:
        ours = (
            one.summary
            for one in snapshots
            if one.summary is not None
            and one.summary.get(PIPELINE) == self._name.pipeline
            and one.summary.get(SINK) == self._name.sink
        )
        return [
            Published(Attempt(int(summary.get(ATTEMPT) or 0)), CheckpointId(int(summary.get(CHECKPOINT) or 0)))
            for summary in ours
        ]

    def _warn_of_rollback(self, table: Table, had: Published) -> None:
        """Seen as long as the snapshot of that commit is kept."""
        history = list(_history(table))
        holds = newest(self._told_by(history))
        of_it = [one for one in table.metadata.snapshots if self._told_by([one]) == [had]]
        # What came before the oldest of them has expired, and nobody can tell whether the present one was made of it.
        oldest_ms = history[-1].timestamp_ms if history else 0
        if holds != had and any(one.timestamp_ms > oldest_ms for one in of_it):
            warn_of_older_copy(f"Iceberg table {self._config.table}", holds, had)

    def _refuse_other_spec(self, table: Table, files: list[IcebergFile]) -> None:
        spec = table.spec().spec_id
        if any(file.spec_id != spec for file in files):
            raise InvalidQuery(
                f"the partition spec of the Iceberg table {self._config.table} was changed while the query ran, and rows "
                "prepared for the old one wait for their commit",
                hint="set the old spec again, start the query once so that they are committed, stop it, then change the spec",
            )


def _epoch_of(one: Committable) -> Published:
    return prepared_for(one.checkpoint, tuple(file.note for file in decode(one.payload).files))


def _history(table: Table) -> Iterator[Snapshot]:
    """The snapshots that the present one was made of, itself included. There may be thousands."""
    by_id = {one.snapshot_id: one for one in table.metadata.snapshots}
    at = table.current_snapshot()
    while at is not None:
        yield at
        at = None if at.parent_snapshot_id is None else by_id.get(at.parent_snapshot_id)


def _parsed(text: str) -> Published:
    """``attempt/checkpoint``. What somebody else wrote there is as good as a number alone."""
    attempt, _, checkpoint = text.partition("/")
    if not (attempt.isdecimal() and checkpoint.isdecimal()):
        return numbers_only(0)
    return Published(Attempt(int(attempt)), CheckpointId(int(checkpoint)))


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
