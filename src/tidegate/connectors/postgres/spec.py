"""The PostgreSQL sink: options still go through as text."""

from __future__ import annotations

from typing import ClassVar

import tidegate.connectors.postgres.format as _format  # noqa: F401  What it needs is missing here, or never.
from tidegate.connectors.legacy import LegacySink


class PostgresSink(LegacySink):
    PACKAGE: ClassVar = "postgres"


SINK = PostgresSink
