"""A side that needs nothing from the world may be told all the same."""

from __future__ import annotations

from pathlib import Path

from tidegate.connectors.noop.sink import NoopCommitter, NoopSink
from tidegate.storage.local import LocalBlobStore
from tidegate.storage.output_directory import open_directory


def test_it_takes_no_note_of_stores_and_directories(tmp_path: Path) -> None:
    for side in (NoopSink(), NoopCommitter()):
        side.use(LocalBlobStore(tmp_path))
        side.reach(open_directory)
        assert not vars(side)
