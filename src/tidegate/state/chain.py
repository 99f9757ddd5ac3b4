"""Which stored chunks make up a table: pure bookkeeping, no rows.

An *epoch* is the time between two snapshots of the table. A link is a stored chunk with every key changed in the epochs
``(since, until]``, as of ``until``. A complete chain covers ``(0, until]`` without gaps, oldest link first, later
links overriding earlier ones key by key.

A snapshot keeps a prefix of the chain and adds one chunk with everything changed since that prefix. Two rules choose the prefix:

* *Safety.* It consists of links that every checkpoint which may be complete still refers to. What only an unconfirmed checkpoint uploaded
  may not exist; what an unconfirmed checkpoint left out may already be deleted, should it have completed unnoticed.
* *Economy.* Chunks at least halve in size towards the end (merging re-gathers live rows and reads nothing back), and a chain never holds
  more than about twice the live rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from tidegate.model.ids import CheckpointId
from tidegate.model.snapshot import ChunkHandle

FANOUT = 2
"""A link stays only if it has at least this many times the rows of what follows it."""

WASTE_MAX = 2
"""Chains with more than this many times the live rows are rewritten whole."""


@dataclass(frozen=True, slots=True)
class Link:
    """A stored chunk with the keys changed in ``(since, until]``; ``rows`` is how many of its rows are ours."""

    handle: ChunkHandle
    since: int
    until: int
    rows: int


@dataclass(frozen=True, slots=True)
class Pending:
    """A snapshot handed out and not known to be complete. ``added`` is empty until its chunk is stored, or when nothing had changed."""

    checkpoint: CheckpointId
    kept: tuple[Link, ...]
    since: int
    until: int
    added: tuple[Link, ...] = ()
    stored: bool = False


@dataclass(frozen=True, slots=True)
class Cut:
    """What a snapshot consists of: these links, and a new chunk with all that changed after epoch ``since``."""

    kept: tuple[Link, ...]
    since: int


@dataclass(frozen=True, slots=True)
class Chain:
    """``links``: the chain of the last checkpoint known to be complete. Frozen: every step returns the next one."""

    links: tuple[Link, ...] = ()
    until: int = 0
    pending: tuple[Pending, ...] = ()

    def cut(self, rows_since: Callable[[int], int], live_rows: int) -> Cut:
        """The snapshot to take now. ``rows_since(epoch)``: about how many keys changed after it, tombstones included; 0 only if none did.

        Asked only about the end of the chain or of one of its links.
        """
        kept = self.safe_links()
        since = self.until if kept == self.links else _end_of(kept)
        fresh = rows_since(since)
        while kept and fresh and kept[-1].rows < FANOUT * fresh:
            since = kept[-1].since
            kept = kept[:-1]
            fresh = rows_since(since)
        if kept and sum(link.rows for link in kept) + fresh > WASTE_MAX * max(live_rows, 1):
            return Cut((), 0)
        return Cut(kept, since)

    def safe_links(self) -> tuple[Link, ...]:
        """The longest prefix that the last complete checkpoint and every later unconfirmed one share."""
        safe = self.links
        for snapshot in self.pending:
            safe = _common_prefix(safe, snapshot.kept)
        return safe

    def handed_out(self, checkpoint: CheckpointId, cut: Cut, until: int) -> Chain:
        snapshot = Pending(checkpoint, cut.kept, cut.since, until)
        return replace(self, pending=(*self.pending, snapshot))

    def stored(self, checkpoint: CheckpointId, handles: tuple[ChunkHandle, ...]) -> Chain:
        """``handles``: one per chunk of that snapshot, in order; none for a new chunk that turned out empty. Repeated, late and foreign reports change nothing."""
        return replace(self, pending=tuple(_with_handles(p, checkpoint, handles) for p in self.pending))

    def completed(self, checkpoint: CheckpointId) -> Chain:
        """The checkpoint is complete: its chain is the one to build on. All earlier snapshots are settled by it."""
        settled = [p for p in self.pending if p.checkpoint == checkpoint and p.stored]
        if not settled:
            return self
        links = (*settled[0].kept, *settled[0].added)
        later = tuple(p for p in self.pending if p.checkpoint > checkpoint)
        return Chain(links, settled[0].until, later)


def _end_of(links: tuple[Link, ...]) -> int:
    return links[-1].until if links else 0


def _common_prefix(left: tuple[Link, ...], right: tuple[Link, ...]) -> tuple[Link, ...]:
    length = 0
    while length < min(len(left), len(right)) and left[length] == right[length]:
        length += 1
    return left[:length]


def _with_handles(snapshot: Pending, checkpoint: CheckpointId, handles: tuple[ChunkHandle, ...]) -> Pending:
    if snapshot.checkpoint != checkpoint or snapshot.stored:
        return snapshot
    added = tuple(Link(handle, snapshot.since, snapshot.until, handle.rows) for handle in handles[len(snapshot.kept) :])
    return replace(snapshot, added=added, stored=True)
