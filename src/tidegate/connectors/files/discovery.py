"""Which files belong to a source, found by looking again and again: the driver side of the file sources."""

from __future__ import annotations

import logging

import msgspec

from tidegate.connectors.files.config import FileSourceConfig, is_remote
from tidegate.connectors.files.footers import earliest_times
from tidegate.connectors.files.found import Found
from tidegate.connectors.files.limits import Batches
from tidegate.connectors.files.listing import Listing
from tidegate.connectors.files.partitions import partition_values
from tidegate.connectors.files.splits import SEGMENT_SIZE, FileSplit, KnownFiles, decode_split, seal, unseal
from tidegate.connectors.files.store_listing import StoreListing
from tidegate.model.errors import Bug, CorruptSnapshot
from tidegate.model.snapshot import Split
from tidegate.operators.output_directory import OpenDirectory

log = logging.getLogger("tidegate")

FOOTERS_WORTH_READING = 4
"""Files per slot in one look: with more, what is unread for long may hold event time back."""
UNTIMED_FILES_MAX = 1_000
"""Files without statistics that are read as one; with more, somebody should know what it costs."""


class FileEnumerator:
    """Discovers whole files. A file must appear under its final name when it is complete (written elsewhere, then moved):
    what a path held when it was discovered is what is read. Empty files are not files yet. A known path is never read again.

    Numbers go by age, or by the times in the files where these are known and nobody has asked for another order.
    """

    ordered = False

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

    def reach(self, open_directory: OpenDirectory) -> None:
        if self._listing is None:
            self._listing = StoreListing(self._config, open_directory)

    def check(self) -> None:
        if isinstance(self._listing, StoreListing):
            self._listing.check()

    @property
    def bounded(self) -> bool:
        return self._stops and self._looked

    def discover(self, now_ms: int) -> tuple[Split, ...]:
        if self.bounded:
            return ()
        if self._listing is None:
            raise Bug(f"the files source was not told how to reach {self._config.path}")
        found = self._listing.new_files(self._known, now_ms)
        self._looked = True
        files = self._in_order(self._timed(found, self._listing))
        self._warn_of_backlog(files)
        return tuple(self._remember(file) for file in files)

    def snapshot(self) -> bytes:
        return msgspec.msgpack.encode(KnownFiles(segments=tuple(self._segments), newest=tuple(self._newest)))

    def restore(self, state: bytes, known: tuple[Split, ...]) -> tuple[Split, ...]:
        files: dict[int, FileSplit] = {}
        if state:
            try:
                stored = msgspec.msgpack.decode(state, type=KnownFiles)
                older = [file for segment in stored.segments for file in unseal(segment)]
            except (msgspec.DecodeError, msgspec.ValidationError) as error:
                raise CorruptSnapshot(f"the file source's list of known files cannot be decoded: {error}") from error
            files = dict(enumerate([*older, *stored.newest]))
        files |= {split.number: decode_split(split.payload) for split in known}
        if sorted(files) != list(range(len(files))):
            raise CorruptSnapshot(f"the file source knows {len(files)} files, but their numbers have gaps")
        return tuple(self._remember(files[number]) for number in range(len(files)))

    def _timed(self, found: list[Found], listing: Listing | StoreListing) -> list[FileSplit]:
        """With what the footers say, where that is worth the time it takes."""
        column = self._config.timed_by
        times: dict[str, int | None] = {}
        if column and len(found) > FOOTERS_WORTH_READING * self._slots:
            # What stands in the path is not what is stored.
            stored = [file for file in found if column not in partition_values(file.path)]
            earliest = earliest_times(stored, column, listing.read_range)
            times = {file.path: time for file, time in zip(stored, earliest, strict=True)}
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
            cut=self._batches.begins(file.size_bytes),
        )
