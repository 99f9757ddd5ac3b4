"""What the targets of a pipeline remember of its output, held against what the checkpoint location says.

Whoever published something had stored its manifest before, in an attempt that had written down what it restores. So output that
is no part of the history of the chosen checkpoint means that the location has lost something: its newest manifest, or, brought
back from an older copy, everything that came later. To go on would give numbers out again, and sinks skip what they think they have.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tidegate.checkpoint import layout
from tidegate.checkpoint.events import Facts, Failure
from tidegate.checkpoint.layout import ManifestRef
from tidegate.checkpoint.manifest import Manifest, Written
from tidegate.model.errors import CorruptSnapshot
from tidegate.model.ids import Attempt, OperatorId
from tidegate.model.snapshot import NOTHING_PUBLISHED, Published


def contradiction(facts: Facts, chosen: ManifestRef | None) -> Failure | None:
    """Why the location cannot be what the targets have seen; None: it can."""
    for sink, published in facts.published:
        if not _is_history(facts, chosen, published):
            return (
                _older_copy(facts, sink, published) if _is_unknown(facts, published) else _gone(chosen, sink, published)
            )
    return None


def accepted(facts: Facts, chosen: ManifestRef | None) -> tuple[Published, ...]:
    """Output beyond the chosen checkpoint that the user knows to come twice: later starts do not ask again."""
    known = (restored.accepted for restored in facts.restored.values())
    return tuple(sorted(beyond(facts, chosen).union(*known)))


def beyond(facts: Facts, chosen: ManifestRef | None) -> frozenset[Published]:
    """What targets hold and the chosen checkpoint knows nothing of."""
    return frozenset(published for _, published in facts.published if not _in_line(facts, chosen, published))


def newest_attempt(facts: Facts) -> Attempt:
    """That any target knows; 0: none. Sinks compare attempts: what a lower one prepared would look old to them."""
    return max((published.attempt for _, published in facts.published), default=layout.IMPORTED)


def brought_back(facts: Facts, manifest: Manifest, history: Sequence[ManifestRef]) -> Iterator[str]:
    """Targets that know less than what the location says is visible there. ``history``: the manifest's own place, and those it goes
    back to: whoever marked one of them had made everything before it visible."""
    remembered = dict(facts.published)
    marked = max((ref.checkpoint for ref in history if ref in facts.committed), default=0)
    for written in manifest.written:
        published = remembered.get(written.sink)
        if written.checkpoint > marked or published is None:
            continue
        if published == NOTHING_PUBLISHED:
            yield (
                f"the target of {written.sink} remembers no output of this query, and {written.published} had become visible there: it was "
                f"dropped and made again, or another one has taken its place. That output {_MISSING}"
            )
        elif published.checkpoint and not _knows(published, written):
            yield (
                f"the target of {written.sink} remembers {published}, and {written.published} had become visible there: it was brought "
                f"back from an older copy. What came between {_MISSING}"
            )


_MISSING = (
    "is missing from it and does not come again; to write it again, start from a savepoint of that time at a new "
    "checkpointLocation"
)


def _knows(published: Published, written: Written) -> bool:
    return published >= written.published if published.attempt else published.checkpoint >= written.checkpoint


def _is_history(facts: Facts, chosen: ManifestRef | None, published: Published) -> bool:
    known = any(published in restored.accepted for restored in facts.restored.values())
    return known or _in_line(facts, chosen, published)


def _in_line(facts: Facts, chosen: ManifestRef | None, published: Published) -> bool:
    """Whether the chosen checkpoint, or one that it goes back to, is or follows what was published."""
    if not published.checkpoint:
        return not _is_unknown(facts, published)
    if not published.attempt:
        return chosen is not None and published.checkpoint <= chosen.checkpoint
    at = chosen
    while at is not None and at.attempt > published.attempt:
        restored = facts.restored.get(at.attempt)
        at = None if restored is None else restored.ref
    return at is not None and at.attempt == published.attempt and published.checkpoint <= at.checkpoint


def _is_unknown(facts: Facts, published: Published) -> bool:
    """Nobody has written down here what that attempt restored, and whoever publishes has done so. A claim says less: refused starts leave some."""
    return published.attempt > layout.IMPORTED and layout.restored_key(published.attempt) not in facts.keys


_WAYS_OUT = (
    "bring the missing files back; or start at a new checkpointLocation, from a savepoint if there is one; or go on from here, so that "
    'what came later comes twice: .option("onCorruptCheckpoint", "fallBack")'
)


def _older_copy(facts: Facts, sink: OperatorId, published: Published) -> Failure:
    newest = max(facts.restored, default=None)
    here = "none" if newest is None else f"attempt {newest}"
    return Failure(
        CorruptSnapshot.code,
        f"the target of {sink} holds output of {published}, and the checkpoint location knows no such attempt: its newest is {here}. "
        "The location was brought back from an older copy, or another copy of it has been used",
        hint=_WAYS_OUT,
        retryable=False,
    )


def _gone(chosen: ManifestRef | None, sink: OperatorId, published: Published) -> Failure:
    newest = "there is none" if chosen is None else f"the newest that can be restored is {chosen}"
    return Failure(
        CorruptSnapshot.code,
        f"the target of {sink} holds output of {published}, whose manifest is missing from the checkpoint location: {newest}",
        hint=_WAYS_OUT,
        retryable=False,
    )
