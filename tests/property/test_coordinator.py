"""Hypothesis invents the scenarios, the invariants state the law: whatever arrives early, late, twice or not at all."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.unit.checkpoint.scenario import PLAN, SLOT_LOST, SOURCE, Scenario, ack, chunk, with_config

from tidegate.checkpoint import effects as ef
from tidegate.checkpoint import events as ev
from tidegate.checkpoint import layout
from tidegate.checkpoint.events import Afterwards, Event
from tidegate.checkpoint.layout import ManifestRef
from tidegate.checkpoint.lifecycle import step
from tidegate.checkpoint.manifest import Manifest
from tidegate.checkpoint.phases import Active, New, Over, State
from tidegate.checkpoint.running import ALONE, Looking, Storing
from tidegate.model.config import RestartStrategy
from tidegate.model.elements import CheckpointKind
from tidegate.model.ids import Attempt, CheckpointId, SlotIndex
from tidegate.model.messages import SourceExhausted, SplitsWanted, SubtaskAcked, SubtaskDeclined

OUTSIDE = (ef.CommitSinks, ef.SweepSinks, ef.Delete, ef.Deploy, ef.StoreManifest, ef.WriteRestored)
WRITES = (ef.WriteClaim, ef.WriteRestored, ef.StoreManifest)


class Coordinator(RuleBasedStateMachine):
    """One driver in an unreliable world. ``waiting``: effects it has asked for and not heard of."""

    def __init__(self) -> None:
        super().__init__()
        self.plan = PLAN
        self.run = Scenario()
        self.waiting: list[ef.Effect] = []
        self.completed: dict[ManifestRef, Manifest] = {}
        self.log: list[Event] = []
        self.acked: dict[tuple[int, int], set[object]] = {}
        self.commits_waited_max = 0
        self.tokens: list[str] = []
        self.owed: dict[tuple[int, int], ef.CommittablesBySink] = {}
        """By attempt and checkpoint: what its sinks have not said to be visible."""

    def feed(self, event: Event) -> None:
        self.log.append(event)
        before = self.run.state
        self._note_visible(event)
        effects = self.run.feed(event)
        self._note_completion(before, event)
        if isinstance(before, Over):
            assert not any(isinstance(effect, OUTSIDE) for effect in effects), "the dead do nothing"
        for effect in effects:
            self.check(effect, event)
            if not isinstance(effect, ef.SendToSlots | ef.AnswerRequest | ef.ReportCheckpoint | ef.Finish):
                self.waiting.append(effect)
        if isinstance(self.run.state, Active):
            self.commits_waited_max = max(self.commits_waited_max, len(self.run.run.commits))

    def _note_completion(self, before: State, event: Event) -> None:
        """``completed``: every checkpoint of this driver that passed its look, as the store has it."""
        if isinstance(before, Active) and isinstance(event, ev.LookAnswered) and not event.newer:
            flight = before.run.flight(event.about)
            if isinstance(flight, Looking) and event.attempt == before.run.attempt:
                self.completed[flight.taken.ref] = flight.manifest

    def _note_visible(self, event: Event) -> None:
        match event:
            case ev.SinksCommitted(_, attempt, checkpoint) if (attempt, checkpoint) in self.owed:
                self.owed[attempt, checkpoint] = ()
            case ev.SinksFailed(_, attempt, checkpoint, _, left) if (attempt, checkpoint) in self.owed:
                if left is not None:
                    still = dict(left)
                    rest = (
                        (sink, tuple(one for one in some if one in still.get(sink, ())))
                        for sink, some in self.owed[attempt, checkpoint]
                    )
                    self.owed[attempt, checkpoint] = tuple((sink, some) for sink, some in rest if some)
            case _:
                pass

    def check(self, effect: ef.Effect, event: Event) -> None:
        if isinstance(effect, ef.CommitSinks):
            key = effect.attempt, effect.checkpoint
            owed = self.owed.setdefault(key, effect.committables)
            assert effect.committables == owed, "all that is not known to be visible is tried again, and nothing else"
        match effect:
            case ef.MarkCommitted(ref):
                # A restart marks what an older attempt prepared.
                asked = [left for (_, checkpoint), left in self.owed.items() if checkpoint == ref.checkpoint]
                assert () in asked, "marked is what is visible"
            case ef.StoreManifest(manifest):
                heard = self.acked[manifest.checkpoint, manifest.attempt]
                assert heard == set(PLAN.subtasks), "a manifest is a complete cut"
                below = [one.checkpoint for one in self.run.manifests() if one.attempt == manifest.attempt]
                assert manifest.checkpoint == max(below), "manifests are stored in the order of their numbers"
                own = [ref for ref in self.completed if ref.attempt == manifest.attempt]
                if own:
                    assert manifest.parent == max(own), "each builds upon the newest complete one"
            case ef.ExportSavepoint(_, manifest):
                marked = {one.ref for one in self.run.all(ef.MarkCommitted)}
                assert manifest.ref in marked or not manifest.committables(), "first visible, then exported"
            case ef.CommitSinks(attempt, checkpoint) if isinstance(event, ev.LookAnswered):
                assert not event.newer, "nobody commits past a newer claim"
                assert event.attempt == attempt
                assert event.about in (checkpoint, None)
            case ef.Delete(_, keys):
                base = self.run.run.base
                assert base is not None
                assert not base.chunk_keys() & set(keys), "the newest checkpoint keeps its chunks"
                assert layout.manifest_key(base.ref) not in keys
                used = {one.taken.base for one in self.run.run.flights} | self.run.run.orders.pinned
                for ref in used & self.completed.keys():
                    assert not self.completed[ref].chunk_keys() & set(keys), "somebody builds upon it or copies it"
                    assert layout.manifest_key(ref) not in keys
            case ef.SweepSinks(attempt, older_than):
                assert older_than <= attempt, "never a newer attempt's transactions"
            case _:
                pass

    # --- the driver hears of what it asked for -----------------------------------------------------------------------

    @initialize(
        answers=st.sampled_from([0, 2, 6, 6, 6]),
        concurrent=st.integers(1, 3),
        retained=st.integers(1, 3),
        pause_ms=st.sampled_from([0, 1_500]),
        strategy=st.sampled_from(
            [RestartStrategy.EXPONENTIAL] * 3 + [RestartStrategy.FIXED, RestartStrategy.FAILURE_RATE]
        ),
    )
    def a_person_starts_it(
        self, answers: int, concurrent: int, retained: int, pause_ms: int, strategy: RestartStrategy
    ) -> None:
        self.plan = with_config(
            checkpoints_concurrent_max=concurrent,
            checkpoints_retained=retained,
            checkpoint_min_pause_ms=pause_ms if concurrent == 1 else 0,
            restart_strategy=strategy,
            commit_timeout_ms=30_000,
        )
        self.run = Scenario(self.plan)
        self.feed(ev.Started(0, self.run.process))
        self._answer(answers)

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def an_effect_is_answered_out_of_order(self, data: st.DataObject) -> None:
        self._answer(1, data.draw(st.integers(0, len(self.waiting) - 1)))

    @precondition(lambda self: self.waiting)
    @rule(answers=st.integers(1, 8))
    def effects_are_answered_in_order(self, answers: int) -> None:
        self._answer(answers)

    def _answer(self, answers: int, at: int = 0) -> None:
        for _ in range(min(answers, len(self.waiting)) if at else answers):
            if not self.waiting:
                return
            event = self.run.perform(self.waiting.pop(at))
            if event is not None:
                self.feed(event)

    @precondition(lambda self: isinstance(self.run.state, Active))
    @rule()
    def a_whole_checkpoint_goes_well(self) -> None:
        """As far as it can with what else is going on."""
        self.run.now_ms += PLAN.config.checkpoint_interval_ms
        self.feed(ev.ClockTicked(self.run.now_ms))
        for subtask in PLAN.subtasks:
            checkpoint = self.run.triggered() if isinstance(self.run.state, Active) else None
            if checkpoint is not None:
                self._ack(checkpoint, subtask, self.run.run.attempt)
        self._answer(8)

    @precondition(lambda self: isinstance(self.run.state, Active) and self.plan.config.checkpoints_concurrent_max > 1)
    @rule(answers=st.integers(0, 8))
    def a_newer_checkpoint_overtakes(self, answers: int) -> None:
        for _ in range(2):
            self.run.now_ms += PLAN.config.checkpoint_interval_ms
            self.feed(ev.ClockTicked(self.run.now_ms))
        for subtask in PLAN.subtasks:
            if isinstance(self.run.state, Active) and self.run.run.flights:
                self._ack(self.run.run.flights[-1].taken.ref.checkpoint, subtask, self.run.run.attempt)
        self._answer(answers)

    @precondition(lambda self: any(isinstance(effect, WRITES) for effect in self.waiting))
    @rule(landed=st.booleans())
    def the_outcome_of_a_write_stays_unknown(self, landed: bool) -> None:
        effect = next(effect for effect in self.waiting if isinstance(effect, WRITES))
        self.waiting.remove(effect)
        if landed:
            self.run.perform(effect)
        match effect:
            case ef.WriteClaim(attempt):
                self.feed(ev.ClaimUnknown(self.run.now_ms, attempt))
            case ef.WriteRestored(attempt):
                self.feed(ev.RestoredUnknown(self.run.now_ms, attempt))
            case ef.StoreManifest(manifest):
                self.feed(ev.ManifestUnknown(self.run.now_ms, manifest.ref))

    @precondition(lambda self: any(isinstance(effect, ef.CommitSinks) for effect in self.waiting))
    @rule()
    def a_commit_fails(self) -> None:
        effect = next(effect for effect in self.waiting if isinstance(effect, ef.CommitSinks))
        self.waiting.remove(effect)
        self.feed(ev.SinksFailed(self.run.now_ms, effect.attempt, effect.checkpoint, SLOT_LOST))

    @precondition(lambda self: any(isinstance(effect, ef.CommitSinks) for effect in self.waiting))
    @rule(data=st.data())
    def a_sink_hands_back(self, data: st.DataObject) -> None:
        """Of one checkpoint any."""
        effect = next(effect for effect in self.waiting if isinstance(effect, ef.CommitSinks))
        self.waiting.remove(effect)
        left = tuple(
            (sink, tuple(one for one in some if data.draw(st.booleans()))) for sink, some in effect.committables
        )
        self.feed(ev.SinksFailed(self.run.now_ms, effect.attempt, effect.checkpoint, SLOT_LOST, left))

    @precondition(lambda self: any(isinstance(effect, ef.ExportSavepoint) for effect in self.waiting))
    @rule()
    def an_export_fails(self) -> None:
        effect = next(effect for effect in self.waiting if isinstance(effect, ef.ExportSavepoint))
        self.waiting.remove(effect)
        checkpoint = effect.manifest.checkpoint
        self.feed(ev.SavepointFailed(self.run.now_ms, effect.attempt, checkpoint, effect.target, SLOT_LOST))

    # --- slots ----------------------------------------------------------------------------------------------------

    @rule(checkpoint=st.integers(1, 6), subtask=st.sampled_from(PLAN.subtasks), attempt=st.integers(1, 3))
    def an_ack_arrives_early_late_or_twice(self, checkpoint: int, subtask: object, attempt: int) -> None:
        self._ack(checkpoint, subtask, attempt)

    @precondition(lambda self: isinstance(self.run.state, Active) and self.run.triggered() is not None)
    @rule(subtasks=st.sets(st.sampled_from(PLAN.subtasks), min_size=2), newest=st.booleans())
    def subtasks_acknowledge(self, subtasks: set[object], newest: bool) -> None:
        for subtask in sorted(subtasks):  # type: ignore[type-var]
            flights = self.run.run.flights if isinstance(self.run.state, Active) else ()
            if flights:
                self._ack(flights[-1 if newest else 0].taken.ref.checkpoint, subtask, self.run.run.attempt)

    def _ack(self, checkpoint: int, subtask: object, attempt: int) -> None:
        chunks = [chunk(subtask.index, checkpoint, attempt)]  # type: ignore[attr-defined]
        flight = self.run.run.flight(CheckpointId(checkpoint)) if isinstance(self.run.state, Active) else None
        if flight is not None and flight.taken.base is not None and subtask.stage == 1:  # type: ignore[attr-defined]
            # A slot that has heard of nothing since builds upon what was complete at the trigger.
            base = flight.taken.base
            chunks.insert(0, chunk(subtask.index, base.checkpoint, base.attempt))  # type: ignore[attr-defined]
        message: SubtaskAcked = ack(checkpoint, subtask, attempt=attempt, chunks=chunks)  # type: ignore[arg-type]
        self.acked.setdefault((checkpoint, attempt), set()).add(subtask)
        self.feed(ev.SlotSaid(self.run.now_ms, message))

    @precondition(lambda self: len(self.log) % 3 == 2)
    @rule(checkpoint=st.integers(1, 6), attempt=st.integers(1, 3))
    def a_subtask_declines(self, checkpoint: int, attempt: int) -> None:
        subtask = PLAN.subtasks[0]
        self.feed(
            ev.SlotSaid(
                self.run.now_ms,
                SubtaskDeclined(
                    attempt=Attempt(attempt),
                    slot=subtask.index,
                    subtask=subtask,
                    checkpoint=CheckpointId(checkpoint),
                    reason="not ready",
                ),
            )
        )

    @rule(attempt=st.integers(1, 3), slot=st.integers(0, 1))
    def a_source_ends(self, attempt: int, slot: int) -> None:
        message = SourceExhausted(attempt=Attempt(attempt), slot=SlotIndex(slot), operator=SOURCE)
        self.feed(ev.SlotSaid(self.run.now_ms, message))

    @precondition(lambda self: len(self.log) % 5 == 4)
    @rule(attempt=st.integers(1, 3))
    def an_attempt_fails(self, attempt: int) -> None:
        self.feed(ev.AttemptFailed(self.run.now_ms, Attempt(attempt), SLOT_LOST))

    # --- time, people, others -------------------------------------------------------------------------------------

    @rule(after_ms=st.sampled_from([0, 100, 100, 1_000, 1_000, 20_000, -3_600_000, 86_400_000]))
    def time_passes(self, after_ms: int) -> None:
        self.run.now_ms += after_ms
        self.feed(ev.ClockTicked(self.run.now_ms))

    @precondition(lambda self: len(self.tokens) < 4)
    @rule()
    def a_person_asks_for_a_checkpoint(self) -> None:
        self.tokens.append(f"request {len(self.tokens)}")
        self.feed(ev.CheckpointRequested(self.run.now_ms, self.tokens[-1]))

    @precondition(lambda self: len(self.tokens) < 4 and len(self.log) % 3 == 0)
    @rule(afterwards=st.sampled_from([Afterwards.RUN_ON, Afterwards.RUN_ON, Afterwards.SUSPEND, Afterwards.DRAIN]))
    def a_person_asks_for_a_savepoint(self, afterwards: Afterwards) -> None:
        self.tokens.append(f"savepoint {len(self.tokens)}")
        self.feed(ev.SavepointRequested(self.run.now_ms, self.tokens[-1], f"/to/{len(self.tokens)}", afterwards))

    @rule(attempt=st.integers(1, 2), far_behind=st.booleans())
    def the_backlog_changes(self, attempt: int, far_behind: bool) -> None:
        self.feed(ev.BacklogSeen(self.run.now_ms, Attempt(attempt), far_behind))

    @rule(slot=st.integers(0, 1), received=st.integers(0, 3), asks=st.booleans(), attempt=st.integers(1, 2))
    def a_reader_asks(self, slot: int, received: int, asks: bool, attempt: int) -> None:
        message = SplitsWanted(
            attempt=Attempt(attempt), slot=SlotIndex(slot), operator=SOURCE, open=0, received=received, asks=asks
        )
        self.feed(ev.SlotSaid(self.run.now_ms, message))

    @precondition(lambda self: len(self.log) % 7 == 6)
    @rule()
    def a_rival_claims_the_pipeline(self) -> None:
        claims = [key.attempt for key in map(layout.parse, self.run.store) if isinstance(key, layout.ClaimKey)]
        self.run.store[layout.claim_key(Attempt(max(claims, default=0) + 1))] = b"rival"

    @precondition(lambda self: len(self.log) > 40)
    @rule()
    def a_person_stops_it(self) -> None:
        self.feed(ev.StopRequested(self.run.now_ms))

    @precondition(lambda self: len(self.log) > 3)
    @rule(data=st.data())
    def an_old_event_is_delivered_again(self, data: st.DataObject) -> None:
        event = data.draw(st.sampled_from(self.log))
        once = ev.Started | ev.LookAnswered | ev.LocationListed | ev.CheckpointRequested | ev.SavepointRequested
        if not isinstance(event, once):
            self.feed(event)

    # --- the law --------------------------------------------------------------------------------------------------

    @invariant()
    def numbers_only_rise(self) -> None:
        triggers = self.run.triggers()
        assert triggers == sorted(set(triggers))

    @invariant()
    def no_more_are_in_flight_than_allowed_and_some_are_alone(self) -> None:
        if not isinstance(self.run.state, Active):
            return
        flights = self.run.run.flights
        assert len(flights) <= self.plan.config.checkpoints_concurrent_max
        assert len(flights) == 1 or not any(one.taken.kind in ALONE for one in flights)
        assert sum(isinstance(one, Storing | Looking) for one in flights) <= 1
        refs = [one.taken.ref for one in flights]
        assert refs == sorted(refs)

    @invariant()
    def nothing_follows_a_savepoint_to_stop_with(self) -> None:
        if isinstance(self.run.state, Active) and self.run.run.orders.holds:
            assert self.run.run.flights == ()

    @invariant()
    def only_the_final_checkpoint_sees_drained_sources(self) -> None:
        if isinstance(self.run.state, Active) and self.run.run.orders.draining:
            assert all(one.taken.kind is CheckpointKind.FINAL for one in self.run.run.flights)

    @invariant()
    def commits_run_in_order(self) -> None:
        asked: dict[int, list[int]] = {}
        for commit in self.run.all(ef.CommitSinks):
            asked.setdefault(commit.attempt, []).append(commit.checkpoint)
        assert all(numbers == sorted(numbers) for numbers in asked.values())

    @invariant()
    def at_most_one_completed_checkpoint_waits_behind_the_one_that_commits(self) -> None:
        assert self.commits_waited_max <= 2

    @invariant()
    def nobody_is_answered_twice_and_the_end_answers_everybody(self) -> None:
        answered = [answer.token for answer in self.run.all(ef.AnswerRequest)]
        assert len(answered) == len(set(answered))
        if isinstance(self.run.state, Over):
            assert set(answered) == set(self.tokens)

    @invariant()
    def an_automatic_restart_never_skips_a_number(self) -> None:
        claims = [claim.attempt for claim in self.run.all(ef.WriteClaim)]
        assert claims == sorted(claims)

    def teardown(self) -> None:
        """Replaying the log replays the run."""
        state, effects = New(), []
        for event in self.log:
            state, more = step(self.plan, state, event)
            effects.extend(more)
        assert state == self.run.state
        assert effects == self.run.effects


Coordinator.TestCase.settings = settings(max_examples=100, stateful_step_count=80, deadline=None)
TestCoordinator = Coordinator.TestCase
