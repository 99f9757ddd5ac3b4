"""Auditors of one checkpoint location: they see every object come and go, and everything its coordinators want.

They keep their own books and ask the code under test nothing but to decode its documents.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass

import msgspec

from tidegate.checkpoint import effects as fx
from tidegate.checkpoint import events as ev
from tidegate.checkpoint.layout import (
    IMPORTED,
    ChunkKey,
    ClaimKey,
    ManifestKey,
    ManifestRef,
    RestoredKey,
    claim_key,
    parse,
)
from tidegate.checkpoint.manifest import Claim, Manifest, Restored, decode
from tidegate.checkpoint.phases import Active, State
from tidegate.checkpoint.statistics import Outcome
from tidegate.model.ids import Attempt, OperatorId
from tidegate.model.messages import SubtaskAcked, TriggerCheckpoint
from tidegate.testing.simulation.commits import CommitAuditor
from tidegate.testing.simulation.driver import SimulatedDriver
from tidegate.testing.simulation.location import Location
from tidegate.testing.simulation.setting import Setting
from tidegate.testing.simulation.traits import PASSED

WEIGHT_MAX = 800
"""Values that the coordinator of such a small query may hold: checkpoints in flight and kept, what is to be deleted, splits."""
MANIFESTS_BEYOND_RETAINED_MAX = 12
"""Manifests in the store beyond those retained: in flight, abandoned, and those that could not be deleted yet."""


@dataclass(frozen=True, slots=True)
class Cut:
    """A completed checkpoint, and how much output was visible when its manifest appeared."""

    manifest: Manifest
    visible: int


class LocationAuditor:
    def __init__(self, setting: Setting, location: Location) -> None:
        self._setting = setting
        self.pipeline = location.pipeline
        self.store = location.store
        self.newest_claim = Attempt(0)
        self.owner = ""
        """The process that wrote it: all others are fenced, whether they know it or not."""
        self._restored: dict[Attempt, Restored] = {}
        self._manifests: dict[ManifestRef, Manifest] = {}
        self._visible_at: dict[ManifestRef, int] = {}
        self._triggered: dict[Attempt, set[int]] = {}
        self._failed: set[ManifestRef] = set()
        self._visible_below: dict[tuple[str, OperatorId], int] = {}
        """By driver: the splits of a source that are done in a checkpoint whose output it has seen to be visible."""
        self._commits = CommitAuditor(setting)
        self._retained = 1
        self.completed: dict[ManifestRef, Cut] = {}
        self.last_completed_ms: int | None = None
        self.heaviest = 0
        for key, data in location.store.objects.items():
            self._learn(key, data)
        location.store.on_created = self._created
        location.store.on_delete = self._deleted

    # --- the store ------------------------------------------------------------------------------------------------

    def _learn(self, key: str, data: bytes) -> None:
        match parse(key):
            case ClaimKey(attempt):
                if attempt > self.newest_claim:
                    self.newest_claim, self.owner = attempt, decode(Claim, key, data).process
            case RestoredKey(attempt):
                self._restored[attempt] = decode(Restored, key, data)
            case ManifestKey(ref):
                self._manifests[ref] = decode(Manifest, key, data)
                self._visible_at[ref] = len(self._setting.outside.visible)
            case _:
                return

    def _created(self, key: str, data: bytes) -> None:
        self._learn(key, data)
        match parse(key):
            case ManifestKey(ref):
                self._audit_number(ref)
                if ref.attempt < self.newest_claim or ref not in self._restorable():
                    return  # It landed late: nobody will ever restore it.
                for missing in sorted(self._manifests[ref].chunk_keys() - self.store.objects.keys()):
                    self._setting.violate(f"the manifest of {ref} names {missing}, which is not there")
            case _:
                return

    def _audit_number(self, ref: ManifestRef) -> None:
        for one in self._setting.outside.visible:
            known = one.pipeline == self.pipeline and one.checkpoint == ref.checkpoint
            if known and one.attempt < ref.attempt:
                self._setting.violate(f"checkpoint {ref} has the number of output that attempt {one.attempt} published")

    def _deleted(self, key: str) -> None:
        """Nothing that a restorable checkpoint names goes, at no moment."""
        match parse(key):
            case ManifestKey(ref) if ref in self._restorable():
                self._setting.violate(f"the manifest of {ref} was deleted while it could be restored")
            case ChunkKey():
                for ref in self._restorable():
                    if key in self._manifests[ref].chunk_keys():
                        self._setting.violate(f"{key} was deleted while the restorable checkpoint {ref} names it")
            case ClaimKey() | RestoredKey():
                self._setting.violate(f"{key} was deleted; claims and restore points stay for ever")
            case _:
                return

    def deleting(self, driver: SimulatedDriver) -> None:
        retained = driver.start.plan.config.checkpoints_retained
        # What one that was replaced would keep, its successor may have deleted.
        self._retained = retained if driver.name == self.owner else min(retained, self._retained)

    @property
    def manifests(self) -> list[Manifest]:
        """All that were ever stored."""
        return list(self._manifests.values())

    def manifest(self, ref: ManifestRef) -> Manifest:
        return self._manifests[ref]

    def lineage(self) -> list[ManifestRef]:
        """What a start would choose from, newest first: manifests that exist, of the newest restore point and its ancestors."""
        found: list[ManifestRef] = []
        attempt: Attempt | None = max(self._restored, default=IMPORTED)
        limit: ManifestRef | None = None
        while attempt is not None:
            own = sorted((ref for ref in self._manifests if ref.attempt == attempt), reverse=True)
            found += [ref for ref in own if limit is None or ref <= limit]
            restored = self._restored.get(attempt)
            limit = restored.ref if restored is not None else None
            attempt = limit.attempt if limit is not None else None
        return [ref for ref in found if self._exists(ref)]

    def _restorable(self) -> list[ManifestRef]:
        lineage = self.lineage()
        running = max(self._restored, default=Attempt(0))
        # Of an older attempt whatever is there counts, also a manifest whose author never learned that it landed.
        kept = [ref for ref in lineage if ref in self.completed or ref.attempt < running][: self._retained]
        return [*kept, *(ref for ref in lineage[:1] if ref not in kept)]

    def _exists(self, ref: ManifestRef) -> bool:
        return f"checkpoints/{ref.checkpoint:06d}-{ref.attempt:06d}/manifest" in self.store.objects

    def leftovers(self) -> int:
        """Manifests beyond those retained, and chunks that none of the retained ones names.

        What processes of older attempts wrote after the newest one had claimed the location does not count: nobody has seen it, and whoever
        claims the location next will.
        """
        kept = self.lineage()[: self._retained]
        named = frozenset[str]().union(*(self._manifests[ref].chunk_keys() for ref in kept))
        claimed_ms = self.store.born_ms[claim_key(self.newest_claim)]
        found = 0
        for key in self.store.objects:
            match parse(key):
                case ChunkKey(attempt=attempt) if key not in named:
                    pass
                case ManifestKey(ref=ref) if ref not in kept:
                    attempt = ref.attempt
                case _:
                    continue
            if attempt >= self.newest_claim or self.store.born_ms[key] <= claimed_ms:
                found += 1
            else:
                self._setting.tally.path("left by a process of an older attempt, for the next one")
        return found

    # --- coordinators -----------------------------------------------------------------------------------------------

    def heard(self, driver: SimulatedDriver, event: ev.Event) -> None:
        if isinstance(event, ev.SinksFailed):
            self._commits.heard(driver.name, event)

    def effect(self, driver: SimulatedDriver, effect: fx.Effect) -> None:
        match effect:
            case fx.SendToSlots(TriggerCheckpoint(attempt=attempt, checkpoint=checkpoint)):
                self._trigger(attempt, checkpoint)
            case fx.StoreManifest(manifest) if manifest.ref in self._failed:
                self._setting.violate(f"the manifest of {manifest.ref} is stored after it was given up")
            case fx.Deploy(_, manifest) if manifest is not None:
                if any(entry.in_flight for entry in manifest.operators):
                    self._setting.tally.path("rows in flight restored")
                if manifest.parallelism != driver.start.plan.parallelism:
                    self._setting.tally.path("restored with another parallelism")
                if driver.start.changed:
                    self._setting.tally.path("changed query: it goes on from a checkpoint")
                    if PASSED in manifest.stateful and PASSED not in self._manifests[manifest.ref].stateful:
                        self._setting.tally.path("changed query: a stateful operator more")
            case fx.MarkCommitted(ref) if ref in self._manifests:
                self._commits.marked(self._manifests[ref])
            case fx.CommitSinks(_, checkpoint):
                self._commits.asked(driver.name, effect)
                if not any(ref.checkpoint == checkpoint for ref in self._manifests):
                    self._setting.violate(f"checkpoint {checkpoint} is committed without a manifest")
            case fx.ForgetSplits(_, operator, below):
                if below > self._visible_below.get((driver.name, operator), 0):
                    self._setting.violate(f"{operator} lets go of splits under {below} before their output is visible")
                self._setting.tally.path("splits forgotten")
            case fx.ReportCheckpoint(report):
                ref = ManifestRef(report.checkpoint, report.attempt)
                if report.outcome is Outcome.COMPLETED:
                    self._complete(driver, ref)
                elif report.outcome is Outcome.COMMITTED:
                    self._visible(driver, ref)
                elif report.outcome is Outcome.FAILED:
                    self._failed.add(ref)
                    why = report.reason.name.lower().replace("_", " ") if report.reason is not None else "no reason"
                    self._setting.tally.path(f"checkpoint failed: {why}")
                    if ref in self.completed:
                        self._setting.violate(f"checkpoint {ref} fails after it was completed")
            case _:
                return

    def _trigger(self, attempt: Attempt, checkpoint: int) -> None:
        seen = self._triggered.setdefault(attempt, set())
        if checkpoint in seen:
            return  # Sent again: some subtask has not answered.
        newest = max(seen, default=0)
        restored = self._restored[attempt].ref if attempt in self._restored else None
        if checkpoint < newest:
            self._setting.violate(f"attempt {attempt} triggers {checkpoint} after {newest}")
        if restored is not None and checkpoint <= restored.checkpoint:
            self._setting.violate(f"attempt {attempt} triggers {checkpoint} although it restored {restored}")
        seen.add(checkpoint)

    def _complete(self, driver: SimulatedDriver, ref: ManifestRef) -> None:
        if ref in self._failed:
            self._setting.violate(f"checkpoint {ref} completes after it was given up or subsumed")
        newer = [one for one in self.completed if one.attempt == ref.attempt and one >= ref]
        if newer:
            self._setting.violate(f"checkpoint {ref} completes after {max(newer)}")
        if ref not in self._manifests:
            self._setting.violate(f"checkpoint {ref} completes without a manifest")
            return
        self.completed[ref] = Cut(self._manifests[ref], self._visible_at[ref])
        if any(entry.in_flight for entry in self._manifests[ref].operators):
            self._setting.tally.path("checkpoint completed with rows in flight")
        self.last_completed_ms = self._setting.agenda.now_ms
        extra = sum(map(self._exists, self._manifests)) - driver.start.plan.config.checkpoints_retained
        if extra > MANIFESTS_BEYOND_RETAINED_MAX:
            self._setting.violate(f"{extra} manifests more than retained are in the store")

    def _visible(self, driver: SimulatedDriver, ref: ManifestRef) -> None:
        for source in self._manifests[ref].sources:
            self._visible_below[driver.name, source.operator] = next(
                (one.stop for one in source.done if one.start == 0), 0
            )

    def stepped(self, driver: SimulatedDriver, state: State) -> None:
        if not isinstance(state, Active) or self.last_completed_ms != self._setting.agenda.now_ms:
            return
        self.heaviest = max(self.heaviest, weight := _weigh(state))
        if weight > WEIGHT_MAX:
            self._setting.violate(f"{driver.name} holds {weight} values in its state")


def _weigh(value: object) -> int:
    """How many values a state holds. Manifests and acknowledgements count as one: their size is that of the query's state."""
    if isinstance(value, Manifest | SubtaskAcked | str | bytes | int | float | None):
        return 1
    if isinstance(value, tuple | list | set | frozenset):
        return 1 + sum(_weigh(one) for one in value)
    if isinstance(value, dict):
        return 1 + sum(_weigh(one) for pair in value.items() for one in pair)
    if is_dataclass(value):
        return 1 + sum(_weigh(getattr(value, one.name)) for one in fields(value))
    if isinstance(value, msgspec.Struct):
        return 1 + sum(_weigh(getattr(value, name)) for name in value.__struct_fields__)
    return 1
