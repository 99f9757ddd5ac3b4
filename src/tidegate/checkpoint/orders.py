"""Savepoints that people have asked for. Each is served by an ordinary checkpoint of the sequence, exported once its output
is visible; orders are served one after the other and live, over restarts, until they are answered.

* *Run on*: other checkpoints follow while the export runs; retention leaves its files alone until then.
* *Suspend*: from its trigger on nothing else is checkpointed, so no row behind it can become visible; then the query stops.
* *Drain*: sources are told to end once no other checkpoint is under way, so that no checkpoint but the final one can hold a
  final watermark; the final one is the savepoint.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tidegate.checkpoint.effects import AnswerRequest, Effect, ExportSavepoint, RequestDone, RequestFailed, SendToSlots
from tidegate.checkpoint.events import Afterwards, Failure, SavepointRequested
from tidegate.checkpoint.layout import ManifestRef
from tidegate.checkpoint.manifest import Manifest
from tidegate.model.ids import Attempt, CheckpointId
from tidegate.model.messages import DrainSources


@dataclass(frozen=True, slots=True)
class Order:
    token: str
    target: str
    """Opaque: the shell knows what it means."""
    afterwards: Afterwards
    ref: ManifestRef | None = None
    """The checkpoint that serves it, as soon as that is complete."""


@dataclass(frozen=True, slots=True)
class Orders:
    """Oldest first; only the first one is being served."""

    waiting: tuple[Order, ...] = ()
    exporting: Manifest | None = None
    """Is being copied for the first one."""
    draining: bool = False
    """The sources of this attempt have been told to end."""

    @property
    def first(self) -> Order | None:
        return self.waiting[0] if self.waiting else None

    @property
    def due(self) -> bool:
        """The first one still needs a checkpoint of its own."""
        return self.first is not None and self.first.ref is None

    @property
    def drains(self) -> bool:
        """Nothing but the final checkpoint may start."""
        return self.draining or (self.first is not None and self.first.afterwards is Afterwards.DRAIN)

    @property
    def holds(self) -> bool:
        """The state to stop at is complete: no checkpoint may follow it."""
        return self.first is not None and self.first.ref is not None and self.first.afterwards is not Afterwards.RUN_ON

    @property
    def pinned(self) -> frozenset[ManifestRef]:
        return frozenset(order.ref for order in self.waiting if order.ref is not None)

    def requested(self, event: SavepointRequested) -> Orders:
        if any(order.token == event.token for order in self.waiting):
            return self
        return replace(self, waiting=(*self.waiting, Order(event.token, event.target, event.afterwards)))

    def drain(self, attempt: Attempt) -> tuple[Orders, tuple[Effect, ...]]:
        """Called when no checkpoint is in flight."""
        if self.draining or not self.drains:
            return self, ()
        return replace(self, draining=True), (SendToSlots(DrainSources(attempt=attempt)),)

    def completed(self, ref: ManifestRef) -> Orders:
        """A checkpoint that was alone in flight is complete: it serves the first one."""
        if not self.due:
            return self
        first, *others = self.waiting
        return replace(self, waiting=(replace(first, ref=ref), *others))

    def visible(
        self, attempt: Attempt, manifest: Manifest, *, final: bool = False
    ) -> tuple[Orders, tuple[Effect, ...]]:
        """The output of a checkpoint is visible; ``final``: no other one follows it, so it serves every order."""
        first = self.first
        if first is None or self.exporting is not None or not (final or first.ref == manifest.ref):
            return self, ()
        served = replace(first, ref=manifest.ref)
        export = ExportSavepoint(attempt, manifest, first.target, drained=manifest.drained)
        return replace(self, waiting=(served, *self.waiting[1:]), exporting=manifest), (export,)

    def exports(self, checkpoint: CheckpointId, target: str) -> Order | None:
        """Whose export of that checkpoint is under way; None: nobody's."""
        copied = self.exporting
        return self.first if copied is not None and self._serves(copied.ref, checkpoint, target) else None

    def exported(self, checkpoint: CheckpointId, target: str) -> Order | None:
        """Whose savepoint that export made, when its attempt has ended; None: nobody's."""
        ref = self.first.ref if self.first is not None else None
        return self.first if ref is not None and self._serves(ref, checkpoint, target) else None

    def _serves(self, ref: ManifestRef, checkpoint: CheckpointId, target: str) -> bool:
        return self.first is not None and (ref.checkpoint, self.first.target) == (checkpoint, target)

    def answered(self) -> Orders:
        return replace(self, waiting=self.waiting[1:], exporting=None)

    def carried(self) -> Orders:
        """As the next attempt takes them over."""
        return Orders(self.waiting)

    def restored(self, base: ManifestRef | None) -> Orders:
        """At the begin of an attempt: a savepoint that is not what was restored is taken anew, never gone back to."""
        return Orders(tuple(order if order.ref == base else replace(order, ref=None) for order in self.waiting))


NO_ORDERS = Orders()


def done(order: Order, checkpoint: CheckpointId) -> AnswerRequest:
    return AnswerRequest(order.token, RequestDone(checkpoint, savepoint=order.target))


def failed(order: Order, checkpoint: CheckpointId, failure: Failure, *, ends: bool) -> AnswerRequest:
    """``ends``: the query ends all the same."""
    goes_on = "the query ends with that checkpoint" if ends else "the query runs on"
    why = replace(
        failure,
        message=f"the savepoint could not be written to {order.target}: {failure.message}; "
        f"checkpoint {checkpoint} is complete and {goes_on}",
    )
    return AnswerRequest(order.token, RequestFailed(why))
