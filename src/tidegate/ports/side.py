"""What the world gives to either side of a source or sink."""

from __future__ import annotations

from tidegate.ports.directory import OpenDirectory
from tidegate.ports.store import BlobStore


class ConnectorSide:
    """Told what there is before anything else is asked of it."""

    def use(self, store: BlobStore) -> None:
        """Where the checkpoints are: for sinks that keep something beside them."""

    def reach(self, open_directory: OpenDirectory) -> None:
        """How a directory is opened that may lie elsewhere: for sources and sinks of files."""
