"""Savepoints: ordinary checkpoints of the sequence, exported once their output is visible."""

from __future__ import annotations

import pytest
from tests.unit.checkpoint.scenario import Scenario, chunk, only, with_config
from tests.unit.checkpoint.test_concurrent import acked

from tidegate.checkpoint import effects as ef
from tidegate.checkpoint import events as ev
from tidegate.checkpoint.events import Afterwards, Failure
from tidegate.checkpoint.layout import ManifestRef
from tidegate.checkpoint.phases import Active, Over
from tidegate.model.elements import CheckpointKind
from tidegate.model.ids import Attempt, CheckpointId
from tidegate.model.messages import DrainSources, TriggerCheckpoint
from tidegate.model.snapshot import ChunkHandle

DISK_FULL = Failure("UNAVAILABLE", "no space left")


def kinds(run: Scenario) -> list[CheckpointKind]:
    sent = [effect.message for effect in run.all(ef.SendToSlots) if effect.slots is None]
    return [message.kind for message in sent if isinstance(message, TriggerCheckpoint)]


def up_to_export(run: Scenario, chunks: dict[int, list[ChunkHandle]] | None = None) -> ef.ExportSavepoint:
    """The savepoint that was asked for is complete and committed; its export has begun."""
    effects = list(acked(run, run.trigger(), chunks))
    exports: list[ef.ExportSavepoint] = []
    while effects:
        effect = effects.pop(0)
        if isinstance(effect, ef.ExportSavepoint):
            exports.append(effect)
            continue
        event = run.perform(effect)
        effects.extend(run.feed(event) if event is not None else ())
    (export,) = exports
    return export


def answers(run: Scenario) -> dict[str, ef.RequestDone | ef.RequestFailed]:
    return {one.token: one.outcome for one in run.all(ef.AnswerRequest)}


def drains(run: Scenario) -> list[tuple[int, ...] | None]:
    return [one.slots for one in run.all(ef.SendToSlots) if isinstance(one.message, DrainSources)]


# --- run on -----------------------------------------------------------------------------------------------------------


def test_a_savepoint_starts_at_once_and_is_exported_after_its_commits_and_answered_after_its_export() -> None:
    run = Scenario(with_config(checkpoint_min_pause_ms=60_000)).run_up()
    run.savepoint()
    assert kinds(run) == [CheckpointKind.SAVEPOINT]
    for effect in (store := run.acks(run.trigger())):
        (look,) = run.feed(run.perform(effect))  # type: ignore[arg-type]
    assert only(store, ef.StoreManifest)
    run.feed(run.perform(look))  # type: ignore[arg-type]
    assert not run.all(ef.ExportSavepoint)
    effects = run.feed(ev.SinksCommitted(run.now_ms, Attempt(1), CheckpointId(1)))
    (export,) = only(effects, ef.ExportSavepoint)
    assert (export.manifest.kind, export.target, export.drained) == (CheckpointKind.SAVEPOINT, "/to/please", False)
    assert answers(run) == {}
    run.answer(export)
    assert answers(run) == {"please": ef.RequestDone(CheckpointId(1), savepoint="/to/please")}
    assert isinstance(run.state, Active)


def test_a_savepoint_waits_for_what_is_in_flight_and_shares_the_channels_with_nothing() -> None:
    run = Scenario(with_config(checkpoints_concurrent_max=2)).run_up()
    run.tick(1_000)
    run.savepoint()
    run.tick(1_000)
    assert run.triggers() == [1]
    run.answer(*acked(run, 1))
    assert kinds(run) == [CheckpointKind.PERIODIC, CheckpointKind.SAVEPOINT]
    run.tick(5_000)
    assert run.triggers() == [1, 2]


def test_a_savepoint_is_what_recovery_goes_on_from() -> None:
    """T50: it committed its output, then everything fails at once; going back further would repeat that output."""
    run = Scenario().run_up()
    run.complete()
    run.savepoint()
    run.answer(up_to_export(run))
    again = run.successor().run_up()
    assert again.last(ef.WriteRestored).restored.ref == ManifestRef(CheckpointId(2), Attempt(1))


def test_retention_keeps_a_savepoint_until_its_export_is_decided() -> None:
    """T36 and T40 with ``retained = 1``: three checkpoints complete while the export runs."""
    run = Scenario(with_config(checkpoints_retained=1)).run_up()
    run.savepoint()
    export = up_to_export(run, {0: [chunk(0, 1)]})
    for _ in range(3):
        run.complete()
    kept = ManifestRef(CheckpointId(1), Attempt(1))
    assert run.stored_refs() == [kept, ManifestRef(CheckpointId(4), Attempt(1))]
    assert export.manifest.chunk_keys() <= run.store.keys()
    run.answer(export)
    run.complete()
    assert run.stored_refs() == [ManifestRef(CheckpointId(5), Attempt(1))]
    assert not export.manifest.chunk_keys() & run.store.keys()


def test_a_savepoint_that_cannot_be_written_is_answered_and_the_query_runs_on() -> None:
    run = Scenario().run_up()
    run.savepoint()
    up_to_export(run)
    run.feed(ev.SavepointFailed(run.now_ms, Attempt(1), CheckpointId(1), "/to/please", DISK_FULL))
    outcome = answers(run)["please"]
    assert isinstance(outcome, ef.RequestFailed)
    assert "no space left" in outcome.failure.message
    assert "runs on" in outcome.failure.message
    run.complete()
    assert isinstance(run.state, Active)


def test_a_savepoint_whose_checkpoint_fails_is_tried_again() -> None:
    run = Scenario().run_up()
    run.savepoint()
    run.tick(10_000)
    assert answers(run) == {}
    run.tick(1_000)
    assert kinds(run) == [CheckpointKind.SAVEPOINT] * 2
    run.answer(up_to_export(run))
    assert answers(run) == {"please": ef.RequestDone(CheckpointId(2), savepoint="/to/please")}


def test_two_savepoints_queue_up_and_each_gets_its_own_checkpoint() -> None:
    run = Scenario().run_up()
    run.savepoint("a")
    run.savepoint("b")
    run.savepoint("b")
    first = up_to_export(run)
    run.tick(100)
    assert run.triggers() == [1], "the second one is asked for, but the first export is not decided"
    run.answer(first)
    assert kinds(run) == [CheckpointKind.SAVEPOINT] * 2
    run.answer(up_to_export(run))
    assert {token: one.checkpoint for token, one in answers(run).items()} == {"a": 1, "b": 2}  # type: ignore[union-attr]


def test_a_savepoint_complete_but_not_exported_is_exported_by_the_next_attempt_from_what_it_restored() -> None:
    """T51: the attempt ends before the commits are confirmed. The path is reported, nothing older is restored."""
    run = Scenario().run_up()
    run.savepoint()
    (store,) = only(run.acks(run.trigger()), ef.StoreManifest)
    (look,) = run.feed(run.perform(store))  # type: ignore[arg-type]
    run.feed(run.perform(look))  # type: ignore[arg-type]
    run.restart()
    (export,) = run.all(ef.ExportSavepoint)
    assert (export.attempt, export.manifest.ref) == (2, store.manifest.ref)
    assert answers(run) == {"please": ef.RequestDone(CheckpointId(1), savepoint="/to/please")}


def test_a_savepoint_behind_what_was_restored_is_taken_anew_never_gone_back_to() -> None:
    """T51: 2 is complete while 1 is still being exported; the next attempt restores 2."""
    run = Scenario().run_up()
    run.savepoint()
    up_to_export(run)
    run.complete()
    run.answer(*run.fail())
    assert answers(run) == {}
    run.answer(*run.tick(100))
    assert kinds(run)[-1] is CheckpointKind.SAVEPOINT
    run.answer(up_to_export(run))
    assert answers(run) == {"please": ef.RequestDone(CheckpointId(3), savepoint="/to/please")}


def test_an_export_that_ends_after_its_attempt_counts() -> None:
    """T51"""
    run = Scenario().run_up()
    run.savepoint()
    up_to_export(run)
    end = run.fail()
    run.feed(ev.SavepointExported(run.now_ms, Attempt(1), CheckpointId(1), "/to/please"))
    assert answers(run) == {"please": ef.RequestDone(CheckpointId(1), savepoint="/to/please")}
    run.answer(*end)
    run.answer(*run.tick(100))
    assert isinstance(run.state, Active)
    assert len(run.all(ef.ExportSavepoint)) == 1


def test_a_savepoint_asked_for_while_no_attempt_runs_is_taken_by_the_next() -> None:
    run = Scenario()
    effects = run.start()
    run.savepoint()
    run.answer(*effects)
    assert kinds(run) == [CheckpointKind.SAVEPOINT]


def test_a_savepoint_asked_for_after_the_end_is_refused() -> None:
    run = Scenario().run_up()
    run.answer(*run.feed(ev.StopRequested(run.now_ms)))
    run.savepoint()
    assert isinstance(answers(run)["please"], ef.RequestFailed)


def test_an_answer_about_another_export_answers_nobody() -> None:
    run = Scenario().run_up()
    run.savepoint()
    up_to_export(run)
    run.feed(ev.SavepointExported(run.now_ms, Attempt(1), CheckpointId(7), "/to/please"))
    run.feed(ev.SavepointExported(run.now_ms, Attempt(9), CheckpointId(1), "/to/please"))
    assert answers(run) == {}


# --- suspend ----------------------------------------------------------------------------------------------------------


def test_suspend_checkpoints_nothing_behind_the_savepoint_and_stops_after_its_export() -> None:
    """T49: rows behind it must not become visible, or a start from it would repeat them. No source is drained."""
    run = Scenario().run_up()
    run.savepoint(afterwards=Afterwards.SUSPEND)
    export = up_to_export(run)
    run.feed(ev.CheckpointRequested(run.now_ms, "too late"))
    run.tick(60_000)
    assert run.triggers() == [1]
    run.answer(export)
    assert run.state == Over(ef.Stopped())
    assert answers(run)["please"] == ef.RequestDone(CheckpointId(1), savepoint="/to/please")
    assert isinstance(answers(run)["too late"], ef.RequestFailed)
    assert drains(run) == []
    assert not export.manifest.drained


def test_a_suspend_whose_export_fails_says_so_and_the_query_runs_on() -> None:
    run = Scenario().run_up()
    run.savepoint(afterwards=Afterwards.SUSPEND)
    up_to_export(run)
    run.feed(ev.SavepointFailed(run.now_ms, Attempt(1), CheckpointId(1), "/to/please", DISK_FULL))
    outcome = answers(run)["please"]
    assert isinstance(outcome, ef.RequestFailed)
    assert "runs on" in outcome.failure.message
    run.complete()
    assert run.triggers() == [1, 2]


def test_a_suspend_that_loses_its_attempt_is_carried_out_by_the_next() -> None:
    """T51: the savepoint is complete; the next attempt restores it, exports it, and takes no other checkpoint."""
    run = Scenario().run_up()
    run.savepoint(afterwards=Afterwards.SUSPEND)
    up_to_export(run)
    run.answer(*run.fail())
    run.answer(*run.tick(100))
    assert run.state == Over(ef.Stopped())
    assert run.triggers() == [1]
    assert answers(run) == {"please": ef.RequestDone(CheckpointId(1), savepoint="/to/please")}


def test_an_export_that_outlives_its_attempt_still_suspends() -> None:
    run = Scenario().run_up()
    run.savepoint(afterwards=Afterwards.SUSPEND)
    up_to_export(run)
    end = run.fail()
    run.feed(ev.SavepointExported(run.now_ms, Attempt(1), CheckpointId(1), "/to/please"))
    run.answer(*end)
    assert run.state == Over(ef.Stopped())


@pytest.mark.parametrize("afterwards", [Afterwards.SUSPEND, Afterwards.DRAIN])
def test_a_plain_stop_does_not_wait_for_a_savepoint(afterwards: Afterwards) -> None:
    run = Scenario().run_up()
    run.savepoint(afterwards=afterwards)
    run.answer(*run.feed(ev.StopRequested(run.now_ms)))
    assert run.state == Over(ef.Stopped())
    assert isinstance(answers(run)["please"], ef.RequestFailed)


# --- drain ------------------------------------------------------------------------------------------------------------


def test_drain_ends_the_sources_and_the_final_checkpoint_is_the_savepoint() -> None:
    """T49: all windows close; the savepoint knows that it is drained."""
    run = Scenario().run_up()
    run.savepoint(afterwards=Afterwards.DRAIN)
    assert drains(run) == [None]
    run.tick(1_500)
    assert run.triggers() == [], "a periodic one could hold a final watermark and be resumed by accident"
    run.exhaust()
    assert kinds(run) == [CheckpointKind.FINAL]
    export = up_to_export(run)
    assert export.manifest.drained
    assert export.drained
    assert isinstance(run.state, Active), "the query ends when the savepoint stands"
    run.answer(export)
    assert run.state == Over(ef.Finished())
    assert answers(run) == {"please": ef.RequestDone(CheckpointId(1), savepoint="/to/please")}


def test_sources_are_drained_only_when_no_other_checkpoint_is_under_way() -> None:
    """T49: its trigger might reach a source behind the order to end."""
    run = Scenario().run_up()
    checkpoint = run.trigger()
    run.savepoint(afterwards=Afterwards.DRAIN)
    assert drains(run) == []
    run.answer(*run.acks(checkpoint))
    assert drains(run) == [None]
    assert run.run.base is not None
    assert not run.run.base.drained


def test_the_order_to_drain_is_repeated_to_the_slots_that_still_read() -> None:
    run = Scenario().run_up()
    run.savepoint(afterwards=Afterwards.DRAIN)
    run.tick(run.plan.config.message_repeat_ms)
    run.exhaust()
    run.tick(run.plan.config.message_repeat_ms)
    assert drains(run) == [None, (0, 1)]


def test_a_drain_that_loses_its_attempt_is_begun_again() -> None:
    run = Scenario().run_up()
    run.complete()
    run.savepoint(afterwards=Afterwards.DRAIN)
    run.restart()
    assert drains(run) == [None, None]
    assert run.triggers() == [1], "not even the first one after a restore"
    run.exhaust()
    run.answer(up_to_export(run))
    assert run.state == Over(ef.Finished())


def test_a_drained_savepoint_that_loses_its_attempt_before_the_export_ends_the_query_all_the_same() -> None:
    """T51"""
    run = Scenario().run_up()
    run.savepoint(afterwards=Afterwards.DRAIN)
    run.exhaust()
    up_to_export(run)
    run.answer(*run.fail())
    run.answer(*run.tick(100))
    assert run.state == Over(ef.Finished())
    assert run.triggers() == [1]
    assert answers(run) == {"please": ef.RequestDone(CheckpointId(1), savepoint="/to/please")}


def test_a_drain_whose_export_fails_ends_and_says_so() -> None:
    """Its sources have ended: there is nothing to run on with."""
    run = Scenario().run_up()
    run.savepoint(afterwards=Afterwards.DRAIN)
    run.exhaust()
    up_to_export(run)
    run.answer(*run.feed(ev.SavepointFailed(run.now_ms, Attempt(1), CheckpointId(1), "/to/please", DISK_FULL)))
    outcome = answers(run)["please"]
    assert isinstance(outcome, ef.RequestFailed)
    assert "runs on" not in outcome.failure.message
    assert run.state == Over(ef.Finished())


def test_the_final_checkpoint_serves_every_savepoint_that_waits() -> None:
    """The input ended by itself: there will be no other checkpoint."""
    run = Scenario().run_up()
    run.trigger()
    run.savepoint("a")
    run.savepoint("b", Afterwards.SUSPEND)
    run.exhaust()
    run.answer(*run.acks(run.trigger()))
    run.answer(up_to_export(run))
    assert run.state == Over(ef.Finished())
    assert {token: one.checkpoint for token, one in answers(run).items()} == {"a": 2, "b": 2}  # type: ignore[union-attr]
    assert [one.target for one in run.all(ef.ExportSavepoint)] == ["/to/a", "/to/b"]
    assert kinds(run) == [CheckpointKind.PERIODIC, CheckpointKind.FINAL]


def test_news_of_one_export_that_come_twice_do_not_answer_the_next_order_of_the_same_checkpoint() -> None:
    run = Scenario().run_up()
    run.savepoint("a")
    run.savepoint("b")
    run.exhaust()
    run.answer(*run.acks(run.trigger()))
    export = up_to_export(run)
    exported = ev.SavepointExported(run.now_ms, Attempt(1), export.manifest.checkpoint, "/to/a")
    run.feed(exported, exported)
    assert set(answers(run)) == {"a"}


def test_the_end_of_a_bounded_run_is_drained_only_if_windows_were_closed() -> None:
    """T49"""
    for drain in (True, False):
        run = Scenario(with_config(drain=drain)).run_up()
        run.exhaust()
        run.acks(run.trigger())
        assert run.last(ef.StoreManifest).manifest.drained is drain
