"""Which rows of a result leave a query."""

from __future__ import annotations

from enum import Enum


class OutputMode(Enum):
    APPEND = "append"
    UPDATE = "update"
    COMPLETE = "complete"
    """The whole result, once per checkpoint."""
