"""What the connector for Python Data Sources stores. Offsets are the user's own, as JSON; nothing here is pickled."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from tidegate.model.errors import InvalidQuery
from tidegate.operators.values import Natural

Offset = dict[str, Any]


class PartitionSplit(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="partition/1"):
    """Partition ``index`` of the ``count`` that ``partitions(start, end)`` plans."""

    start: str
    end: str
    index: Natural
    count: Natural


class PartitionPosition(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="partition-position/1"):
    rows: Natural


def offset_text(offset: Offset, method: str) -> str:
    """Offsets are compared and stored as canonical JSON."""
    try:
        return json.dumps(offset, sort_keys=True)
    except TypeError as error:
        raise InvalidQuery(
            f"{method}() of the data source returned {offset!r}, which is not JSON: {error}",
            hint="offsets are dictionaries of strings, numbers and booleans",
        ) from error
