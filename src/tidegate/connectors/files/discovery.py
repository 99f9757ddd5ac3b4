"""Which files belong to a source, found by looking again and again: the driver side of the file sources."""

from __future__ import annotations

import logging
import zlib
from collections.abc import Callable

import msgspec

from tidegate.connectors.files.config import FileSourceConfig, is_remote
from tidegate.connectors.files.footers import earliest_times
from tidegate.connectors.files.found import Found
from tidegate.connectors.files.listing import Listing
from tidegate.connectors.files.partitions import partition_values
from tidegate.connectors.files.splits import SEGMENT_SIZE, FileSplit, KnownFiles, decode_split, seal, unseal
from tidegate.connectors.files.store_listing import StoreListing
from tidegate.eventtime.batches import Batches, Limits
from tidegate.model import formats
from tidegate.model.errors import Bug, CorruptSnapshot, InvalidQuery
from tidegate.model.snapshot import Split
from tidegate.ports.directory import OpenDirectory
from tidegate.ports.source import SplitEnumerator

log = logging.getLogger("tidegate")

FOOTERS_WORTH_READING = 4
"""Files per slot in one look: with more, what is unread for long may hold event time back."""
UNTIMED_FILES_MAX = 1_000
"""Files without statistics that are read as one; with more, somebody should know what it costs."""


class FileEnumerator(SplitEnumerator):
    """Discovers whole files. A file must appear under its final name when it is complete (written elsewhere, then moved):
    what a path held when it was discovered is what is read. Empty files are not files yet. A known path is never read again.

    Numbers go by age, or by the times in the files where these are known and nobody has asked for another order.
    """

    def __init__(self, config: FileSourceConfig, *, bounded: bool, slots: int = 1) -> None:
        self._config = config
        self._slots = max(1, slots)
        self._listing: Listing | StoreListing | None = None if is_remote(config.path) else Listing(config)
        self._stops = bounded
        self._looked = False
        self._known: set[str] = set()
        self._segments: list[bytes] = []
        self._newest: list[FileSplit] = []
        self._batches = Batches(config.limits)
        self._untimed = 0
        """Files without statistics since the last look that found nothing."""
        self._warned = False
        self._done = 0
        """All numbers below are done, as far as somebody has said."""
        self._backlog_stop = 0
        """Behind the last file of a backlog whose times are known."""
        self._is_done: Callable[[int], bool] = frozenset[int]().__contains__

    def reach(self, open_directory: OpenDirectory) -> None:
        if self._listing is None:
            self._listing = StoreListing(self._config, open_directory)

    def check(self) -> None:
        self._reached().check()

    @property
    def bounded(self) -> bool:
        return self._stops and self._looked

    def discover(self, now_ms: int) -> tuple[Split, ...]:
        if self.bounded:
            return ()
        listing = self._reached()
        found = listing.new_files(self._known, now_ms)
        self._looked = True
        if not found:
            self._batches.rest()
        files = self._in_order(self._timed(found, listing))
        self._warn_of_backlog(files)
        return tuple(self._remember(self._begun(file)) for file in files)

    def snapshot(self) -> bytes:
        known = KnownFiles(segments=tuple(self._segments), newest=tuple(self._newest), limits=self._config.limits)
        return msgspec.msgpack.encode(known)

    def forget(self, below: int) -> None:
        """A path stays known. What is done no longer needs the times of others."""
        self._done = max(self._done, below)

    def learn_done(self, is_done: Callable[[int], bool]) -> None:
        self._is_done = is_done

    def restore(self, state: bytes, known: tuple[Split, ...]) -> tuple[Split, ...]:
        """A file that is still to be read must be one that the query reads: a stored path opens nothing else."""
        files: dict[int, FileSplit] = {}
        limits: Limits | None = None
        if state:
            try:
                stored = formats.decode(state, KnownFiles)
                older = [file for segment in stored.segments for file in unseal(segment)]
            except (msgspec.MsgspecError, UnicodeDecodeError, zlib.error) as error:
                raise CorruptSnapshot(f"the file source's list of known files cannot be decoded: {error}") from error
            files, limits = dict(enumerate([*older, *stored.newest])), stored.limits
        files |= {split.number: decode_split(split.payload) for split in known}
        if sorted(files) != list(range(len(files))):
            raise CorruptSnapshot(f"the file source knows {len(files)} files, but their numbers have gaps")
        self._refuse_others(files)
        cut_alike = limits == self._config.limits
        return tuple(self._remember(self._resumed(number, files[number], cut_alike)) for number in range(len(files)))

    def _refuse_others(self, files: dict[int, FileSplit]) -> None:
        unread = {file.path: number for number, file in files.items() if not self._is_done(number)}
        others = self._reached().elsewhere(unread) if unread else set[str]()
        if others:
            path = min(others, key=lambda one: unread[one])
            number, more = unread[path], f" (and {len(others) - 1} more)" if len(others) > 1 else ""
            raise InvalidQuery(
                f"split {number}, which is not read to its end, is the file {path}{more}: the query reads {self._config.path}",
                hint="let the query read such files to their ends at the path that it had (a link will do where the directory has "
                "moved), then start it with the new one; or start at a new checkpointLocation",
            )

    def _reached(self) -> Listing | StoreListing:
        if self._listing is None:
            raise Bug(f"the files source was not told how to reach {self._config.path}")
        return self._listing

    def _timed(self, found: list[Found], listing: Listing | StoreListing) -> list[FileSplit]:
        """With what the footers say, where that is worth the time it takes."""
        column = self._config.timed_by
        times: dict[str, int | None] = {}
        large = len(found) > FOOTERS_WORTH_READING * self._slots
        # A file whose times nobody knows would hold event time until all that was found before it has been read.
        if column and found and (large or self._done < self._backlog_stop):
            # What stands in the path is not what is stored.
            stored = [file for file in found if column not in partition_values(file.path)]
            earliest = earliest_times(stored, column, listing.read_range)
            times = {file.path: time for file, time in zip(stored, earliest, strict=True)}
            if large and any(time is not None for time in earliest):
                self._backlog_stop = len(self._known) + len(found)
        return [
            FileSplit(path=path, size_bytes=size_bytes)
            if times.get(path) is None
            else FileSplit(path=path, size_bytes=size_bytes, event_time=column, earliest_us=times[path])
            for _, path, size_bytes in found
        ]

    def _in_order(self, files: list[FileSplit]) -> list[FileSplit]:
        if self._config.latest_first:
            return files[::-1]
        if self._config.limits:
            return files
        # Those that say nothing hold event time back until they are read.
        return sorted(files, key=lambda file: (file.earliest_us is not None, file.earliest_us or 0))

    def _warn_of_backlog(self, files: list[FileSplit]) -> None:
        untimed = sum(file.earliest_us is None for file in files)
        self._untimed = self._untimed + untimed if files else 0
        if self._warned or self._untimed <= UNTIMED_FILES_MAX or self._config.event_time is None or self._config.limits:
            return
        self._warned = True
        log.warning(
            "%s files of %s were found at once and do not say which event times they hold: no window closes before the last of them is "
            "read, and state holds all of them until then; set maxFilesPerTrigger to read them in batches, oldest first",
            self._untimed,
            self._config.path,
        )

    def _begun(self, file: FileSplit) -> FileSplit:
        return msgspec.structs.replace(file, cut=self._batches.begins(file.size_bytes))

    def _resumed(self, number: int, file: FileSplit, cut_alike: bool) -> FileSplit:
        was_cut = file.cut if cut_alike else None
        done = self._is_done(number)
        cut = self._batches.resume(file.size_bytes, cut=was_cut, done=done)
        if not done and file.earliest_in(self._config.timed_by) is not None:
            self._backlog_stop = number + 1
        return msgspec.structs.replace(file, cut=cut)

    def _remember(self, file: FileSplit) -> Split:
        number = len(self._segments) * SEGMENT_SIZE + len(self._newest)
        self._known.add(file.path)
        self._newest.append(file)
        if len(self._newest) == SEGMENT_SIZE:
            self._segments.append(seal(self._newest))
            self._newest = []
        return Split(
            number=number,
            payload=msgspec.msgpack.encode(file),
            earliest_us=file.earliest_in(self._config.timed_by),
            cut=file.cut,
        )
