"""Transactional file output, driver side: staged files become visible, exactly once."""

from __future__ import annotations

import logging
import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from tidegate.connectors.files.config import is_remote
from tidegate.connectors.files.ledger import NOTHING, Epoch, Ledger, RecordLedger, SparkLedger
from tidegate.connectors.files.listing import is_hidden
from tidegate.connectors.files.local_directory import directory_at
from tidegate.connectors.files.merging import groups, merge_lines, merge_parquet
from tidegate.connectors.files.parallel import side_by_side
from tidegate.connectors.files.sink_config import FileSinkConfig, parse_sink
from tidegate.connectors.files.spark_log import LOG_DIRECTORY, SparkLog
from tidegate.connectors.files.staging import StagedFile, StagingNames, attempt_of, decode
from tidegate.connectors.files.text_encoders import CsvLines
from tidegate.connectors.legacy import Sink
from tidegate.model.errors import CorruptSnapshot, InvalidQuery, Unavailable
from tidegate.model.ids import Attempt, CheckpointId, SlotIndex
from tidegate.model.os_errors import explain
from tidegate.model.snapshot import Committable, HandedBack, Published
from tidegate.ports.directory import OpenDirectory, OutputDirectory
from tidegate.ports.sink import SinkCommitter

log = logging.getLogger("tidegate.connectors")


class FileSinkCommitter(SinkCommitter):
    """A staged file takes its final name, or becomes part of a merged file, whose name follows from its parts.

    Then the ledger takes the epoch down: what it knows is never touched again. Until then the whole epoch is committed again, by
    whoever comes, from the same committables: nobody was told that any of them is done, so the next manifest carries all of them.
    """

    def __init__(self, sink: Sink) -> None:
        self._config = parse_sink(sink, warn=True)
        self.forgets = self._config.retention_ms is not None
        self._names = StagingNames.of(sink)
        if not is_remote(self._config.location):
            self._begin(directory_at(self._config.location, None))

    def reach(self, open_directory: OpenDirectory) -> None:
        if is_remote(self._config.location):
            self._begin(open_directory(self._config.location))

    def _begin(self, output: OutputDirectory) -> None:
        self._output = output
        try:
            output.make()
            self._ledger = chosen_ledger(self._config, output, self._names)
            self._ledger.newest()  # A log that cannot be read is told now, and whatever it names was there before us.
        except OSError as error:
            raise explain(error, "make", output) from error

    def commit(self, committables: tuple[Committable, ...]) -> HandedBack | None:
        """The error names the file that could not be published, and whose it is. Its epoch is handed back as a whole, with all later
        ones: an epoch is done when the ledger has it. Those before it are done."""
        try:
            newest = self._ledger.newest()
            epochs = {epoch: owed for epoch, owed in _by_epoch(committables).items() if epoch > newest}
            if not epochs:
                return None
            self._ledger.begin()
            published, trouble = self._publish(epochs)
            finals = [final for names in published.values() for final in names]
            self._output.settle(finals)
            self._ledger.record(max(published), finals)
            # Parts of merged files, and what a publication leaves where there is no rename.
            self._delete([file.staged for epoch in published for file, _ in epochs[epoch]])
        except OSError as error:
            raise explain(error, "commit to", self._output) from error
        left = [one for epoch, owed in epochs.items() if epoch not in published for _, one in owed]
        return None if trouble is None else HandedBack(tuple(dict.fromkeys(left)), trouble)

    def published(self) -> Published | None:
        """By the ledger, which stays with the files: for as long as their names stand in the log, or their records in the directory."""
        try:
            newest = self._ledger.newest()
        except OSError as error:
            raise explain(error, "read what was published in", self._output) from error
        return None if newest == NOTHING else Published(Attempt(newest.attempt), CheckpointId(newest.checkpoint))

    def sweep(self, older_than: Attempt, keep: tuple[Committable, ...]) -> None:
        kept = {file.staged for one in keep for file in decode(one.payload).files}
        directory = self._names.directory
        try:
            staged = [(name, attempt_of(name)) for name in self._output.names(directory)]
            old = [f"{directory}/{name}" for name, attempt in staged if attempt is not None and attempt < older_than]
            self._delete([name for name in old if name not in kept])
        except OSError as error:
            raise explain(error, "clean up", f"{self._output}/{directory}") from error

    def _delete(self, names: Sequence[str]) -> None:
        side_by_side(self._output.delete, names, self._output.requests_at_once)

    def _publish(
        self, epochs: Mapping[Epoch, Sequence[tuple[StagedFile, Committable]]]
    ) -> tuple[dict[Epoch, list[str]], Unavailable | None]:
        """The final names of those that could be published, one at least, in order; and why the next one could not."""
        published: dict[Epoch, list[str]] = {}
        for epoch, owed in sorted(epochs.items()):
            try:
                published[epoch] = self._publish_epoch(epoch, owed)
            except Unavailable as error:
                if not published:
                    raise
                return published, error
        return published, None

    def _publish_epoch(self, epoch: Epoch, owed: Sequence[tuple[StagedFile, Committable]]) -> list[str]:
        """Returns the final names."""
        publications = self._publications(epoch, owed)
        at_once = self._output.requests_at_once
        readers = max(1, at_once // len(publications))
        lost = side_by_side(lambda one: self._publish_file(one, epoch, readers), publications, at_once)
        for publication, missing in zip(publications, lost, strict=True):
            # Unless somebody else published it: the parts go only after the whole is there and recorded.
            if missing and self._ledger.newest() < epoch:
                raise CorruptSnapshot(
                    f"output file {self._output}/{publication.final} was prepared by a completed checkpoint, but neither it nor "
                    f"{missing} exists",
                    hint="somebody deleted it: bring it back, or accept the loss and start from a new checkpoint location",
                )
        return [publication.final for publication in publications]

    def _publications(self, epoch: Epoch, owed: Sequence[tuple[StagedFile, Committable]]) -> list[Publication]:
        subtasks = {file.staged: one.subtask for file, one in owed}
        found: list[Publication] = []
        merged = 0
        for group in groups([file for file, _ in owed]):
            first, *others = group.parts
            final = first.final
            if others:
                final = self._names.merged(first, CheckpointId(epoch.checkpoint), Attempt(epoch.attempt), merged)
                merged += 1
            found.append(Publication(group.parts, final, subtasks[first.staged]))
        return found

    def _publish_file(self, one: Publication, epoch: Epoch, readers: int) -> str:
        """Returns the name of a part that is gone, if the whole is not there either; else nothing."""
        first, *others = one.parts
        try:
            if not others:
                self._output.publish(first.staged, one.final, first.size_bytes)
            elif self._output.status(one.final) is None:
                self._merge(one, epoch, readers)
        except FileNotFoundError as error:
            return "" if self._output.status(one.final) is not None else str(error.filename or first.staged)
        except OSError as error:
            of = f"of checkpoint {epoch.checkpoint}, subtask {one.subtask}"
            raise explain(error, f"commit {first.staged} ({of}) as", f"{self._output}/{one.final}") from error
        return ""

    def _merge(self, one: Publication, epoch: Epoch, readers: int) -> None:
        parts = side_by_side(self._output.read, [part.staged for part in one.parts], readers)
        random = os.urandom(8).hex()
        draft = self._output.draft(self._names.merging(Attempt(epoch.attempt), epoch.checkpoint, random))
        try:
            if self._config.text is None:
                merge_parquet(parts, draft.file)
            else:
                lines = CsvLines(self._config.stored, self._config.text) if self._config.format == "csv" else None
                merge_lines(parts, draft.file, one.final, lines.head if lines is not None else b"")
            draft.publish(one.final)
        except BaseException:
            draft.discard()
            raise


@dataclass(frozen=True, slots=True)
class Publication:
    """A file that becomes visible: one that was staged, or several made into one."""

    parts: tuple[StagedFile, ...]
    final: str
    subtask: SlotIndex
    """That staged the first part."""


def chosen_ledger(config: FileSinkConfig, output: OutputDirectory, names: StagingNames) -> Ledger:
    """The log is Spark's word on what a directory holds: it is kept where there is one, begun where there is nothing, and never
    begun beside files that it would hide."""
    spark_log = SparkLog(output)
    stranger = None if spark_log.exists else _first_file(output)
    # Looked for after the files: a log's directory comes before its first one, so whoever began it meanwhile is seen.
    if spark_log.exists:
        if config.spark_log == "false":
            raise InvalidQuery(
                f"{output} has a {LOG_DIRECTORY} log: Spark would not see files that are not in it",
                hint="leave out sparkMetadataLog to go on with the log, or choose another directory",
            )
        return SparkLedger(output, names, config.retention_ms)
    if config.spark_log == "false":
        return RecordLedger(output, names)
    if stranger is None:
        return SparkLedger(output, names, config.retention_ms)
    if config.spark_log == "true":
        raise InvalidQuery(
            f"{output} holds files already, {PurePosixPath(stranger).name} for one: with a {LOG_DIRECTORY} log Spark would not see them",
            hint="choose an empty directory, or leave out sparkMetadataLog to go on without the log",
        )
    log.info("%s holds files without a %s log: none is begun", output, LOG_DIRECTORY)
    return RecordLedger(output, names)


def _first_file(output: OutputDirectory) -> str | None:
    """Any file that a reader of the directory would see."""
    return next((name for name in output.files() if not any(map(is_hidden, PurePosixPath(name).parts))), None)


def _by_epoch(committables: tuple[Committable, ...]) -> dict[Epoch, list[tuple[StagedFile, Committable]]]:
    """In order of publication; the attempt stands in the names of the staged files."""
    epochs: defaultdict[Epoch, list[tuple[StagedFile, Committable]]] = defaultdict(list)
    for one in sorted(committables, key=lambda one: one.place):
        for file in decode(one.payload).files:
            attempt = attempt_of(PurePosixPath(file.staged).name)
            if attempt is None:
                raise CorruptSnapshot(f"a committable of the files sink names {file.staged!r}, which no writer made")
            epochs[Epoch(attempt, one.checkpoint)].append((file, one))
    return dict(epochs)
