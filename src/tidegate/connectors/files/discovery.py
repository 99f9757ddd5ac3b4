"""Which files belong to a source, found by looking again and again: the driver side of the file sources."""

from __future__ import annotations

import msgspec

from tidegate.connectors.files.config import FileSourceConfig, is_remote
from tidegate.connectors.files.listing import Listing
from tidegate.connectors.files.splits import SEGMENT_SIZE, FileSplit, KnownFiles, decode_split, seal, unseal
from tidegate.connectors.files.store_listing import StoreListing
from tidegate.model.errors import Bug, CorruptSnapshot
from tidegate.model.snapshot import Split
from tidegate.operators.output_directory import OpenDirectory


class FileEnumerator:
    """Discovers whole files. A file must appear under its final name when it is complete (written elsewhere, then moved):
    what a path held when it was discovered is what is read. Empty files are not files yet. A known path is never read again.
    """

    def __init__(self, config: FileSourceConfig, *, bounded: bool) -> None:
        self._config = config
        self._listing: Listing | StoreListing | None = None if is_remote(config.path) else Listing(config)
        self._stops = bounded
        self._looked = False
        self._known: set[str] = set()
        self._segments: list[bytes] = []
        self._newest: list[FileSplit] = []

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
        return tuple(self._remember(FileSplit(path=file.path, size_bytes=file.size_bytes)) for file in found)

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

    def _remember(self, file: FileSplit) -> Split:
        number = len(self._segments) * SEGMENT_SIZE + len(self._newest)
        self._known.add(file.path)
        self._newest.append(file)
        if len(self._newest) == SEGMENT_SIZE:
            self._segments.append(seal(self._newest))
            self._newest = []
        return Split(number=number, payload=msgspec.msgpack.encode(file))
