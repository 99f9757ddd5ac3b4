"""Splits: every one is read to its end exactly once, whatever is in flight when a checkpoint is taken."""

from __future__ import annotations

import itertools
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from tests.unit.checkpoint.scenario import ONE, PLAN, SOURCE, Scenario, ack, only

from tidegate.checkpoint import effects as ef
from tidegate.checkpoint import events as ev
from tidegate.checkpoint.intervals import add_numbers, contains, done_prefix
from tidegate.checkpoint.manifest import Interval, SourceState
from tidegate.checkpoint.sources import SplitAssigner, fresh, restored
from tidegate.model.ids import SlotIndex
from tidegate.model.messages import AssignSplits, SplitsWanted
from tidegate.model.snapshot import FinishedSplit, SourceProgress, Split, SplitPosition


def splits(*numbers: int) -> tuple[Split, ...]:
    return tuple(Split(number=number, payload=b"split %d" % number) for number in numbers)


def at(number: int, position: bytes | None = b"42") -> SplitPosition:
    return SplitPosition(split=splits(number)[0], position=position)


def discovered(assigner: SplitAssigner, *numbers: int, bounded: bool = False, endless: bool = False) -> SplitAssigner:
    return assigner.on_discovered(splits(*numbers), b"state", bounded=bounded, endless=endless)


def wanted(slot: int, *, received: int = 0, asks: bool = True) -> SplitsWanted:
    return SplitsWanted(attempt=ONE, slot=SlotIndex(slot), operator=SOURCE, open=0, received=received, asks=asks)


def done(*numbers: int) -> tuple[FinishedSplit, ...]:
    return tuple(map(FinishedSplit, numbers))


def numbers(message: AssignSplits) -> list[int]:
    return [position.split.number for position in message.splits]


@given(st.sets(st.integers(0, 60)), st.sets(st.integers(0, 60)))
def test_an_interval_set_holds_exactly_what_was_added(before: set[int], added: set[int]) -> None:
    intervals = add_numbers(add_numbers((), before), added)
    assert {number for number in range(62) if contains(intervals, number)} == before | added
    assert all(left.stop < right.start for left, right in itertools.pairwise(intervals))


def test_a_reader_gets_splits_when_it_asks_and_a_repeated_request_gets_no_second_helping() -> None:
    assigner = discovered(fresh(SOURCE, 2), 0, 1, 2)
    assigner, (first,) = assigner.on_wanted(wanted(0)).assign(ONE, now_ms=0)
    assert (numbers(first), first.sequence, first.unassigned) == ([0], 0, True)
    assigner, again = assigner.on_wanted(wanted(0)).assign(ONE, now_ms=0)
    assert again == ()
    _, (second,) = assigner.on_wanted(wanted(0, received=1)).assign(ONE, now_ms=0)
    assert (numbers(second), second.sequence) == ([1], 1)


def test_a_reader_that_asked_in_vain_gets_the_next_discovery() -> None:
    assigner, (nothing,) = discovered(fresh(SOURCE, 2)).on_wanted(wanted(1)).assign(ONE, now_ms=0)
    assert (nothing.subtask, nothing.splits, nothing.unassigned) == (1, (), False)
    assigner, silent = assigner.assign(ONE, now_ms=0)
    assert silent == ()
    _, (message,) = discovered(assigner, 0).assign(ONE, now_ms=0)
    assert (message.subtask, numbers(message)) == (1, [0])


def test_a_request_before_the_first_discovery_is_answered_by_it() -> None:
    assigner, messages = fresh(SOURCE, 1).on_wanted(wanted(0)).assign(ONE, now_ms=0)
    assert messages == ()
    _, (message,) = discovered(assigner, 0).assign(ONE, now_ms=0)
    assert numbers(message) == [0]


def test_endless_splits_are_dealt_out_at_once_and_evenly() -> None:
    _, messages = discovered(fresh(SOURCE, 2), 0, 1, 2, 3, endless=True).assign(ONE, now_ms=0)
    assert [numbers(message) for message in messages] == [[0, 2], [1, 3]]


def test_everybody_hears_once_that_nothing_more_will_come() -> None:
    assigner = discovered(fresh(SOURCE, 2), 0, bounded=True)
    assigner, messages = assigner.assign(ONE, now_ms=0)
    assert messages == ()
    assigner, messages = assigner.on_wanted(wanted(1)).assign(ONE, now_ms=0)
    assert [(message.subtask, numbers(message), message.no_more) for message in messages] == [
        (0, [], True),
        (1, [0], True),
    ]
    assert assigner.on_wanted(wanted(1, received=1)).assign(ONE, now_ms=0)[1] != ()
    assert assigner.assign(ONE, now_ms=0)[1] == ()


def test_many_small_splits_go_in_handfuls_and_the_last_ones_singly() -> None:
    assigner = discovered(fresh(SOURCE, 2), *range(100))
    sizes: list[int] = []
    while assigner.unassigned:
        assigner, (message,) = assigner.on_wanted(wanted(0, received=len(sizes))).assign(ONE, now_ms=0)
        sizes.append(len(message.splits))
    assert sizes[0] == 16
    assert sizes[-1] == 1
    assert sum(sizes) == 100


def test_a_discovery_that_repeats_known_splits_adds_nothing() -> None:
    assigner = discovered(discovered(fresh(SOURCE, 1), 0, 1), 0, 1, 2)
    assert [split.number for split in assigner.pending] == [0, 1, 2]


def test_a_restore_continues_open_splits_first_and_reads_done_ones_never() -> None:
    state = fresh(SOURCE, 1).fold([SourceProgress(open=(at(3),), finished=done(0, 1))])
    for parallelism in (1, 2, 5):
        assigner = discovered(restored(state, parallelism), 0, 1, 2, 3)
        _, messages = assigner.on_wanted(wanted(0)).assign(ONE, now_ms=0)
        given_out = [position for message in messages for position in message.splits]
        assert given_out == [at(3), at(2, None)]


def test_after_a_restore_no_split_is_read_behind_a_later_one() -> None:
    """T26: split 0 had been assigned and lost. Read behind split 1, its rows would come after the watermark of split 1."""
    state = replace(fresh(SOURCE, 1), open=(at(1),), enumerator=b"state").fold(())
    assigner, nothing = restored(state, 1).assign(ONE, now_ms=0)
    assert nothing == (), "what there is beside the open splits is not known yet"
    _, (first,) = discovered(assigner, 0, 1, 2).assign(ONE, now_ms=0)
    assert sorted(numbers(first)) == [0, 1]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=30), st.integers(0, 12), st.booleans())
def test_going_through_one_reader_only_gives_what_going_through_all_would(
    questions: list[tuple[int, int]], known: int, bounded: bool
) -> None:
    one = every = discovered(fresh(SOURCE, 4), *range(known), bounded=bounded)
    for slot, received in questions:
        message = wanted(slot, received=received)
        one, told = one.on_wanted(message).assign(ONE, SlotIndex(slot), now_ms=0)
        every, all_told = every.on_wanted(message).assign(ONE, now_ms=0)
        assert (one, told) == (every, all_told)


def test_a_position_survives_a_checkpoint_that_overtakes_its_assignment() -> None:
    """T35: the split is on its way back to a reader when the barrier passes; no reader mentions it."""
    state = fresh(SOURCE, 2).fold([SourceProgress(open=(at(7, b"row 12"),))])
    assigner, _ = discovered(restored(state, 2), 7).assign(ONE, now_ms=0)
    folded = assigner.fold([SourceProgress(), SourceProgress()])
    assert folded.open == (at(7, b"row 12"),)


def test_a_split_assigned_during_a_checkpoint_is_in_its_manifest_once() -> None:
    """T35: discovered and assigned after the trigger, opened before the barrier: open, and known to the enumerator."""
    run = Scenario().run_up()
    checkpoint = run.trigger()
    run.feed(ev.SplitsDiscovered(run.now_ms, ONE, SOURCE, splits(0, 1), b"knows 0 and 1"))
    run.feed(ev.SlotSaid(run.now_ms, wanted(0)))
    acks = [ack(checkpoint, one) for one in PLAN.subtasks]
    acks[0] = ack(checkpoint, PLAN.subtasks[0], progress=SourceProgress(open=(at(0, b"row 3"),)))
    run.answer(*run.said(*acks))
    (source,) = run.manifests()[0].sources
    assert source.enumerator == b"knows 0 and 1"
    assert source.open == (at(0, b"row 3"),)
    again = run.successor().run_up()
    effects = again.feed(
        ev.SplitsDiscovered(again.now_ms, again.run.attempt, SOURCE, splits(0, 1), b"knows 0 and 1"),
        ev.SlotSaid(again.now_ms, replace_attempt(wanted(1), again)),
    )
    dealt = [
        position
        for one in (*again.all(ef.SendToSlots),)
        if isinstance(one.message, AssignSplits)
        for position in one.message.splits
    ]
    assert dealt == [at(0, b"row 3"), at(1, None)]
    assert only(effects, ef.SendToSlots)


def replace_attempt(message: SplitsWanted, run: Scenario) -> SplitsWanted:
    return SplitsWanted(
        attempt=run.run.attempt,
        slot=message.slot,
        operator=message.operator,
        open=message.open,
    )


def test_finished_splits_fold_over_checkpoints_into_ranges() -> None:
    assigner = fresh(SOURCE, 2)
    first = assigner.fold([SourceProgress(finished=done(0, 1)), SourceProgress(open=(at(2),))])
    assigner = assigner.on_completed(first)
    second = assigner.fold([SourceProgress(finished=done(1, 3)), SourceProgress(finished=done(2))])
    assert second.done == (Interval(0, 4),)
    assert second.open == ()


def test_what_a_reader_has_not_confirmed_is_sent_again_as_it_was() -> None:
    """The message was lost: the reader asks again without having taken it in."""
    run = Scenario().run_up()
    run.feed(ev.SplitsDiscovered(run.now_ms, ONE, SOURCE, splits(0, 1, 2), b""))
    (sent,) = run.feed(ev.SlotSaid(run.now_ms, wanted(0)))
    assert run.feed(ev.SlotSaid(run.now_ms, wanted(0))) == (sent,)
    assert run.feed(ev.SlotSaid(run.now_ms, wanted(0, received=1, asks=False))) == ()
    assert sent not in run.tick(60_000)


def test_an_assignment_nobody_asks_about_is_repeated_until_it_is_confirmed() -> None:
    """Endless splits are dealt out unasked: the reader cannot know that it missed one."""
    run = Scenario().run_up()
    dealt = run.feed(ev.SplitsDiscovered(run.now_ms, ONE, SOURCE, splits(0, 1), b"", endless=True))
    assert [effect.slots for effect in only(dealt, ef.SendToSlots)] == [(0,), (1,)]
    run.feed(ev.SlotSaid(run.now_ms, wanted(1, received=1, asks=False)))
    assert dealt[0] not in run.tick(PLAN.config.message_repeat_ms - 1)
    again = run.tick(1)
    assert dealt[0] in again
    assert dealt[1] not in again


def test_assignments_behind_a_lost_one_follow_it_in_order() -> None:
    """The reader takes them in without a gap, so all of them come again."""
    assigner, _ = discovered(fresh(SOURCE, 1), 0, endless=True).assign(ONE, now_ms=0)
    assigner, _ = discovered(assigner, 1).assign(ONE, now_ms=0)
    assigner, _ = discovered(assigner, 2).assign(ONE, now_ms=0)
    assert [one.sequence for one in assigner.unconfirmed(SlotIndex(0))] == [0, 1, 2]
    assigner = assigner.on_wanted(wanted(0, received=1))
    assert [numbers(one) for one in assigner.unconfirmed()] == [[1], [2]]


def test_an_old_question_delivered_late_gets_nothing() -> None:
    assigner, _ = discovered(fresh(SOURCE, 1), *range(9)).on_wanted(wanted(0)).assign(ONE, now_ms=0)
    assigner, _ = assigner.on_wanted(wanted(0, received=1)).assign(ONE, now_ms=0)
    assigner = assigner.on_wanted(wanted(0, received=2, asks=False))
    assigner = assigner.on_wanted(wanted(0, received=1))
    assert assigner.assign(ONE, now_ms=0)[1] == ()
    assert assigner.unconfirmed() == ()


def test_the_enumerators_state_is_kept_until_it_reports_after_a_restore() -> None:
    state = replace_state(fresh(SOURCE, 1))
    assert restored(state, 1).fold([]).enumerator == b"old"


def replace_state(assigner: SplitAssigner):
    return replace(assigner, enumerator=b"old").fold([])


@given(st.sets(st.integers(0, 20)))
def test_the_done_prefix_ends_at_the_first_number_that_is_not_done(done: set[int]) -> None:
    assert done_prefix(add_numbers((), done)) == next(number for number in range(22) if number not in done)


def test_what_was_read_long_ago_costs_no_memory() -> None:
    assigner = fresh(SOURCE, 1)
    for number in range(1_000):
        assigner, _ = discovered(assigner, number).on_wanted(wanted(0, received=number)).assign(ONE, now_ms=0)
        assigner = assigner.on_completed(assigner.fold([SourceProgress(finished=done(number))]))
    assert (len(assigner.pending), assigner.known, assigner.done) == (1, (Interval(0, 1_000),), (Interval(0, 1_000),))
    assert len(assigner.unconfirmed()) == 1


def test_a_split_that_was_forgotten_and_is_reported_again_is_not_read_again() -> None:
    assigner, _ = discovered(fresh(SOURCE, 1), 0).on_wanted(wanted(0)).assign(ONE, now_ms=0)
    assigner, _ = discovered(assigner, 1).on_wanted(wanted(0, received=1)).assign(ONE, now_ms=0)
    _, (message,) = discovered(assigner, 0, 1, 2).on_wanted(wanted(0, received=2)).assign(ONE, now_ms=0)
    assert numbers(message) == [2]


def test_splits_that_start_above_zero_after_a_restore_are_read_like_any_others() -> None:
    """The enumerator has forgotten 0 … 4, which are done; 5 is open, 6 was never read."""
    state = fresh(SOURCE, 1).fold([SourceProgress(open=(at(5),), finished=done(0, 1, 2, 3, 4))])
    _, messages = discovered(restored(state, 1), 5, 6).on_wanted(wanted(0)).assign(ONE, now_ms=0)
    assert [position for message in messages for position in message.splits] == [at(5), at(6, None)]


def test_an_open_split_goes_to_its_reader_as_the_enumerator_restates_it() -> None:
    """Its position stays; the checkpoint that follows has the new statement, also of one still on its way."""
    state = replace(fresh(SOURCE, 1), done=(), open=(at(0), at(1))).fold(())
    ended = Split(number=1, payload=b"split 1 with an end")
    assigner = restored(state, 1).on_discovered((splits(0)[0], ended), b"state", bounded=True, endless=True)
    assert [one.split for one in assigner.fold(()).open] == [splits(0)[0], ended]
    _, (message,) = assigner.assign(ONE, now_ms=0)
    assert message.splits == (at(0), SplitPosition(split=ended, position=b"42"))


def test_a_restored_source_without_time_does_not_follow_the_others_before_its_backlog_is_read() -> None:
    state = SourceState(operator=SOURCE, done=(Interval(0, 3),))
    assigner = restored(state, 1)
    assert assigner.unread and assigner.followed == assigner.cohorts.start == 3
