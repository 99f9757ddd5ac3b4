"""Which assignments of event time see all rows of their source, by what the user wrote.

The optimiser moves filters below ``withWatermark``. The rows they drop still tell the time, as the query says, and queries
that filter differently then share one source and one watermark.
"""

from __future__ import annotations

from tidegate.catalyst.java import Java, class_name, items

_KEEPS_ALL_ROWS = (
    "Project",
    "SubqueryAlias",
    "View",
    "EventTimeWatermark",
    "StreamingRelation",
    "StreamingRelationV2",
)


def unfiltered_watermarks(analysed: Java) -> frozenset[str]:
    """Node ids of the ``EventTimeWatermark`` operators with no filter below them in the query as it was written."""
    found: set[str] = set()
    _collect(analysed, found)
    return frozenset(found)


def _collect(plan: Java, found: set[str]) -> bool:
    """Whether ``plan`` hands on every row of one source."""
    # No short cut: the others have watermarks, too.
    below = [_collect(child, found) for child in items(plan.children())]
    keeps = all(below) and class_name(plan) in _KEEPS_ALL_ROWS
    if keeps and class_name(plan) == "EventTimeWatermark":
        found.add(str(plan.nodeId().toString()))
    return keeps
