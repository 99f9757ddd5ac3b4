"""What is deleted of a checkpoint location, in random histories: with the real coordinator, the real recovery and every file."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.unit.checkpoint.scenario import COUNT, SLOT_LOST, WRITE, Scenario, ack, chunk, with_config

from tidegate.checkpoint import effects as ef
from tidegate.checkpoint import events as ev
from tidegate.checkpoint import layout
from tidegate.checkpoint.events import Event
from tidegate.checkpoint.layout import ManifestRef
from tidegate.checkpoint.manifest import Manifest, encode
from tidegate.checkpoint.phases import Active
from tidegate.checkpoint.recovery import Choice, choose, facts_from
from tidegate.checkpoint.running import Looking
from tidegate.model.ids import Attempt, SlotIndex, SubtaskId
from tidegate.model.messages import SubtaskDeclined
from tidegate.model.snapshot import ChunkHandle

SILENT = (ef.SendToSlots, ef.AnswerRequest, ef.ReportCheckpoint, ef.ForgetSplits, ef.Finish)
SLOW = (ef.ExportSavepoint, ef.CommitSinks)
LANDS_LATE = (ef.StoreManifest, ef.Delete)
DRIVERS_MAX = 4


class Location(RuleBasedStateMachine):
    """One location and the drivers that follow each other on it. ``waiting``: what the living one has asked for. ``late``: what a dead
    one had asked for, or what was reported as failed: it may still happen."""

    def __init__(self) -> None:
        super().__init__()
        self.run = Scenario()
        self.waiting: list[ef.Effect] = []
        self.late: list[ef.Effect] = []
        self.completed: dict[ManifestRef, Manifest] = {}
        """Every checkpoint that has passed its look."""
        self.newest: ManifestRef | None = None
        self.sent: dict[tuple[ManifestRef, SubtaskId], tuple[ChunkHandle, ...]] = {}
        self.drivers = 0
        self.tokens = 0

    @initialize(concurrent=st.integers(1, 2), retained=st.integers(1, 3))
    def somebody_starts_it(self, concurrent: int, retained: int) -> None:
        plan = with_config(
            checkpoints_concurrent_max=concurrent, checkpoints_retained=retained, restart_attempts_max=1_000
        )
        self.run = Scenario(plan, process="driver 0")
        self._start()

    def _start(self) -> None:
        self._take(self.run.start())
        self._answer(20)

    # --- the driver hears of what it asked for -------------------------------------------------------------------------

    def feed(self, event: Event) -> None:
        before = self.run.state
        effects = self.run.feed(event)
        if isinstance(before, Active) and isinstance(event, ev.LookAnswered) and not event.newer:
            flight = before.run.flight(event.about)
            if isinstance(flight, Looking):
                self.newest = flight.taken.ref
                self.completed[self.newest] = flight.manifest
        self._take(effects)

    def _take(self, effects: tuple[ef.Effect, ...]) -> None:
        self.waiting += [effect for effect in effects if not isinstance(effect, SILENT)]

    def _answer(self, count: int, but: tuple[type[ef.Effect], ...] = ()) -> None:
        """The oldest first. ``but``: what takes long."""
        for _ in range(count):
            effect = next((one for one in self.waiting if not isinstance(one, but)), None)
            if effect is not None:
                self._answer_one(effect)

    def _answer_one(self, effect: ef.Effect) -> None:
        self.waiting.remove(effect)
        event = self.perform(effect)
        if event is not None:
            self.feed(event)

    def perform(self, effect: ef.Effect) -> Event | None:
        """As ``Scenario`` does it, but chunks were uploaded by slots, and are there or are not."""
        match effect:
            case ef.StoreManifest(manifest):
                missing = manifest.chunk_keys() - self.run.store.keys()
                # What its own driver, or the next one, has given up may be gone, and then the manifest is never chosen.
                assert not missing or effect in self.late or self._is_abandoned(manifest.ref), missing
                self.run.store[layout.manifest_key(manifest.ref)] = encode(manifest)
                return ev.ManifestStored(self.run.now_ms, manifest.ref)
            case ef.ExportSavepoint(_, manifest):
                assert manifest.chunk_keys() <= self.run.store.keys(), "it is being copied"
                return self.run.perform(effect)
            case _:
                return self.run.perform(effect)

    def _is_abandoned(self, ref: ManifestRef) -> bool:
        return not isinstance(self.run.state, Active) or self.run.run.flight(ref.checkpoint) is None

    @precondition(lambda self: self.waiting)
    @rule(count=st.integers(1, 8), but=st.sampled_from([(), (ef.ExportSavepoint,), SLOW]))
    def effects_are_answered_in_order(self, count: int, but: tuple[type[ef.Effect], ...]) -> None:
        self._answer(count, but)

    @precondition(lambda self: len(self.waiting) > 1)
    @rule(data=st.data())
    def an_effect_is_answered_out_of_order(self, data: st.DataObject) -> None:
        self._answer_one(data.draw(st.sampled_from(self.waiting)))

    @precondition(lambda self: any(isinstance(effect, ef.StoreManifest) for effect in self.waiting))
    @rule()
    def nobody_knows_whether_a_manifest_was_stored(self) -> None:
        effect = next(effect for effect in self.waiting if isinstance(effect, ef.StoreManifest))
        self.waiting.remove(effect)
        self.late.append(effect)
        self.feed(ev.ManifestUnknown(self.run.now_ms, effect.manifest.ref))

    @precondition(lambda self: self.late)
    @rule(data=st.data())
    def what_was_asked_for_long_ago_happens(self, data: st.DataObject) -> None:
        effect = data.draw(st.sampled_from(self.late))
        self.perform(effect)
        self.late.remove(effect)

    @precondition(lambda self: any(isinstance(effect, ef.Delete) for effect in self.waiting))
    @rule(data=st.data())
    def a_round_of_deletes_is_cut_short(self, data: st.DataObject) -> None:
        effect = next(effect for effect in self.waiting if isinstance(effect, ef.Delete))
        self.waiting.remove(effect)
        tried = data.draw(st.integers(0, len(effect.keys)))
        resisting = data.draw(st.sets(st.sampled_from(effect.keys[:tried]))) if tried else set()
        for key in effect.keys[:tried]:
            if key not in resisting:
                self.run.store.pop(key, None)
        undeletable = tuple((key, "busy") for key in effect.keys[:tried] if key in resisting)
        self.feed(ev.CleanupDone(self.run.now_ms, effect.attempt, undeletable, effect.keys[tried:]))

    # --- slots -----------------------------------------------------------------------------------------------------------

    @property
    def is_active(self) -> bool:
        return isinstance(self.run.state, Active)

    @precondition(lambda self: self.is_active)
    @rule(data=st.data(), newest=st.booleans(), but=st.sampled_from([SLOW, SLOW, (ef.ExportSavepoint,)]))
    def a_checkpoint_is_taken(self, data: st.DataObject, newest: bool, but: tuple[type[ef.Effect], ...]) -> None:
        self._pass(1_000)
        for flight in self.run.run.flights[-1:] if newest else self.run.run.flights[:1]:
            for subtask in self.run.plan.subtasks:
                self._ack(flight.taken.ref, flight.taken.base, subtask, data)
        self._answer(data.draw(st.sampled_from([0, 1, 12, 12])), but)

    @precondition(lambda self: self.is_active and self.run.run.flights)
    @rule(data=st.data())
    def some_subtasks_acknowledge(self, data: st.DataObject) -> None:
        flight = data.draw(st.sampled_from(self.run.run.flights))
        for subtask in data.draw(st.lists(st.sampled_from(self.run.plan.subtasks), max_size=4)):
            self._ack(flight.taken.ref, flight.taken.base, subtask, data)

    def _ack(self, ref: ManifestRef, base: ManifestRef | None, subtask: SubtaskId, data: st.DataObject) -> None:
        """Chunks are uploaded first. A slot builds upon what was complete when the checkpoint began, or has become complete since."""
        if subtask in WRITE and (ref, subtask) not in self.sent:
            since = [one for one in self.completed if base is not None and base <= one < ref]
            merged = data.draw(st.integers(0, 2), label="chunks taken over")
            before = self._chunks_of(max(since) if data.draw(st.booleans()) else base, subtask) if since else ()
            new = chunk(subtask.index, ref.checkpoint, ref.attempt)
            self.sent[ref, subtask] = (*before[len(before) - merged :], new) if merged else (new,)
            self.run.store[layout.chunk_key(new.name)] = b"chunk"
        chunks = self.sent.get((ref, subtask), ())
        assert {layout.chunk_key(one.name) for one in chunks} <= self.run.store.keys(), (
            "a checkpoint in flight names it"
        )
        message = ack(ref.checkpoint, subtask, attempt=ref.attempt, chunks=chunks)
        self.feed(ev.SlotSaid(self.run.now_ms, message))

    def _chunks_of(self, ref: ManifestRef | None, subtask: SubtaskId) -> tuple[ChunkHandle, ...]:
        if ref is None:
            return ()
        entries = self.completed[ref].operators
        return next((one.chunks for one in entries if (one.operator, one.subtask) == (COUNT, subtask.index)), ())

    @precondition(lambda self: self.is_active and self.run.run.flights)
    @rule()
    def a_subtask_declines(self) -> None:
        subtask = self.run.plan.subtasks[0]
        ref = self.run.run.flights[-1].taken.ref
        self.feed(
            ev.SlotSaid(
                self.run.now_ms,
                SubtaskDeclined(
                    attempt=ref.attempt, slot=subtask.index, subtask=subtask, checkpoint=ref.checkpoint, reason="busy"
                ),
            )
        )

    @rule(after_ms=st.sampled_from([1_000, 20_000]))
    def time_passes(self, after_ms: int) -> None:
        self._pass(after_ms)

    def _pass(self, after_ms: int) -> None:
        self.run.now_ms += after_ms
        self.feed(ev.ClockTicked(self.run.now_ms))

    # --- people and crashes ----------------------------------------------------------------------------------------------

    @precondition(lambda self: self.is_active and self.tokens < 3)
    @rule()
    def somebody_asks_for_a_savepoint(self) -> None:
        self.tokens += 1
        self.feed(ev.SavepointRequested(self.run.now_ms, f"{self.tokens}", f"/to/{self.tokens}", ev.Afterwards.RUN_ON))

    @precondition(lambda self: self.is_active)
    @rule()
    def the_attempt_fails(self) -> None:
        self.feed(ev.AttemptFailed(self.run.now_ms, self.run.run.attempt, SLOT_LOST))

    @precondition(lambda self: self.drivers < DRIVERS_MAX)
    @rule(answers=st.integers(0, 8))
    def the_driver_dies(self, answers: int) -> None:
        """T37, T40: what it had asked for may happen after its successor has looked."""
        self.late += [effect for effect in self.waiting if isinstance(effect, LANDS_LATE)]
        self.waiting = []
        self.drivers += 1
        self.run = self.run.successor(f"driver {self.drivers}")
        self._take(self.run.start())
        self._answer(answers)

    # --- the law ---------------------------------------------------------------------------------------------------------

    @invariant()
    def whoever_restores_now_finds_a_whole_checkpoint_and_the_newest(self) -> None:
        """T36."""
        claims = [key.attempt for key in map(layout.parse, self.run.store) if isinstance(key, layout.ClaimKey)]
        attempt = Attempt(max(claims, default=0) + 1)
        facts = facts_from(self.run.plan, attempt, self.run.store, self.run.store.get)
        chosen = choose(self.run.plan, attempt, facts)
        assert isinstance(chosen, Choice), chosen
        for kept in chosen.lineage:
            assert kept.chunk_keys() <= self.run.store.keys(), f"checkpoint {kept.ref} is retained"
        if self.newest is not None:
            assert chosen.manifest is not None and chosen.manifest.ref >= self.newest

    @invariant()
    def what_is_built_upon_and_what_is_copied_is_there(self) -> None:
        if not self.is_active:
            return
        run = self.run.run
        for ref in {one.taken.base for one in run.flights} | set(run.orders.pinned):
            if ref in self.completed:
                assert self.completed[ref].chunk_keys() <= self.run.store.keys()
                assert layout.manifest_key(ref) in self.run.store

    def teardown(self) -> None:
        """T43: when nothing goes wrong any more, exactly so many checkpoints are left as are to be retained, and nothing but their files."""
        if self.late or not self.is_active:
            # What a dead driver has left, its successor finds in its listing; a living one must remember it by itself.
            for effect in self.late:
                self.perform(effect)
            self.run = self.run.successor("the last driver")
            self.late, self.waiting = [], []
            self._start()
        self._answer(100)
        retained = self.run.plan.config.checkpoints_retained
        for _ in range(retained + 1):
            assert self.is_active, type(self.run.state)
            if not self.run.run.flights:
                self._pass(1_000)
            flight = self.run.run.flights[0]
            for subtask in self.run.plan.subtasks:
                new = chunk(subtask.index, flight.taken.ref.checkpoint, flight.taken.ref.attempt)
                self.run.store[layout.chunk_key(new.name)] = b"chunk"
                chunks = (new,) if subtask in WRITE else ()
                message = ack(flight.taken.ref.checkpoint, subtask, attempt=flight.taken.ref.attempt, chunks=chunks)
                self.feed(ev.SlotSaid(self.run.now_ms, message))
            self._answer(100)
            assert self.waiting == []
        kept = self.run.stored_refs()
        assert len(kept) == retained
        named = {
            layout.chunk_key(chunk(n, ref.checkpoint, ref.attempt).name) for ref in kept for n in map(SlotIndex, (0, 1))
        }
        assert {key for key in self.run.store if key.startswith(layout.STATE_PREFIX)} == named
        marked = {key.ref for key in map(layout.parse, self.run.store) if isinstance(key, layout.CommittedKey)}
        assert marked == set(kept)


Location.TestCase.settings = settings(max_examples=50, stateful_step_count=40, deadline=None)
TestLocation = Location.TestCase
