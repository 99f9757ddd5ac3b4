"""What is deleted, what never is, and in which order."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.unit.checkpoint.scenario import Scenario, with_config

from tidegate.checkpoint import effects as ef
from tidegate.checkpoint import events as ev
from tidegate.checkpoint import layout
from tidegate.checkpoint.layout import ManifestRef
from tidegate.checkpoint.retention import Abandoned, Kept, Retention
from tidegate.model.ids import Attempt, CheckpointId


def ref(checkpoint: int) -> ManifestRef:
    return ManifestRef(CheckpointId(checkpoint), Attempt(1))


def chunks(*numbers: int) -> frozenset[str]:
    return frozenset(f"state/aggregate-0/000001-00000-{number:06d}-0" for number in numbers)


def test_exactly_the_retained_number_of_checkpoints_stays_also_over_a_restart() -> None:
    """T43"""
    run = Scenario(with_config(checkpoints_retained=2)).run_up()
    counts: list[int] = []
    for _ in range(4):
        run.complete(chunks=True)
        counts.append(len(run.stored_refs()))
    again = run.successor().run_up()
    for _ in range(3):
        again.complete(chunks=True)
        counts.append(len(again.stored_refs()))
    assert counts == [1, 2, 2, 2, 2, 2, 2]
    chunk_files = [key for key in again.store if key.startswith(layout.STATE_PREFIX)]
    assert len(chunk_files) == 2 * 3, "two checkpoints of two subtasks name three chunks each"


def test_every_stored_checkpoint_keeps_all_its_chunks_at_every_moment() -> None:
    """T36 and T37: chunks are shared between neighbours; restarts come in between; counts come from manifests alone."""
    run = Scenario(with_config(checkpoints_retained=2)).run_up()
    for turn in range(9):
        run.complete(chunks=True)
        base = run.run.base
        assert base is not None
        assert base.chunk_keys() <= run.store.keys()
        if turn % 3 == 2:
            run = run.successor(f"driver {turn}").run_up()


def test_manifests_go_before_their_chunks_and_the_oldest_first() -> None:
    retention = Retention(kept=(Kept(ref(1), chunks(1)), Kept(ref(2), chunks(1, 2)), Kept(ref(3), chunks(3))))
    assert retention.plan_round(1).garbage == (
        layout.manifest_key(ref(1)),
        layout.committed_key(ref(1)),
        layout.manifest_key(ref(2)),
        layout.committed_key(ref(2)),
        *sorted(chunks(1, 2)),
    )


def test_an_abandoned_checkpoint_keeps_its_files_until_a_later_one_is_complete() -> None:
    """Its manifest may have landed: then it is the best restore point there is."""
    retention = Retention(kept=(Kept(ref(1), chunks(1)),)).gave_up(ref(2), chunks(2))
    assert retention.plan_round(1).garbage == ()
    later = Retention(
        kept=(Kept(ref(1), chunks(1)), Kept(ref(3), chunks(1, 3))), abandoned=(Abandoned(ref(2), chunks(2)),)
    )
    assert chunks(2) <= set(later.plan_round(2).garbage)


def test_an_abort_never_takes_chunks_that_a_kept_checkpoint_shares() -> None:
    retention = Retention(kept=(Kept(ref(1), chunks(1)), Kept(ref(3), chunks(1, 3)))).gave_up(ref(2), chunks(1, 2))
    garbage = retention.plan_round(1).garbage
    assert not chunks(1, 3) & set(garbage)


def test_what_was_left_over_comes_first_and_what_resists_comes_last() -> None:
    """T41 and T42"""
    retention = Retention(kept=(Kept(ref(1), chunks(1)),), garbage=("a", "b", "c"))
    assert retention.round_done(untried=("c",), undeletable=("a",)).garbage == ("c", "a")


def test_a_restore_in_progress_keeps_its_checkpoint() -> None:
    """T40: nothing is deleted between the restore and the first checkpoint of the new attempt."""
    run = Scenario(with_config(checkpoints_retained=1)).run_up()
    run.complete(chunks=True)
    again = run.successor()
    again.answer(*again.start())
    assert again.all(ef.Delete) == []
    restored = again.run.base
    assert restored is not None
    assert restored.chunk_keys() <= again.store.keys()
    again.complete(chunks=True)
    assert layout.manifest_key(restored.ref) in again.last(ef.Delete).keys


def test_a_cleanup_cut_short_by_a_crash_is_finished_by_the_next_attempt() -> None:
    """T37: deletes were asked for and never done; the listing of the next attempt finds everything again."""
    run = Scenario(with_config(checkpoints_retained=1)).run_up()
    run.complete(chunks=True)
    checkpoint = run.trigger()
    run.acks(checkpoint)
    store = run.last(ef.StoreManifest)
    look = run.feed(run.perform(store))[0]  # type: ignore[arg-type]
    run.feed(run.perform(look))  # type: ignore[arg-type]
    assert any(
        isinstance(effect, ef.Delete) for effect in run.feed(ev.SinksCommitted(run.now_ms, Attempt(1), checkpoint))
    )
    assert len(run.stored_refs()) == 2
    again = run.successor().run_up()
    again.complete()
    assert len(again.stored_refs()) == 1
    assert not [key for key in again.store if key.startswith(layout.STATE_PREFIX)]


steps = st.lists(st.tuples(st.sampled_from(["complete", "abort", "clean"]), st.booleans()), max_size=30)


@given(steps, st.integers(1, 3))
def test_nothing_referenced_is_ever_deleted_and_in_the_end_nothing_unreferenced_remains(
    history: list[tuple[str, bool]], retained: int
) -> None:
    """T36: random completions, aborts and cleanups against a model of the files."""
    retention, files = Retention(), frozenset[str]()
    base: frozenset[str] = frozenset()
    number = 0

    def complete(number: int, retention: Retention, *, compact: bool) -> tuple[Retention, frozenset[str]]:
        names = chunks(number) if compact else base | chunks(number)
        kept = (*retention.kept, Kept(ref(number), names))
        return Retention(kept, retention.abandoned, retention.garbage), names

    for kind, compact in history:
        number += 1
        if kind == "complete":
            files |= chunks(number)
            retention, base = complete(number, retention, compact=compact)
        elif kind == "abort":
            files |= chunks(number)
            retention = retention.gave_up(ref(number), base | chunks(number))
        else:
            retention = retention.plan_round(retained)
            files -= set(retention.garbage)
            retention = retention.round_done((), ())
        for kept in retention.kept[-retained:]:
            assert kept.chunks <= files
    retention, base = complete(number + 1, retention, compact=True)
    files |= base
    files -= set(retention.plan_round(1).garbage)
    assert files == base
