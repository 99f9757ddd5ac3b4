"""What a sink has published, remembered in the output directory itself: how a commit that comes again, or late, is told.

An *epoch* is what one attempt prepared for one checkpoint. Epochs become visible in order: once one is recorded, it and all before
it are done for good, whoever asks again. Numbers of checkpoints alone would not do: after somebody removed a checkpoint by hand its
number is given out again, by a later attempt.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import NamedTuple, Protocol

import msgspec

from tidegate.connectors.durable import TEMPORARY_SUFFIX
from tidegate.connectors.files.parallel import side_by_side
from tidegate.connectors.files.spark_log import LOG_DIRECTORY, SparkLog, encoded, logged_file
from tidegate.connectors.files.staging import PUBLISHED_NAME, StagingNames
from tidegate.model.errors import InvalidQuery, TidegateError, Unavailable
from tidegate.ports.directory import OutputDirectory

log = logging.getLogger("tidegate.connectors")

RECORDED = "_tidegate/committed"
RECORDS_KEPT = 3
COMPACT_FILES_KEPT = 3
"""Two of them tell readers the interval; one more, so that a reader that has listed the log still finds what it saw."""
CLEANUP_DELAY_S = 60.0
"""Files of the log that nobody needs stay for this long: a reader may have listed them."""
_CUT_SHORT = re.compile(rf"\..*{re.escape(TEMPORARY_SUFFIX)}")
"""Batches that a crash cut short."""
_APPENDS_MAX = 1_000
"""Lost races for a number before giving up: each of them means that somebody else was served."""


class Epoch(NamedTuple):
    """Ordered as published: a later attempt goes on where an earlier one was."""

    attempt: int
    checkpoint: int


NOTHING = Epoch(-1, -1)


class Ledger(Protocol):
    def newest(self) -> Epoch:
        """Everything up to this epoch is published."""
        ...

    def begin(self) -> None:
        """Called before the first file of a commit appears."""
        ...

    def record(self, epoch: Epoch, files: Sequence[str]) -> None:
        """``files`` are visible under their final names: from now on all epochs up to ``epoch`` are done. Durable when it returns."""
        ...


def _warn_of_older_copy(output: OutputDirectory, had: Epoch) -> None:
    log.warning(
        "%s was set back while the query runs: checkpoint %d of attempt %d had become visible there. What came between is missing from it "
        "and does not come again; to write it again, start from a savepoint of that time at a new checkpointLocation",
        output,
        had.checkpoint,
        had.attempt,
    )


class RecordLedger:
    """One empty file per commit; the newest few are kept. Nobody else reads it."""

    def __init__(self, output: OutputDirectory, names: StagingNames) -> None:
        self._output = output
        self._directory = f"{RECORDED}/{names.pipeline}/{names.sink}"
        self._spark_log = SparkLog(output)
        self._newest = NOTHING
        """Known to be published, also should the directory be set back meanwhile."""
        self._set_back_to: Epoch | None = None
        """That has been said."""

    def newest(self) -> Epoch:
        recorded = max(self._records(), default=NOTHING)
        if recorded < self._newest and recorded != self._set_back_to:
            _warn_of_older_copy(self._output, self._newest)
            self._set_back_to = recorded
        self._newest = max(self._newest, recorded)
        return self._newest

    def begin(self) -> None:
        if self._spark_log.exists:
            raise InvalidQuery(
                f"{self._spark_log} appeared while the query wrote without it: Spark would not see this query's files",
                hint="another sink began a log here: give each query its own directory, or start this one again with the log",
            )

    def record(self, epoch: Epoch, files: Sequence[str]) -> None:
        self._output.create(self._name(epoch), b"")
        self._newest, self._set_back_to = max(self._newest, epoch), None
        for old in sorted(self._records())[:-RECORDS_KEPT]:
            self._output.delete(self._name(old))

    def _name(self, epoch: Epoch) -> str:
        return f"{self._directory}/{epoch.attempt:06d}-{epoch.checkpoint:06d}"

    def _records(self) -> list[Epoch]:
        names = self._output.names(self._directory)
        return [Epoch(int(found[1]), int(found[2])) for found in filter(None, map(_RECORD.fullmatch, names))]


_RECORD = re.compile(r"(\d{6,})-(\d{6,})")


class SparkLedger:
    """The log that Spark's readers follow is the ledger: names of files tell whose they are and of which epoch.

    A commit is one batch of the log. Whoever loses the race for a number reads what the winner wrote, leaves out what is there
    already, and tries the next: a late commit ends up with nothing to add.
    """

    def __init__(self, output: OutputDirectory, names: StagingNames, retention_ms: int | None = None) -> None:
        self._output = output
        self._log = SparkLog(output)
        self._names = names
        self._retention_ms = retention_ms
        self._seen = -1
        """Batches up to this one are part of what follows."""
        self._newest = NOTHING
        self._looked = False
        self._strangers = 0
        """Files that Spark's own sink had logged before we came."""

    def newest(self) -> Epoch:
        self._catch_up()
        return self._newest

    def begin(self) -> None:
        """The directory comes first: a file that lies there before the log does would belong to no batch."""
        if not self._log.exists:
            self._log.begin()

    def record(self, epoch: Epoch, files: Sequence[str]) -> None:
        self._catch_up()
        # What somebody else has recorded meanwhile may be gone again: a reader may take files away once they are in the log.
        owed = [name for name in files if self._epoch_of(name) > self._newest]
        entries = side_by_side(self._entry, owed, self._output.requests_at_once)
        for _ in range(_APPENDS_MAX):
            self._catch_up()
            new = [line for name, line in zip(owed, entries, strict=True) if self._epoch_of(name) > self._newest]
            if not new:
                return
            batches = self._log.batches()
            if batches.latest != self._seen:
                continue
            name = batches.following
            before = self._compacted(batches.needed) if name.endswith(".compact") else []
            batch = f"{LOG_DIRECTORY}/{name}"
            if before is not None and self._output.create(batch, encoded([*before, *new])):
                self._seen, self._newest = batches.latest + 1, max(self._newest, epoch)
                if before:
                    self._clean_up()
                return
        raise Unavailable(
            f"other writers were quicker {_APPENDS_MAX} times: nothing could be added to {self._log}",
            hint="give each query a directory of its own",
        )

    def _entry(self, name: str) -> bytes:
        status = self._output.status(name)
        if status is None:
            raise Unavailable(
                f"{self._output}/{name} was published and is gone before {self._log} names it",
                hint="somebody deletes files there: leave them alone until Spark sees them; it is tried again",
            )
        return msgspec.json.encode(logged_file(self._output.url, name, status))

    def _catch_up(self) -> None:
        """Reads what was added since the last look, by us or by others."""
        logged = self._log.read(self._seen)
        first, self._looked = not self._looked, True
        if logged.latest == self._seen:
            return
        if logged.latest < self._seen:
            # Somebody set the directory back. What we know to be published stays so; what comes goes on from the log as it is now.
            _warn_of_older_copy(self._output, self._newest)
            self._seen, first = -1, True
            logged = self._log.read()
        names = [file.path for file in logged.files]
        strangers = sum(PUBLISHED_NAME.match(PurePosixPath(name).name) is None for name in names)
        if first:
            self._strangers = strangers
        elif not names or strangers > (self._strangers if logged.whole else 0):
            raise InvalidQuery(
                f"batch {logged.latest} of {self._log} is not Tidegate's: another streaming query writes to this directory",
                hint="give each query its own directory: Spark's sink skips a batch whose number it finds in the log",
            )
        self._newest = max((self._newest, *map(self._epoch_of, names)))
        self._seen = logged.latest

    def _epoch_of(self, path: str) -> Epoch:
        name = PurePosixPath(path).name
        found = PUBLISHED_NAME.match(name)
        if found is None or not name[found.end() :].startswith(f"{self._names.pipeline}-{self._names.sink}."):
            return NOTHING
        return Epoch(int(found["attempt"]), int(found["checkpoint"]))

    def _compacted(self, names: Sequence[str]) -> list[bytes] | None:
        """All entries so far, as they stand; None: somebody compacted them before us."""
        try:
            lines = self._log.lines(names)
        except FileNotFoundError:
            return None
        if self._retention_ms is None:
            return lines
        oldest_ms = time.time() * 1_000 - self._retention_ms
        return [line for line in lines if self._log.decoded(line).modification_time >= oldest_ms]

    def _clean_up(self) -> None:
        """What cannot be deleted now is deleted after a later compaction."""
        batches = self._log.batches()
        kept = batches.compact[-COMPACT_FILES_KEPT:]
        if len(kept) < COMPACT_FILES_KEPT:
            return
        old = [str(n) for n in sorted(batches.plain) if n < kept[0]]
        old += [f"{n}.compact" for n in batches.compact if n < kept[0]]
        old += [name for name in self._output.names(LOG_DIRECTORY) if _CUT_SHORT.fullmatch(name)]
        side_by_side(self._remove_old, old, self._output.requests_at_once)

    def _remove_old(self, name: str) -> None:
        expired_ms = (time.time() - CLEANUP_DELAY_S) * 1_000
        try:
            status = self._output.status(f"{LOG_DIRECTORY}/{name}")
            if status is not None and status.modified_ms <= expired_ms:
                self._output.delete(f"{LOG_DIRECTORY}/{name}")
                self._output.delete(f"{LOG_DIRECTORY}/.{name}.crc")  # Spark's checksum of its own files.
        except (OSError, TidegateError) as error:
            log.warning("cannot delete %s of %s, which nobody needs any more: %s", name, self._log, error)
