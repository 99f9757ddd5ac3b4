"""Hypothesis invents what happens to checkpoints and drivers; whoever counts batches by their ids counts right.

Real is the coordinator with its manifests. Slots are played: what each has prepared and not heard to be committed. The target notes
every call, and calls that returned are never made again, as ``connectors.batch_commits`` has it.
"""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.unit.checkpoint.scenario import SINK, SLOT_LOST, Scenario, ack, committable, only, with_config

from tidegate.checkpoint import effects as ef
from tidegate.checkpoint import events as ev
from tidegate.checkpoint import layout
from tidegate.checkpoint.events import Event, SlotSaid
from tidegate.checkpoint.manifest import Manifest
from tidegate.checkpoint.phases import Active
from tidegate.checkpoint.recovery import facts_from
from tidegate.model.ids import CheckpointId, SubtaskId
from tidegate.model.messages import CheckpointCommitted, SubtaskDeclined
from tidegate.model.snapshot import Committable, Published, by_checkpoint

PLAN = with_config(
    checkpoints_retained=3, checkpoint_failures_tolerated=1_000, restart_attempts_max=1_000, commit_timeout_ms=30_000
)
WRITERS = tuple(subtask for subtask in PLAN.subtasks if subtask.stage == 1)


class Target:
    """What the user's function has seen. Outlives every driver."""

    def __init__(self) -> None:
        self.calls: list[tuple[int, frozenset[Committable]]] = []
        self.done: set[tuple[CheckpointId, bytes]] = set()

    def commit(
        self, effect: ef.CommitSinks, *, raising: bool = False, batches_max: int = 1_000
    ) -> ef.CommittablesBySink:
        """``raising``: the first call lands, and raises all the same. ``batches_max``: what is beyond is handed back."""
        ids = effect.numbering.of(SINK)
        left: list[Committable] = []
        for sink, committables in effect.committables:
            assert sink == SINK
            for at, (checkpoint, group) in enumerate(by_checkpoint(committables)):
                if at >= batches_max:
                    left += group
                    continue
                attempt = group[0].payload.partition(b"-")[0]
                if (checkpoint, attempt) in self.done:
                    continue
                self.calls.append((ids.of(checkpoint), frozenset(group)))
                if raising:
                    return effect.committables
                self.done.add((checkpoint, attempt))
        return ((SINK, tuple(left)),) if left else ()

    def newest(self) -> tuple[tuple[object, Published], ...]:
        newest = max((Published(int(attempt), checkpoint) for checkpoint, attempt in self.done), default=None)  # type: ignore[arg-type]
        return () if newest is None else ((SINK, newest),)


class Driver(Scenario):
    """A driver whose sinks and targets are real enough to count."""

    def __init__(self, target: Target, store: dict[str, bytes], process: str) -> None:
        super().__init__(PLAN, store, process)
        self.target = target
        self.carried: dict[SubtaskId, tuple[Committable, ...]] = {}
        self.deaf = False
        """Slots do not hear that a commit is done."""

    def perform(self, effect: ef.Effect) -> Event | None:
        match effect:
            case ef.CommitSinks():
                self.target.commit(effect)
            case ef.Deploy(_, manifest):
                self.carried = restored(manifest)
            case ef.SendToSlots(CheckpointCommitted(checkpoint=checkpoint)) if not self.deaf:
                for subtask, owed in self.carried.items():
                    self.carried[subtask] = tuple(one for one in owed if one.checkpoint > checkpoint)
            case ef.ListLocation(attempt, ask_targets=True):
                published = self.target.newest()
                facts = facts_from(self.plan, attempt, self.store, self.store.get, published=published)  # type: ignore[arg-type]
                return ev.LocationListed(self.now_ms, attempt, facts)
            case _:
                pass
        return super().perform(effect)


def restored(manifest: Manifest | None) -> dict[SubtaskId, tuple[Committable, ...]]:
    entries = manifest.operators if manifest is not None else ()
    return {
        subtask: tuple(
            one
            for entry in entries
            if entry.operator == SINK and entry.subtask == subtask.index
            for one in entry.committables
        )
        for subtask in WRITERS
    }


class BatchesOfOneSink(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.target = Target()
        self.store: dict[str, bytes] = {}
        self.drivers = 0
        self.whole = self.gaps = False
        self.late: list[ef.StoreManifest] = []
        """Manifests whose creation may still land."""
        self.passed_over: set[int] = set()
        """Ids of whole results that a newer one had replaced before they were shown. Falling back to their checkpoint shows them, late."""

    @initialize(whole=st.booleans())
    def a_person_starts_it(self, whole: bool) -> None:
        """``whole``: output mode complete, in which a result takes the place of those that are not visible yet."""
        self.whole = whole
        self.start()

    def start(self, **options: bool) -> None:
        self.drivers += 1
        self.run = Driver(self.target, self.store, f"driver {self.drivers}")
        self.run.answer(*self.run.start(**options))

    def barrier(self, rows: tuple[bool, bool], acks: int = len(PLAN.subtasks)) -> tuple[ef.Effect, ...]:
        """A checkpoint that so many subtasks acknowledge. ``rows``: which writers have any."""
        number = self.run.trigger()
        effects: list[ef.Effect] = []
        for at, subtask in enumerate(PLAN.subtasks):
            if subtask in WRITERS:
                own = (committable(number, subtask.index, self.run.run.attempt),) if rows[subtask.index] else ()
                self.run.carried[subtask] = own if self.whole else (*self.run.carried[subtask], *own)
            if at < acks:
                owed = self.run.carried.get(subtask, ())
                effects += self.run.said(ack(number, subtask, attempt=self.run.run.attempt, committables=owed))
        return tuple(effects)

    def until(self, effects: Iterable[ef.Effect], kind: type[ef.Effect]) -> ef.Effect:
        """Everything is performed up to the first effect of this kind."""
        queue = list(effects)
        while not isinstance(queue[0], kind):
            event = self.run.perform(queue.pop(0))
            queue.extend(self.run.feed(event) if event is not None else ())
        return queue[0]

    rows = st.sampled_from([(True, True), (True, False), (False, True), (False, False)])

    # --- checkpoints ----------------------------------------------------------------------------------------------------

    @rule(rows=rows, deaf=st.booleans())
    def a_checkpoint_goes_well(self, rows: tuple[bool, bool], deaf: bool) -> None:
        self.run.deaf = deaf
        self.run.answer(*self.barrier(rows))
        self.run.deaf = False

    @rule(rows=rows, acks=st.integers(0, len(PLAN.subtasks) - 1))
    def a_checkpoint_is_declined(self, rows: tuple[bool, bool], acks: int) -> None:
        self.run.answer(*self.barrier(rows, acks))
        number, subtask = self.run.trigger(), PLAN.subtasks[-1]
        declined = SubtaskDeclined(
            attempt=self.run.run.attempt, slot=subtask.index, subtask=subtask, checkpoint=number, reason="full"
        )
        self.run.answer(*self.run.feed(SlotSaid(self.run.now_ms, declined)))

    @rule(rows=rows, lands=st.sampled_from(["at once", "late", "never"]))
    def the_fate_of_a_manifest_stays_unknown(self, rows: tuple[bool, bool], lands: str) -> None:
        store = self.until(self.barrier(rows), ef.StoreManifest)
        assert isinstance(store, ef.StoreManifest)
        if lands == "at once":
            self.run.perform(store)
        elif lands == "late":
            self.late.append(store)
        ref = store.manifest.ref
        while (flight := self.run.run.flight(ref.checkpoint)) is not None and flight.taken.ref == ref:
            self.run.feed(ev.ManifestUnknown(self.run.now_ms, ref))
            self.run.now_ms += 200
            self.run.feed(ev.ClockTicked(self.run.now_ms))
        # A whole result that nobody may ever see has got an id.
        self.gaps |= self.whole

    @precondition(lambda self: self.late)
    @rule()
    def a_manifest_lands_late(self) -> None:
        store = self.late.pop(0)
        if layout.manifest_key(store.manifest.ref) not in self.store:
            self.run.perform(store)

    @rule(rows=rows, lands=st.booleans())
    def the_call_raises(self, rows: tuple[bool, bool], lands: bool) -> None:
        """And is made again."""
        commit = self.until(self.barrier(rows), ef.CommitSinks)
        assert isinstance(commit, ef.CommitSinks)
        if lands:
            self.target.commit(commit, raising=True)
        self.run.feed(ev.SinksFailed(self.run.now_ms, commit.attempt, commit.checkpoint, SLOT_LOST))
        self.run.answer(*self.run.tick(500))

    @rule(rows=rows, batches_max=st.integers(0, 2), again=st.integers(0, 1))
    def the_sink_hands_back(self, rows: tuple[bool, bool], batches_max: int, again: int) -> None:
        """Whole batches of the checkpoints that wait, the newest ones. They are asked for again, and nothing else of them."""
        commit = self.until(self.barrier(rows), ef.CommitSinks)
        assert isinstance(commit, ef.CommitSinks)
        if not commit.committables:
            self.run.answer(commit)
            return
        for _ in range(again + 1):
            left = self.target.commit(commit, batches_max=batches_max)
            effects = self.run.feed(ev.SinksFailed(self.run.now_ms, commit.attempt, commit.checkpoint, SLOT_LOST, left))
            if not left:
                self.run.answer(*effects)
                return
            (commit,) = only(self.run.tick(2_000), ef.CommitSinks)
            assert commit.committables == left
        self.run.answer(commit)

    # --- drivers --------------------------------------------------------------------------------------------------------

    @rule()
    def the_attempt_fails(self) -> None:
        self.run.answer(*self.run.fail())
        while not isinstance(self.run.state, Active):
            self.run.answer(*self.run.tick(1_000))

    @rule()
    def the_driver_dies(self) -> None:
        self.start()

    @rule(rows=rows, call=st.sampled_from(["not made", "raised", "returned"]))
    def the_driver_dies_while_it_commits(self, rows: tuple[bool, bool], call: str) -> None:
        commit = self.until(self.barrier(rows), ef.CommitSinks)
        assert isinstance(commit, ef.CommitSinks)
        if call != "not made":
            self.target.commit(commit, raising=call == "raised")
        self.start()

    @rule(marker=st.booleans(), damaged=st.booleans(), dies=st.integers(0, 1))
    def the_newest_manifest_is_lost_and_the_user_falls_back(self, marker: bool, damaged: bool, dies: int) -> None:
        newest = self.run.run.base
        if newest is None or newest.parent_ref is None or layout.manifest_key(newest.parent_ref) not in self.store:
            return
        key = layout.manifest_key(newest.ref)
        if damaged:
            self.store[key] = b"damaged"
        else:
            del self.store[key]
            if not marker:
                self.store.pop(layout.committed_key(newest.ref), None)
        before = [batch for batch, _ in self.target.calls]
        self.start(accept_duplicates=True)
        assert isinstance(self.run.state, Active), self.run.state
        self.gaps = True
        if self.whole:
            shown = {batch for batch, _ in self.target.calls[len(before) :]}
            self.passed_over |= {batch for batch in shown - set(before) if batch < max(before)}
        for _ in range(dies):
            self.start()

    # --- what a program relies on ---------------------------------------------------------------------------------------

    @invariant()
    def an_id_stands_for_the_same_rows_for_ever(self) -> None:
        rows: dict[int, frozenset[Committable]] = {}
        for batch, content in self.target.calls:
            assert rows.setdefault(batch, content) == content, f"batch {batch} came again with other rows"

    @invariant()
    def rows_have_one_id_for_ever(self) -> None:
        ids: dict[Committable, int] = {}
        for batch, content in self.target.calls:
            for one in content:
                assert ids.setdefault(one, batch) == batch, f"{one} came again under another id"

    @invariant()
    def ids_rise_and_leave_none_out(self) -> None:
        seen = list(dict.fromkeys(batch for batch, _ in self.target.calls if batch not in self.passed_over))
        assert seen == sorted(seen)
        if not self.gaps:
            assert seen == list(range(len(seen)))


TestBatchesOfOneSink = BatchesOfOneSink.TestCase
TestBatchesOfOneSink.settings = settings(max_examples=80, stateful_step_count=25, deadline=None)


def test_a_whole_result_that_was_replaced_unseen_keeps_its_id_when_a_fall_back_shows_it() -> None:
    run = BatchesOfOneSink()
    run.a_person_starts_it(whole=True)
    run.a_checkpoint_goes_well(deaf=False, rows=(True, True))
    run.the_fate_of_a_manifest_stays_unknown(lands="late", rows=(True, True))
    run.a_checkpoint_goes_well(deaf=False, rows=(True, True))
    run.a_manifest_lands_late()
    run.the_newest_manifest_is_lost_and_the_user_falls_back(damaged=False, dies=0, marker=False)
    run.a_checkpoint_goes_well(deaf=False, rows=(True, True))
    assert [batch for batch, _ in run.target.calls] == [0, 2, 1, 3]
    run.rows_have_one_id_for_ever()


def test_ids_left_out_by_one_fall_back_are_left_out_by_the_next_one_too() -> None:
    """Two checkpoints with one number, and nothing of either is left: the second had begun above an id that the first may have used."""
    run = BatchesOfOneSink()
    run.a_person_starts_it(whole=False)
    run.the_driver_dies_while_it_commits(call="not made", rows=(True, True))
    run.the_driver_dies_while_it_commits(call="not made", rows=(False, False))
    run.the_newest_manifest_is_lost_and_the_user_falls_back(damaged=False, dies=1, marker=False)
    run.the_driver_dies_while_it_commits(call="not made", rows=(True, True))
    run.the_newest_manifest_is_lost_and_the_user_falls_back(damaged=False, dies=0, marker=False)
    run.the_driver_dies_while_it_commits(call="not made", rows=(True, True))
    assert [batch for batch, _ in run.target.calls] == [0, 2, 3]
    run.an_id_stands_for_the_same_rows_for_ever()


def test_ids_that_were_left_out_above_a_checkpoint_are_left_out_by_whoever_goes_back_further() -> None:
    run = BatchesOfOneSink()
    run.a_person_starts_it(whole=False)
    for _ in range(3):
        run.a_checkpoint_goes_well(deaf=False, rows=(True, True))
    for _ in range(2):
        run.the_newest_manifest_is_lost_and_the_user_falls_back(damaged=False, dies=0, marker=False)
        run.a_checkpoint_goes_well(deaf=False, rows=(True, True))
    for _ in range(2):
        run.the_newest_manifest_is_lost_and_the_user_falls_back(damaged=False, dies=0, marker=False)
    run.a_checkpoint_goes_well(deaf=False, rows=(True, True))
    run.an_id_stands_for_the_same_rows_for_ever()


def test_batches_that_were_handed_back_come_again_in_their_order() -> None:
    run = BatchesOfOneSink()
    run.a_person_starts_it(whole=False)
    run.a_checkpoint_is_declined(rows=(True, True), acks=0)
    run.the_sink_hands_back(rows=(True, True), batches_max=0, again=1)
    run.a_checkpoint_is_declined(rows=(True, False), acks=0)
    run.the_sink_hands_back(rows=(True, True), batches_max=1, again=0)
    assert [batch for batch, _ in run.target.calls] == [0, 1, 2, 3]
    run.rows_have_one_id_for_ever()
