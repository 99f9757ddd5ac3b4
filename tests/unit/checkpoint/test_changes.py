"""A changed query and the state of the old one: what is kept, what is refused, and in which words."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest
from tests.unit.checkpoint.scenario import COUNT, PLAN, SINK, SOURCE, chunk, committable

from tidegate.checkpoint.changes import Fit, fit
from tidegate.checkpoint.events import Failure
from tidegate.checkpoint.manifest import Manifest, SourceState, decode, encode
from tidegate.checkpoint.plan import CheckpointPlan
from tidegate.model.config import QueryConfig
from tidegate.model.ids import Attempt, CheckpointId, OperatorId, SlotIndex
from tidegate.model.shape import PLACE, StateShape
from tidegate.model.snapshot import InFlight, OperatorSnapshot

INPUTS = OperatorId(f"{COUNT}.inputs")
OTHER = OperatorId("aggregate-other")
SHAPES = (
    StateShape(COUNT, (("key 1", "k bigint"), ("aggregate 1", "sum(v bigint)"))),
    StateShape(INPUTS, (("input 0", "edge 0, keyed: k#1 bigint, total#2"),)),
    StateShape(SINK, (("format", "parquet"), (PLACE, "/out"))),
    StateShape(SOURCE, (("format", "parquet"), (PLACE, "/in"))),
)
QUERY = replace(PLAN, stateful=(COUNT, INPUTS, SINK, SOURCE), shapes=SHAPES)
ALLOWING = QueryConfig(parallelism=2, allow_dropped_state=True)


def taken(plan: CheckpointPlan = QUERY, *more: OperatorSnapshot, pending: bool = False) -> Manifest:
    """The checkpoint that ``plan`` would have taken; ``more`` replaces entries."""
    outputs = (committable(7, 0),) if pending else ()
    entries = {operator: OperatorSnapshot(operator=operator, subtask=SlotIndex(0)) for operator in plan.stateful}
    if COUNT in entries:
        entries[COUNT] = OperatorSnapshot(operator=COUNT, subtask=SlotIndex(0), chunks=(chunk(0, 7),))
    if SINK in entries:
        entries[SINK] = OperatorSnapshot(operator=SINK, subtask=SlotIndex(0), committables=outputs)
    entries |= {one.operator: one for one in more}
    return Manifest(
        pipeline=plan.pipeline,
        checkpoint=CheckpointId(7),
        attempt=Attempt(1),
        max_parallelism=plan.config.max_parallelism,
        stateful=plan.stateful,
        shapes=plan.shapes,
        operators=tuple(entries[operator] for operator in sorted(entries)),
        sources=tuple(SourceState(operator=one, enumerator=b"known") for one in plan.sources),
    )


def without(operator: OperatorId, plan: CheckpointPlan = QUERY) -> CheckpointPlan:
    gone = (operator, f"{operator}.inputs")
    return replace(
        plan,
        stateful=tuple(one for one in plan.stateful if one not in gone),
        sources=tuple(one for one in plan.sources if one not in gone),
        sinks=tuple(one for one in plan.sinks if one not in gone),
        shapes=tuple(one for one in plan.shapes if one.operator not in gone),
    )


def plus(operator: OperatorId, *parts: tuple[str, str], plan: CheckpointPlan = QUERY) -> CheckpointPlan:
    return replace(
        plan,
        stateful=tuple(sorted((*plan.stateful, operator))),
        shapes=tuple(sorted((*plan.shapes, StateShape(operator, parts)))),
    )


def redefined(operator: OperatorId, *parts: tuple[str, str], plan: CheckpointPlan = QUERY) -> CheckpointPlan:
    return plus(operator, *parts, plan=without_alone(operator, plan))


def without_alone(operator: OperatorId, plan: CheckpointPlan) -> CheckpointPlan:
    return replace(
        plan,
        stateful=tuple(one for one in plan.stateful if one != operator),
        shapes=tuple(one for one in plan.shapes if one.operator != operator),
    )


def refusal(plan: CheckpointPlan, manifest: Manifest, *, published: bool = False) -> Failure:
    answer = fit(plan, manifest, published=published)
    assert isinstance(answer, Failure), answer
    assert not answer.retryable
    assert answer.hint
    return answer


def fitted(plan: CheckpointPlan, manifest: Manifest, *, published: bool = False) -> Fit:
    answer = fit(plan, manifest, published=published)
    assert isinstance(answer, Fit), answer
    return answer


def test_the_same_query_restores_the_very_manifest() -> None:
    manifest = taken(pending=True)
    assert fitted(QUERY, manifest) == Fit(manifest)


def test_state_of_a_removed_operator_is_refused_by_name_and_meaning() -> None:
    """T48"""
    answer = refusal(without(COUNT), taken())
    assert "operator 'aggregate-0' absent from this query" in answer.message
    assert "key 1: k bigint; aggregate 1: sum(v bigint)" in answer.message
    assert "allowDroppedState" in answer.hint


def test_state_of_a_removed_operator_is_dropped_when_that_is_allowed_and_said() -> None:
    """T48: its chunks are named by no later checkpoint and become garbage as old checkpoints retire."""
    answer = fitted(replace(without(COUNT), config=ALLOWING), taken())
    assert {entry.operator for entry in answer.manifest.operators} == {SINK, SOURCE}
    assert answer.manifest.chunk_keys() == frozenset()
    assert any(COUNT in note and "given up" in note for note in answer.notes)


def test_a_new_operator_starts_empty_with_a_note_and_the_others_go_on() -> None:
    answer = fitted(plus(OTHER, ("key 1", "k bigint")), taken())
    (entry,) = [one for one in answer.manifest.operators if one.operator == OTHER]
    assert entry == OperatorSnapshot(operator=OTHER, subtask=SlotIndex(0))
    assert answer.manifest.chunk_keys() == taken().chunk_keys()
    assert answer.notes == (f"operator {OTHER} is not in checkpoint 7 of attempt 1: it starts empty",)


def test_a_new_operator_beside_a_removed_one_needs_the_permission_to_drop() -> None:
    changed = redefined(OTHER, ("key 1", "k bigint"), plan=without(COUNT))
    assert "aggregate-0" in refusal(changed, taken()).message
    answer = fitted(replace(changed, config=ALLOWING), taken())
    assert [OTHER in note or COUNT in note for note in answer.notes] == [True, True]


def test_one_gone_and_one_new_of_a_kind_are_shown_as_what_changed() -> None:
    changed = plus(OTHER, ("key 1", "other string"), ("aggregate 1", "sum(v bigint)"), plan=without(COUNT))
    message = refusal(changed, taken()).message
    assert "aggregate-0 became aggregate-other: key 1: k bigint → other string" in message


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ((("key 1", "k bigint"), ("aggregate 1", "max(v bigint)")), "aggregate 1: sum(v bigint) → max(v bigint)"),
        ((("key 1", "k string"), ("aggregate 1", "sum(v bigint)")), "key 1: k bigint → k string"),
        ((("key 1", "k bigint"), ("aggregate 1", "sum(v double)")), "aggregate 1: sum(v bigint) → sum(v double)"),
        ((("key 1", "k bigint"), ("aggregate 1", "sum(v bigint)"), ("aggregate 2", "count(*)")), "nothing → count(*)"),
        ((("key 1", "k bigint"),), "aggregate 1: sum(v bigint) → nothing"),
        ((("aggregate 1", "sum(v bigint)"), ("key 1", "k bigint")), "order: key 1, aggregate 1 → aggregate 1, key 1"),
    ],
)
def test_a_redefined_operator_is_refused_and_every_change_is_named(parts: tuple, said: str) -> None:
    """T48: not even the permission to drop state reinterprets it."""
    changed = redefined(COUNT, *parts)
    for plan in (changed, replace(changed, config=ALLOWING)):
        answer = refusal(plan, taken())
        assert f"'{COUNT}' changed since checkpoint 7 of attempt 1" in answer.message
        assert said in answer.message


def test_a_source_that_reads_elsewhere_is_refused_unless_the_user_says_it_is_the_same() -> None:
    """What it has read is known by place: the same files elsewhere would be read again."""
    moved = redefined(SOURCE, ("format", "parquet"), (PLACE, "/elsewhere"))
    answer = refusal(moved, taken())
    assert "place: /in → /elsewhere" in answer.message
    assert f'.option("uid.{SOURCE}", "{SOURCE}")' in answer.hint
    assert fitted(replace(moved, pinned=(SOURCE,)), taken()).manifest == taken()
    other_format = redefined(SOURCE, ("format", "json"), (PLACE, "/in"))
    assert "format: parquet → json" in refusal(replace(other_format, pinned=(SOURCE,)), taken()).message


def test_output_of_a_removed_sink_is_never_dropped() -> None:
    """T6, T48: the permission to drop state does not cover output that waits to be published."""
    changed = replace(without(SINK), config=ALLOWING)
    answer = refusal(changed, taken(pending=True))
    assert "output that is not published yet, of sink 'sink-0'" in answer.message
    assert fitted(changed, taken(pending=True), published=True).manifest.committables() == ()
    assert fitted(changed, taken()).notes


def test_a_sink_may_move_only_when_it_owes_nothing_to_the_old_place() -> None:
    moved = redefined(SINK, ("format", "parquet"), (PLACE, "/elsewhere"))
    assert "place: /out → /elsewhere" in refusal(moved, taken(pending=True)).message
    assert fitted(moved, taken(pending=True), published=True).manifest == taken(pending=True)
    assert fitted(moved, taken()).notes == ()


def test_a_dead_letter_sink_comes_and_goes_with_the_functions_unless_it_owes() -> None:
    letters = OperatorId("dead-letter-parse")
    before = replace(plus(letters, ("format", "json")), sinks=(letters, SINK))
    assert fitted(QUERY, taken(before)).manifest.stateful == QUERY.stateful
    owing = OperatorSnapshot(operator=letters, subtask=SlotIndex(0), committables=(committable(7, 0),))
    assert letters in refusal(QUERY, taken(before, owing)).message


def test_equals_whose_number_changed_are_refused_until_they_are_named() -> None:
    """T48: ``-2`` only tells them apart; with one of them gone, nobody knows which is left."""
    twin = OperatorId(f"{OTHER}-2")
    two = plus(twin, ("key 1", "k bigint"), plan=plus(OTHER, ("key 1", "k bigint")))
    one = plus(OTHER, ("key 1", "k bigint"))
    for now, was in ((one, two), (two, one)):
        answer = refusal(replace(now, config=ALLOWING), taken(was))
        assert "nothing says which of them is which" in answer.message
        assert "uid." in answer.hint
    assert fitted(two, taken(two)).notes == ()
    assert fitted(replace(one, pinned=(OTHER,), config=ALLOWING), taken(two)).notes
    assert fitted(replace(two, pinned=(OTHER, twin)), taken(one)).notes


def test_rows_that_a_barrier_overtook_go_only_to_the_query_that_was_running() -> None:
    overtaken = InFlight(edge=0, source=SlotIndex(0), chunk=chunk(0, 7))
    manifest = taken(QUERY, OperatorSnapshot(operator=INPUTS, subtask=SlotIndex(0), in_flight=(overtaken,)))
    assert fitted(QUERY, manifest).manifest == manifest
    renumbered = redefined(INPUTS, ("input 0", "edge 0, keyed: k#2 bigint, total#3"))
    for changed in (renumbered, plus(OTHER, ("key 1", "k bigint")), replace(without(COUNT), config=ALLOWING)):
        assert "rows on their way to aggregate-0" in refusal(changed, manifest).message
    assert fitted(renumbered, taken()).manifest == taken()


def overtaken_rows(*inputs: OperatorId) -> tuple[OperatorSnapshot, ...]:
    """Two rows under way to each, from two subtasks."""
    rows = tuple(InFlight(edge=0, source=SlotIndex(index), chunk=chunk(index, 7)) for index in range(2))
    return tuple(OperatorSnapshot(operator=one, subtask=SlotIndex(0), in_flight=rows) for one in inputs)


DROPPING = QueryConfig(parallelism=2, drop_in_flight=True)


def test_the_refusal_of_rows_under_way_counts_them_and_names_the_option() -> None:
    renumbered = redefined(INPUTS, ("input 0", "edge 0, keyed: k#2 bigint, total#3"))
    answer = refusal(renumbered, taken(QUERY, *overtaken_rows(INPUTS)))
    assert "with 2 rows on their way to aggregate-0" in answer.message
    assert '.option("inFlightRows", "drop")' in answer.hint


def test_rows_under_way_are_given_up_on_demand_and_counted() -> None:
    manifest = taken(QUERY, *overtaken_rows(INPUTS))
    renumbered = redefined(INPUTS, ("input 0", "edge 0, keyed: k#2 bigint, total#3"))
    for changed in (renumbered, plus(OTHER, ("key 1", "k bigint"))):
        answer = fitted(replace(changed, config=DROPPING), manifest)
        assert not any(entry.in_flight for entry in answer.manifest.operators)
        assert answer.manifest.sources == manifest.sources, "no source reads them again"
        assert "2 rows on their way to aggregate-0 in checkpoint 7 of attempt 1 are given up" in answer.notes[0]


def test_rows_under_way_that_still_fit_are_kept_although_they_may_be_dropped() -> None:
    others = OperatorId(f"{OTHER}.inputs")
    before = plus(others, ("input 0", "edge 1, keyed: k#1 bigint"), plan=plus(OTHER, ("key 1", "k bigint")))
    manifest = taken(before, *overtaken_rows(INPUTS, others))
    assert fitted(replace(before, config=DROPPING), manifest) == Fit(manifest)
    changed = redefined(others, ("input 0", "edge 1, keyed: k#9 bigint"), plan=before)
    answer = fitted(replace(changed, config=DROPPING), manifest)
    kept = {entry.operator: len(entry.in_flight) for entry in answer.manifest.operators if entry.in_flight}
    assert kept == {INPUTS: 2}
    assert answer.notes[0].startswith("2 rows on their way to aggregate-other in")


def test_giving_up_rows_under_way_gives_up_nothing_else() -> None:
    manifest = taken(QUERY, *overtaken_rows(INPUTS), pending=True)
    dropping = replace(without(COUNT), config=DROPPING)
    assert "allowDroppedState" in refusal(dropping, manifest).hint
    allowing = replace(without(SINK), config=msgspec.structs.replace(DROPPING, allow_dropped_state=True))
    assert "not published yet" in refusal(allowing, manifest).message


def test_event_time_of_a_stage_that_is_gone_or_new_needs_no_permission() -> None:
    assert fitted(without_alone(INPUTS, QUERY), taken()).notes == ()
    answer = fitted(QUERY, taken(without_alone(INPUTS, QUERY)))
    assert answer.notes == ()
    assert answer.manifest.stateful == QUERY.stateful


def test_an_entry_missing_from_a_manifest_is_damage_and_not_a_new_operator() -> None:
    """T59"""
    manifest = taken()
    assert decode(Manifest, "manifest", encode(manifest)) == manifest
    entries = tuple(entry for entry in manifest.operators if entry.operator != COUNT)
    with pytest.raises(ValueError, match=r"the state of aggregate-0 is missing"):
        msgspec.structs.replace(manifest, operators=entries)
    shorter = msgspec.to_builtins(manifest) | {"operators": msgspec.to_builtins(entries)}
    with pytest.raises(msgspec.ValidationError, match=r"the state of aggregate-0 is missing"):
        msgspec.convert(shorter, Manifest)


def test_a_source_that_is_gone_takes_its_progress_along() -> None:
    answer = fitted(replace(without(SOURCE), config=ALLOWING), taken())
    assert answer.manifest.sources == ()


def test_a_manifest_that_does_not_say_what_it_covers_takes_no_new_operator() -> None:
    """T59"""
    unsure = msgspec.structs.replace(taken(), stateful=())
    assert "holds no state of operator 'aggregate-other'" in refusal(plus(OTHER, ("key 1", "k bigint")), unsure).message


def test_going_on_from_a_drained_checkpoint_is_said() -> None:
    """T49"""
    drained = msgspec.structs.replace(taken(), drained=True)
    (note,) = fitted(QUERY, drained).notes
    assert "drained" in note
    assert "late" in note
