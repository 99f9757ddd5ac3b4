"""File sources and sinks: options still go through as text."""

from __future__ import annotations

from typing import ClassVar

import tidegate.connectors.files.format as _format  # noqa: F401  What it needs is missing here, or never.
from tidegate.connectors.legacy import LegacySink, LegacySource


class FilesSource(LegacySource):
    PACKAGE: ClassVar = "files"


class FilesSink(LegacySink):
    PACKAGE: ClassVar = "files"


SOURCE = FilesSource
SINK = FilesSink
