"""What effects do to the world outside the drivers: to the store, or to the sink, and how they are answered.

Pipelines share the store and the sink. The location of every pipeline but the first lies inside the location of the first,
which is as bad as it can get: a listing of the first sees the files of all others.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import NamedTuple

from tidegate.checkpoint import effects as ef
from tidegate.checkpoint import events as ev
from tidegate.checkpoint import layout, savepoint
from tidegate.checkpoint.effects import Effect
from tidegate.checkpoint.events import Event
from tidegate.checkpoint.manifest import Manifest, Restored, encode
from tidegate.checkpoint.phases import Claiming
from tidegate.checkpoint.plan import CheckpointPlan
from tidegate.checkpoint.recovery import facts_from
from tidegate.checkpoint.storing import failure_of
from tidegate.model.errors import CorruptSnapshot
from tidegate.model.ids import Attempt, OperatorId
from tidegate.model.snapshot import Published, by_checkpoint
from tidegate.testing.model import world as w
from tidegate.testing.model.interning import Box, Interner
from tidegate.testing.model.world import Bounds, Document, Sink, Store, World

NOW_MS = 0
EXPORTS = "savepoints/"
"""Savepoints lie outside every location."""
_GONE = ev.Failure("CORRUPT_SNAPSHOT", "the target has given up the transaction", retryable=False)
WRITES = (ef.WriteClaim, ef.WriteRestored, ef.StoreManifest)
"""Effects whose outcome may stay unknown."""


class Landing(NamedTuple):
    """The world after an effect, and the event that answers it."""

    store: Box[Store]
    sink: Box[Sink]
    answer: Box[Event]


class Ground:
    """Landings are remembered: the same effect meets the same store, or the same sink, in very many worlds."""

    def __init__(self, plan: CheckpointPlan, bounds: Bounds, box: Interner) -> None:
        self.plan = plan
        self.bounds = bounds
        self.box = box
        self._landings: dict[tuple[Box[Effect], int, Box[Store] | Box[Sink], bool], Landing] = {}
        self._listings: dict[tuple[Box[Store], Box[Sink], int, Attempt], Box[Event]] = {}
        self._facts: dict[tuple[Box[Store], int, Attempt, Box[Sink] | None], ev.Facts] = {}
        self._documents: dict[tuple[Box[Store], int], dict[str, Document]] = {}
        self._bytes: dict[Manifest | Restored, bytes] = {}

    def land(self, world: World, boxed: Box[Effect], pipeline: int) -> Landing:
        """What the effect does to the store or to the sink, never to both."""
        effect = boxed.value
        automatic = isinstance(effect, ef.WriteClaim) and self._claims_automatically(world, effect)
        if isinstance(effect, ef.CommitSinks | ef.SweepSinks):
            known = self._landings.get((boxed, pipeline, world.sink, automatic))
            if known is None:
                sink, answer = self._land_in_sink(effect, world.sink.value, pipeline)
                known = Landing(world.store, self.box(sink), self.box(answer))
                self._landings[boxed, pipeline, world.sink, automatic] = known
            return Landing(world.store, known.sink, known.answer)
        if isinstance(effect, ef.ListLocation) and effect.ask_targets:
            return Landing(world.store, world.sink, self._listed(world, pipeline, effect.attempt))
        known = self._landings.get((boxed, pipeline, world.store, automatic))
        if known is None:
            store, answer = self._land_in_store(effect, world.store, pipeline, automatic=automatic)
            # Facts cannot be hashed; they are a function of the store, so one box per landing is enough.
            listed = isinstance(answer, ev.LocationListed)
            event: Box[Event] = Box(-1 - len(self._landings), answer) if listed else self.box(answer)
            known = self._landings[boxed, pipeline, world.store, automatic] = Landing(store, world.sink, event)
        return Landing(known.store, world.sink, known.answer)

    def _listed(self, world: World, pipeline: int, attempt: Attempt) -> Box[Event]:
        """Facts cannot be hashed; they are a function of store and sink, so one box for both is enough."""
        key = (world.store, world.sink, pipeline, attempt)
        if key not in self._listings:
            try:
                event: Event = ev.LocationListed(
                    NOW_MS, attempt, self.facts(world.store, pipeline, attempt, world.sink)
                )
            except CorruptSnapshot as error:
                event = ev.ListingFailed(NOW_MS, attempt, failure_of(error))
            self._listings[key] = Box(-1_000_000_000 - len(self._listings), event)
        return self._listings[key]

    def _land_in_store(
        self, effect: Effect, store: Box[Store], pipeline: int, *, automatic: bool
    ) -> tuple[Box[Store], Event]:
        documents = self.documents(store, pipeline)
        where = location(pipeline)
        match effect:
            case ef.WriteClaim(attempt, process):
                found = documents.get(layout.claim_key(attempt))
                if isinstance(found, w.Claimed):
                    return store, ev.ClaimRefused(NOW_MS, attempt, found.process)
                store = self._create(store, where + layout.claim_key(attempt), w.Claimed(process, automatic))
                return store, ev.ClaimWritten(NOW_MS, attempt)
            case ef.ListLocation(attempt=attempt):
                try:
                    return store, ev.LocationListed(NOW_MS, attempt, self.facts(store, pipeline, attempt))
                except CorruptSnapshot as error:
                    return store, ev.ListingFailed(NOW_MS, attempt, failure_of(error))
            case ef.WriteRestored(attempt, restored):
                found = documents.get(layout.restored_key(attempt))
                if isinstance(found, Restored):
                    return store, ev.RestoredRefused(NOW_MS, attempt, found)
                store = self._create(store, where + layout.restored_key(attempt), restored)
                return store, ev.RestoredWritten(NOW_MS, attempt)
            case ef.LookForClaim(attempt, about):
                newer = layout.claim_key(Attempt(attempt + 1)) in documents
                return store, ev.LookAnswered(NOW_MS, attempt, about, newer)
            case ef.StoreManifest(manifest):
                key = layout.manifest_key(manifest.ref)
                if key in documents:
                    return store, ev.ManifestRefused(NOW_MS, manifest.ref, documents[key] == manifest)
                return self._create(store, where + key, manifest), ev.ManifestStored(NOW_MS, manifest.ref)
            case ef.Delete(attempt, keys):
                gone = {where + key for key in keys}
                rest: Store = frozenset(entry for entry in store.value if entry.value[0] not in gone)
                return self.box(rest), ev.CleanupDone(NOW_MS, attempt)
            case ef.ExportSavepoint(attempt=attempt, manifest=manifest, target=target):
                missing = manifest.chunk_keys() - documents.keys()
                if missing:
                    failure = ev.Failure(CorruptSnapshot.code, f"{min(missing)} is missing")
                    return store, ev.SavepointFailed(NOW_MS, attempt, manifest.checkpoint, target, failure)
                exported = self._create(store, EXPORTS + target, savepoint.without_committables(manifest))
                return exported, ev.SavepointExported(NOW_MS, attempt, manifest.checkpoint, target)
            case _:
                raise AssertionError(f"not an effect of the world: {effect}")

    def _land_in_sink(self, effect: ef.CommitSinks | ef.SweepSinks, sink: Sink, pipeline: int) -> tuple[Sink, Event]:
        match effect:
            case ef.CommitSinks(attempt, checkpoint, committables):
                named = _transactions(committables)
                if self.bounds.set_backs and any(fate == w.ABORTED and one in named for one, fate in sink):
                    # What an older copy still carries was aborted by somebody it knows nothing of. The target says so aloud.
                    return sink, ev.SinksFailed(NOW_MS, attempt, checkpoint, _GONE)
                known = None if self.bounds.forgets else dict(remembered(sink, pipeline)).get(w.SINK)
                after: Sink = frozenset(
                    (one, _committed(one, known) if fate == w.PREPARED and one in named else fate) for one, fate in sink
                )
                return after, ev.SinksCommitted(NOW_MS, attempt, checkpoint)
            case ef.SweepSinks(attempt, older_than, keep):
                kept = _transactions(keep)
                swept: Sink = frozenset(
                    (one, w.ABORTED if _unwanted(one, fate, pipeline, older_than, kept) else fate) for one, fate in sink
                )
                return swept, ev.SinksSwept(NOW_MS, attempt)

    def _claims_automatically(self, world: World, effect: ef.WriteClaim) -> bool:
        boxed = world.drivers[int(effect.process[1:])]
        state = boxed.value.state.value if boxed is not None else None
        return isinstance(state, Claiming) and state.attempt == effect.attempt and state.automatic

    def _create(self, store: Box[Store], key: str, document: Document) -> Box[Store]:
        entry: tuple[str, Document] = (key, document)
        return self.box(store.value | {self.box(entry)})

    def documents(self, store: Box[Store], pipeline: int) -> dict[str, Document]:
        """What a listing of the pipeline's location shows."""
        known = self._documents.get((store, pipeline))
        if known is None:
            where = location(pipeline)
            entries = (entry.value for entry in store.value)
            inside = {key.removeprefix(where): document for key, document in entries if key.startswith(where)}
            known = self._documents[store, pipeline] = inside
        return known

    def facts(self, store: Box[Store], pipeline: int, attempt: Attempt, sink: Box[Sink] | None = None) -> ev.Facts:
        """The facts an attempt would read from the store at this moment, through the real decoder; ``sink`` if that is asked, too.

        Raises ``CorruptSnapshot`` as the real listing does.
        """
        known = self._facts.get((store, pipeline, attempt, sink))
        if known is None:
            documents = self.documents(store, pipeline)
            known = self._facts[store, pipeline, attempt, sink] = facts_from(
                self.plan,
                attempt,
                documents,
                lambda key: self._read(documents.get(key)),
                published=remembered(sink.value, pipeline) if sink is not None and not self.bounds.forgets else (),
            )
        return known

    def _read(self, document: Document) -> bytes | None:
        match document:
            case Manifest() | Restored():
                if document not in self._bytes:
                    self._bytes[document] = encode(document)
                return self._bytes[document]
            case w.Damaged():
                return b"rotten"
            case w.Claimed() | None:
                return None


def hand_backs(asked: ef.CommittablesBySink) -> Iterator[tuple[ef.CommittablesBySink, ef.CommittablesBySink]]:
    """All ways in which the sink can make some of it visible and leave the rest: some of one checkpoint, and all of later ones."""
    for sink, committables in asked:
        for checkpoint, group in by_checkpoint(committables):
            before = tuple(one for one in committables if one.checkpoint < checkpoint)
            behind = tuple(one for one in committables if one.checkpoint > checkpoint)
            for size in range(len(group)):
                for done in combinations(group, size):
                    rest = tuple(one for one in group if one not in done)
                    yield ((sink, (*before, *done)),), ((sink, (*rest, *behind)),)


def remembered(sink: Sink, pipeline: int) -> tuple[tuple[OperatorId, Published], ...]:
    """What the sink says of the newest output of a pipeline."""
    visible = [one for one, fate in sink if fate == w.COMMITTED and one.pipeline == pipeline]
    newest = max((Published(one.attempt, one.checkpoint) for one in visible), default=None)
    return () if newest is None else ((w.SINK, newest),)


def _committed(one: w.Transaction, known: Published | None) -> str:
    """What a target makes of a transaction that compares it with the newest that it has."""
    return w.SKIPPED if known is not None and (one.attempt, one.checkpoint) < known else w.COMMITTED


def location(pipeline: int) -> str:
    return f"nested-{pipeline}/" if pipeline else ""


def _unwanted(
    one: w.Transaction, fate: str, pipeline: int, older_than: Attempt, kept: frozenset[w.Transaction]
) -> bool:
    """What a committer aborts. It knows its own pipeline's transactions by their names."""
    return fate == w.PREPARED and one.pipeline == pipeline and one.attempt < older_than and one not in kept


def describe(effect: Effect) -> str:
    """An effect in a trace, short enough to read."""
    match effect:
        case ef.WriteClaim(attempt):
            return f"claims attempt {attempt}"
        case ef.ListLocation(attempt=attempt):
            return f"attempt {attempt} lists the location"
        case ef.WriteRestored(attempt, restored):
            return f"attempt {attempt} writes restored = {restored.ref or 'nothing'}"
        case ef.LookForClaim(attempt, about):
            return f"attempt {attempt} looks for a newer claim" + (f" after checkpoint {about}" if about else "")
        case ef.StoreManifest(manifest):
            return f"stores the manifest of checkpoint {manifest.ref} (epochs 1…{w.epoch_of(manifest)})"
        case ef.CommitSinks(attempt, checkpoint, committables):
            epochs = sorted({one.epoch for one in _transactions(committables)})
            return f"attempt {attempt} commits checkpoint {checkpoint}: epochs {epochs}"
        case ef.SweepSinks(attempt, older_than):
            return f"attempt {attempt} aborts unnamed transactions of attempts before {older_than}"
        case ef.Delete(attempt, keys):
            return f"attempt {attempt} deletes {', '.join(keys)}"
        case ef.ExportSavepoint(attempt=attempt, manifest=manifest):
            return f"attempt {attempt} exports checkpoint {manifest.ref}"
        case _:
            return type(effect).__name__


def unknown(effect: Effect) -> Event:
    match effect:
        case ef.WriteClaim(attempt):
            return ev.ClaimUnknown(NOW_MS, attempt)
        case ef.WriteRestored(attempt):
            return ev.RestoredUnknown(NOW_MS, attempt)
        case ef.StoreManifest(manifest):
            return ev.ManifestUnknown(NOW_MS, manifest.ref)
        case _:
            raise AssertionError(f"not a write: {effect}")


def key_of(effect: Effect) -> str:
    match effect:
        case ef.WriteClaim(attempt):
            return layout.claim_key(attempt)
        case ef.WriteRestored(attempt):
            return layout.restored_key(attempt)
        case ef.StoreManifest(manifest):
            return layout.manifest_key(manifest.ref)
        case _:
            raise AssertionError(f"not a write: {effect}")


def _transactions(committables: ef.CommittablesBySink) -> frozenset[w.Transaction]:
    return frozenset(w.transaction_of(one) for _, ones in committables for one in ones)
