"""Transactional file output, driver side: staged files become visible, exactly once."""

from __future__ import annotations

import logging
import os
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from tidegate.connectors.durable import sync
from tidegate.connectors.files.ledger import Epoch, Ledger, RecordLedger, SparkLedger
from tidegate.connectors.files.listing import is_hidden
from tidegate.connectors.files.merging import Group, groups, merge_lines, merge_parquet
from tidegate.connectors.files.sink_config import FileSinkConfig, parse_sink
from tidegate.connectors.files.spark_log import SparkLog
from tidegate.connectors.files.staging import StagedFile, StagingNames, attempt_of, decode
from tidegate.connectors.files.text_encoders import CsvLines
from tidegate.model.errors import CorruptSnapshot, InvalidQuery
from tidegate.model.ids import Attempt, CheckpointId
from tidegate.model.os_errors import explain
from tidegate.model.snapshot import Committable
from tidegate.plan.relational import Sink

log = logging.getLogger("tidegate.connectors")


class FileSinkCommitter:
    """A staged file is renamed, which happens once, or becomes part of a merged file, whose name follows from its parts.

    Then the ledger takes the epoch down: what it knows is never touched again. Until then the whole epoch is committed again, by
    whoever comes, from the same committables: nobody was told that any of them is done, so the next manifest carries all of them.
    """

    def __init__(self, sink: Sink) -> None:
        self._config = parse_sink(sink, warn=True)
        self._names = StagingNames.of(sink)
        try:
            self._config.path.mkdir(parents=True, exist_ok=True)
            self._ledger = chosen_ledger(self._config, self._names)
            self._ledger.newest()  # A log that cannot be read is told now, and whatever it names was there before us.
        except OSError as error:
            raise explain(error, "make", self._config.path) from error

    def commit(self, committables: tuple[Committable, ...]) -> None:
        """The error names the file that could not be published, and whose it is; those before it are visible."""
        try:
            newest = self._ledger.newest()
            epochs = {epoch: owed for epoch, owed in _by_epoch(committables).items() if epoch > newest}
            if not epochs:
                return
            self._ledger.begin()
            published = {epoch: self._publish_epoch(epoch, owed) for epoch, owed in sorted(epochs.items())}
            finals = [self._config.path / final for names in published.values() for final in names]
            for directory in sorted({parent for final in finals for parent in self._parents(final)}):
                sync(directory)
            self._ledger.record(max(epochs), finals)
            for file, _ in (one for owed in epochs.values() for one in owed):
                (self._config.path / file.staged).unlink(missing_ok=True)  # Parts of merged files; the others are gone.
        except OSError as error:
            raise explain(error, "commit to", self._config.path) from error

    def sweep(self, older_than: Attempt, keep: tuple[Committable, ...]) -> None:
        kept = {file.staged for one in keep for file in decode(one.payload).files}
        directory = self._config.path / self._names.directory
        try:
            for path in sorted(directory.iterdir()) if directory.is_dir() else ():
                attempt = attempt_of(path.name)
                if attempt is not None and attempt < older_than and f"{self._names.directory}/{path.name}" not in kept:
                    path.unlink(missing_ok=True)
        except OSError as error:
            raise explain(error, "clean up", directory) from error

    def _publish_epoch(self, epoch: Epoch, owed: Sequence[tuple[StagedFile, Committable]]) -> list[str]:
        """Returns the final names."""
        whose = {file.staged: one for file, one in owed}
        finals: list[str] = []
        merged = 0
        for group in groups([file for file, _ in owed]):
            first, *others = group.parts
            final = first.final
            if others:
                final = self._names.merged(first, CheckpointId(epoch.checkpoint), Attempt(epoch.attempt), merged)
                merged += 1
            try:
                self._publish(group, final, epoch)
            except OSError as error:
                of = f"of checkpoint {epoch.checkpoint}, subtask {whose[first.staged].subtask}"
                raise explain(error, f"commit {first.staged} ({of}) as", self._config.path / final) from error
            finals.append(final)
        return finals

    def _publish(self, group: Group, name: str, epoch: Epoch) -> None:
        staged, final = [self._config.path / part.staged for part in group.parts], self._config.path / name
        final.parent.mkdir(parents=True, exist_ok=True)
        try:
            if len(staged) == 1:
                os.rename(staged[0], final)  # noqa: PTH104 - one call, one effect
            elif not final.exists():
                self._merge(staged, final, epoch)
        except FileNotFoundError as error:
            # Somebody else published it: the parts go only after the whole is there and recorded.
            if not final.exists() and self._ledger.newest() < epoch:
                raise CorruptSnapshot(
                    f"output file {final} was prepared by a completed checkpoint, but neither it nor {error.filename or staged[0]} exists",
                    hint="somebody deleted it: bring it back, or accept the loss and start from a new checkpoint location",
                ) from None

    def _merge(self, parts: Sequence[Path], final: Path, epoch: Epoch) -> None:
        temporary = self._config.path / self._names.merging(
            Attempt(epoch.attempt), epoch.checkpoint, os.urandom(8).hex()
        )
        try:
            if self._config.text is None:
                merge_parquet(parts, temporary)
            else:
                text = self._config.text
                head = CsvLines(self._config.stored, text).head if self._config.format == "csv" else b""
                merge_lines(parts, temporary, text.compression, head)
            temporary.replace(final)
        finally:
            temporary.unlink(missing_ok=True)

    def _parents(self, final: Path) -> list[Path]:
        """The directories whose entries may have changed."""
        root = self._config.path
        return [parent for parent in final.parents if parent == root or root in parent.parents]


def chosen_ledger(config: FileSinkConfig, names: StagingNames) -> Ledger:
    """The log is Spark's word on what a directory holds: it is kept where there is one, begun where there is nothing, and never
    begun beside files that it would hide."""
    spark_log = SparkLog(config.path)
    stranger = None if spark_log.exists else _first_file(config.path)
    # Looked for after the files: a log's directory comes before its first one, so whoever began it meanwhile is seen.
    if spark_log.exists:
        if config.spark_log == "false":
            raise InvalidQuery(
                f"{config.path} has a {spark_log.directory.name} log: Spark would not see files that are not in it",
                hint="leave out sparkMetadataLog to go on with the log, or choose another directory",
            )
        return SparkLedger(config.path, names, config.retention_ms)
    if config.spark_log == "false":
        return RecordLedger(config.path, names)
    if stranger is None:
        return SparkLedger(config.path, names, config.retention_ms)
    if config.spark_log == "true":
        raise InvalidQuery(
            f"{config.path} holds files already, {stranger.name} for one: with a {spark_log.directory.name} log Spark would not see them",
            hint="choose an empty directory, or leave out sparkMetadataLog to go on without the log",
        )
    log.info("%s holds files without a %s log: none is begun", config.path, spark_log.directory.name)
    return RecordLedger(config.path, names)


def _first_file(directory: Path) -> Path | None:
    """Any file that a reader of the directory would see."""
    for folder, folders, names in os.walk(directory):
        folders[:] = [name for name in folders if not is_hidden(name)]
        for name in names:
            if not is_hidden(name):
                return Path(folder) / name
    return None


def _by_epoch(committables: tuple[Committable, ...]) -> dict[Epoch, list[tuple[StagedFile, Committable]]]:
    """In order of publication; the attempt stands in the names of the staged files."""
    epochs: defaultdict[Epoch, list[tuple[StagedFile, Committable]]] = defaultdict(list)
    for one in sorted(committables, key=lambda one: one.place):
        for file in decode(one.payload).files:
            attempt = attempt_of(Path(file.staged).name)
            if attempt is None:
                raise CorruptSnapshot(f"a committable of the files sink names {file.staged!r}, which no writer made")
            epochs[Epoch(attempt, one.checkpoint)].append((file, one))
    return dict(epochs)
