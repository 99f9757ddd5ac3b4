"""Savepoints that people ask for, in random histories: each order is answered once, and the answer is true."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.unit.checkpoint.scenario import SLOT_LOST, SOURCE, Scenario, ack, with_config

from tidegate.checkpoint import effects as ef
from tidegate.checkpoint import events as ev
from tidegate.checkpoint.events import Afterwards, Event, Failure
from tidegate.checkpoint.manifest import Manifest
from tidegate.checkpoint.phases import Active, Over
from tidegate.checkpoint.savepoint import without_committables
from tidegate.model.elements import CheckpointKind
from tidegate.model.ids import CheckpointId, SlotIndex
from tidegate.model.messages import DrainSources, SourceExhausted, SubtaskDeclined, TriggerCheckpoint

SILENT = (ef.SendToSlots, ef.AnswerRequest, ef.ReportCheckpoint, ef.ForgetSplits, ef.Finish)
TOKENS_MAX = 4
OCCUPIED = Failure("INVALID_QUERY", "something else is there", retryable=False)
NO_SPACE = Failure("UNAVAILABLE", "no space left")


class Person(RuleBasedStateMachine):
    """One driver and its attempts. ``saved``: what stands in each place; an export writes all of it or nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.run = Scenario()
        self.waiting: list[ef.Effect] = []
        self.saved: dict[str, Manifest] = {}
        self.asked: dict[str, Afterwards] = {}
        self.visible: set[bytes] = set()
        self.triggered: list[tuple[CheckpointId, CheckpointKind]] = []

    @initialize(concurrent=st.integers(1, 2), retained=st.integers(1, 3))
    def somebody_starts_it(self, concurrent: int, retained: int) -> None:
        plan = with_config(
            checkpoints_concurrent_max=concurrent, checkpoints_retained=retained, restart_attempts_max=1_000
        )
        self.run = Scenario(plan)
        self._take(self.run.start())
        self._answer(20)

    # --- the driver hears of what it asked for -------------------------------------------------------------------------

    def feed(self, event: Event) -> None:
        self._take(self.run.feed(event))

    def _take(self, effects: tuple[ef.Effect, ...]) -> None:
        for effect in effects:
            self.check(effect)
            if not isinstance(effect, SILENT):
                self.waiting.append(effect)

    def check(self, effect: ef.Effect) -> None:
        match effect:
            case ef.AnswerRequest(token, ef.RequestDone(checkpoint, savepoint=target)):
                assert target == f"/to/{token}"
                assert self.saved[target].checkpoint == checkpoint, "the savepoint stands where the answer says"
                if self.asked[token] is Afterwards.DRAIN:
                    assert self.saved[target].kind is CheckpointKind.FINAL
            case ef.ExportSavepoint(_, manifest):
                output = {one.payload for _, some in manifest.committables() for one in some}
                assert output <= self.visible, "T51: first visible, then exported"
            case ef.WriteRestored(_, restored):
                newest = max((one.checkpoint for one in self.saved.values()), default=0)
                assert newest == 0 or (restored.ref is not None and restored.ref.checkpoint >= newest), (
                    "T50: nobody goes back behind a savepoint"
                )
            case ef.SendToSlots(DrainSources()):
                assert Afterwards.DRAIN in self.asked.values(), "T49: nothing but an order to drain ends the input"
            case ef.SendToSlots(TriggerCheckpoint() as message, None):
                self.triggered.append((message.checkpoint, message.kind))
            case _:
                pass

    def perform(self, effect: ef.Effect) -> Event | None:
        match effect:
            case ef.ExportSavepoint(attempt, manifest, target):
                # As ``savepoint.export``: the same document again is no other one.
                if self.saved.setdefault(target, without_committables(manifest)) != without_committables(manifest):
                    return ev.SavepointFailed(self.run.now_ms, attempt, manifest.checkpoint, target, OCCUPIED)
            case ef.CommitSinks(_, _, committables):
                self.visible |= {one.payload for _, some in committables for one in some}
            case _:
                pass
        return self.run.perform(effect)

    def _answer(self, count: int, but: tuple[type[ef.Effect], ...] = ()) -> None:
        for _ in range(count):
            effect = next((one for one in self.waiting if not isinstance(one, but)), None)
            if effect is not None:
                self._answer_one(effect)

    def _answer_one(self, effect: ef.Effect) -> None:
        self.waiting.remove(effect)
        event = self.perform(effect)
        if event is not None:
            self.feed(event)

    @precondition(lambda self: self.waiting)
    @rule(
        count=st.integers(1, 8), but=st.sampled_from([(), (ef.ExportSavepoint,), (ef.CommitSinks,), (ef.EndAttempt,)])
    )
    def effects_are_answered_in_order(self, count: int, but: tuple[type[ef.Effect], ...]) -> None:
        self._answer(count, but)

    @precondition(lambda self: len(self.waiting) > 1)
    @rule(data=st.data())
    def an_effect_is_answered_out_of_order(self, data: st.DataObject) -> None:
        self._answer_one(data.draw(st.sampled_from(self.waiting)))

    @precondition(lambda self: any(isinstance(effect, ef.ExportSavepoint) for effect in self.waiting))
    @rule()
    def an_export_fails(self) -> None:
        effect = next(effect for effect in self.waiting if isinstance(effect, ef.ExportSavepoint))
        self.waiting.remove(effect)
        self.feed(
            ev.SavepointFailed(self.run.now_ms, effect.attempt, effect.manifest.checkpoint, effect.target, NO_SPACE)
        )

    @precondition(lambda self: any(isinstance(effect, ef.CommitSinks) for effect in self.waiting))
    @rule()
    def a_commit_fails(self) -> None:
        effect = next(effect for effect in self.waiting if isinstance(effect, ef.CommitSinks))
        self.waiting.remove(effect)
        self.feed(ev.SinksFailed(self.run.now_ms, effect.attempt, effect.checkpoint, SLOT_LOST))

    # --- slots -----------------------------------------------------------------------------------------------------------

    @property
    def is_active(self) -> bool:
        return isinstance(self.run.state, Active)

    @precondition(lambda self: self.is_active)
    @rule(answers=st.sampled_from([0, 3, 12, 12]), but=st.sampled_from([(), (ef.ExportSavepoint,), (ef.CommitSinks,)]))
    def a_checkpoint_is_taken(self, answers: int, but: tuple[type[ef.Effect], ...]) -> None:
        self._pass(1_000)
        self._acknowledge(2)
        self._answer(answers, but)

    @precondition(lambda self: self.is_active and self.run.run.flights)
    @rule(subtasks=st.sampled_from([1, 2]))
    def stages_acknowledge(self, subtasks: int) -> None:
        self._acknowledge(subtasks)

    def _acknowledge(self, stages: int) -> None:
        for flight in self.run.run.flights[:1] if self.is_active else ():
            ref = flight.taken.ref
            for subtask in self.run.plan.subtasks:
                if subtask.stage < stages:
                    self.feed(ev.SlotSaid(self.run.now_ms, ack(ref.checkpoint, subtask, attempt=ref.attempt)))

    @precondition(lambda self: self.is_active and self.run.run.flights)
    @rule()
    def a_subtask_declines(self) -> None:
        subtask, ref = self.run.plan.subtasks[0], self.run.run.flights[0].taken.ref
        self.feed(
            ev.SlotSaid(
                self.run.now_ms,
                SubtaskDeclined(
                    attempt=ref.attempt, slot=subtask.index, subtask=subtask, checkpoint=ref.checkpoint, reason="busy"
                ),
            )
        )

    @precondition(lambda self: self.is_active and self.run.run.orders.draining)
    @rule(slot=st.integers(0, 1))
    def a_source_ends(self, slot: int) -> None:
        message = SourceExhausted(attempt=self.run.run.attempt, slot=SlotIndex(slot), operator=SOURCE)
        self.feed(ev.SlotSaid(self.run.now_ms, message))

    @precondition(lambda self: self.is_active)
    @rule()
    def the_attempt_fails(self) -> None:
        self.feed(ev.AttemptFailed(self.run.now_ms, self.run.run.attempt, SLOT_LOST))

    @rule(after_ms=st.sampled_from([1_000, 20_000]))
    def time_passes(self, after_ms: int) -> None:
        self._pass(after_ms)

    def _pass(self, after_ms: int) -> None:
        self.run.now_ms += after_ms
        self.feed(ev.ClockTicked(self.run.now_ms))

    # --- people ----------------------------------------------------------------------------------------------------------

    @precondition(lambda self: len(self.asked) < TOKENS_MAX)
    @rule(
        afterwards=st.sampled_from([Afterwards.RUN_ON] * 3 + [Afterwards.SUSPEND, Afterwards.DRAIN]),
        twice=st.booleans(),
    )
    def somebody_asks_for_a_savepoint(self, afterwards: Afterwards, twice: bool) -> None:
        """``twice``: the question is repeated before it is answered."""
        token = f"{len(self.asked)}"
        self.asked[token] = afterwards
        for _ in range(1 + twice):
            if token not in self.answered:
                self.feed(ev.SavepointRequested(self.run.now_ms, token, f"/to/{token}", afterwards))

    @property
    def answered(self) -> list[str]:
        return [answer.token for answer in self.run.all(ef.AnswerRequest)]

    # --- the law ---------------------------------------------------------------------------------------------------------

    @invariant()
    def nobody_is_answered_twice(self) -> None:
        assert len(self.answered) == len(set(self.answered))

    @invariant()
    def orders_are_served_one_after_the_other(self) -> None:
        done = [one.token for one in self.run.all(ef.AnswerRequest) if isinstance(one.outcome, ef.RequestDone)]
        assert done == sorted(done, key=int)

    @invariant()
    def nothing_is_taken_behind_what_a_query_was_stopped_with(self) -> None:
        """T49."""
        for token in self.answered:
            outcome = next(one.outcome for one in self.run.all(ef.AnswerRequest) if one.token == token)
            if isinstance(outcome, ef.RequestDone) and self.asked[token] is not Afterwards.RUN_ON:
                assert max(self.triggered)[0] == outcome.checkpoint
                assert not self.is_active or self.run.run.concluded, (
                    "at most others are served with the same checkpoint"
                )

    def teardown(self) -> None:
        """When nothing goes wrong any more, everybody gets an answer, and whoever asked to stop it has stopped it."""
        for _ in range(12 * (TOKENS_MAX + 1)):
            if not self.waiting and sorted(self.answered) == sorted(self.asked):
                break
            self._answer(100)
            self._pass(20_000)
            if self.is_active and self.run.run.orders.draining:
                self.a_source_ends(0)
                self.a_source_ends(1)
            self._acknowledge(2)
        assert sorted(self.answered) == sorted(self.asked)
        stops = [
            one.token
            for one in self.run.all(ef.AnswerRequest)
            if isinstance(one.outcome, ef.RequestDone) and self.asked[one.token] is not Afterwards.RUN_ON
        ]
        assert not stops or isinstance(self.run.state, Over)


Person.TestCase.settings = settings(max_examples=30, stateful_step_count=40, deadline=None)
TestPerson = Person.TestCase
