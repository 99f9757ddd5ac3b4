"""The auditor of commits: nothing that is known to be visible is asked for again, nothing else is forgotten, and the order holds."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from tidegate.checkpoint import effects as fx
from tidegate.checkpoint import events as ev
from tidegate.checkpoint.manifest import Manifest
from tidegate.model.ids import Attempt, CheckpointId, OperatorId
from tidegate.model.snapshot import Committable, CommittablesBySink
from tidegate.testing.simulation.setting import Setting
from tidegate.testing.simulation.sinks import Transaction

Item: TypeAlias = tuple[OperatorId, Committable]
Commit: TypeAlias = tuple[str, Attempt, CheckpointId]
"""The driver, and what it asks its sinks for."""


class CommitAuditor:
    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._wanted: dict[Commit, frozenset[Item]] = {}
        """What was asked for the first time."""
        self._seen: dict[Commit, frozenset[Item]] = {}
        """What the driver has heard to be visible."""

    def asked(self, driver: str, commit: fx.CommitSinks) -> None:
        which = driver, commit.attempt, commit.checkpoint
        items = _items(commit.committables)
        wanted = self._wanted.setdefault(which, items)
        for _, one in sorted(items & self._seen.get(which, frozenset()), key=_order):
            self._setting.violate(f"{driver} asks again for {_transaction(one)}, and has heard that it is visible")
        for sink, one in sorted(wanted - items, key=_order):
            if not self._visible(sink, one):
                self._setting.violate(f"{driver} asks no more for {_transaction(one)}, which is not visible")
        for sink, some in commit.committables:
            if [one.place for one in some] != sorted(one.place for one in some):
                self._setting.violate(f"{driver} asks {sink} for a later checkpoint before an earlier one: {some}")
        if items != wanted:
            kind = "commit" if _is_own(commit, items) else "restored commit"
            self._setting.tally.path(f"only what is left of a {kind} is asked for again")

    def heard(self, driver: str, failed: ev.SinksFailed) -> None:
        which = driver, failed.attempt, failed.checkpoint
        if failed.left is not None and which in self._wanted:
            seen = self._wanted[which] - _items(failed.left)
            self._seen[which] = self._seen.get(which, frozenset()) | seen

    def marked(self, manifest: Manifest) -> None:
        for sink, one in sorted(_items(manifest.committables()), key=_order):
            if not self._visible(sink, one):
                self._setting.violate(f"{manifest.ref} is marked as committed, and {_transaction(one)} is not visible")

    def _visible(self, sink: OperatorId, one: Committable) -> bool:
        # A newer whole result may have taken its place.
        outside = self._setting.outside
        return sink in outside.whole or _transaction(one) in outside.visible


def _items(by_sink: CommittablesBySink) -> frozenset[Item]:
    return frozenset((sink, one) for sink, some in by_sink for one in some)


def _is_own(commit: fx.CommitSinks, items: frozenset[Item]) -> bool:
    """Some of it was prepared in the attempt that asks: it restored none of this."""
    return any(_transaction(one).attempt == commit.attempt for _, one in items)


def _order(item: Item) -> tuple[OperatorId, tuple[int, int, int]]:
    return item[0], item[1].place


def _transaction(one: Committable) -> Transaction:
    return msgspec.msgpack.decode(one.payload, type=Transaction)
