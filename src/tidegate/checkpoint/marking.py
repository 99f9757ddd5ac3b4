"""Recording that the output of a checkpoint is visible. A target may forget what it was given: then only the marker tells that nothing
is lost. So a marker that the store did not take is written again, and a query that ends waits for the newest one, though not for ever.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tidegate.checkpoint.effects import Effect, MarkCommitted
from tidegate.checkpoint.layout import ManifestRef

RETRY_DELAY_MS = 500
PATIENCE_MS = 10_000
"""How long a query that ends waits for a store that does not take its marker."""


@dataclass(frozen=True, slots=True)
class Marking:
    """The newest marker, on its way: it covers older ones, of which nobody takes care any more."""

    ref: ManifestRef
    retry_at_ms: int | None = None
    """The store did not take it: written again then. None: being written."""


def begin(ref: ManifestRef) -> tuple[Marking, tuple[Effect, ...]]:
    return Marking(ref), (MarkCommitted(ref),)


def on_marked(marking: Marking | None, ref: ManifestRef) -> Marking | None:
    """What is still on its way once the marker of ``ref`` stands."""
    return None if marking is not None and marking.ref == ref else marking


def on_unmarked(marking: Marking | None, ref: ManifestRef, now_ms: int) -> Marking | None:
    """The store did not take the marker of ``ref``, or did not say so."""
    if marking is None or marking.ref != ref:
        return marking
    return replace(marking, retry_at_ms=now_ms + RETRY_DELAY_MS)


def on_tick(marking: Marking | None, now_ms: int) -> tuple[Marking | None, tuple[Effect, ...]]:
    if marking is None or marking.retry_at_ms is None or now_ms < marking.retry_at_ms:
        return marking, ()
    return begin(marking.ref)
