"""What holds between the parts of a manifest: each part is lost or altered in turn, and the claim that notices is named."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from tests.unit.checkpoint.scenario import COUNT, PLAN, SINK, SOURCE, chunk, committable

from tidegate.checkpoint import invariants, recovery
from tidegate.checkpoint.events import Facts
from tidegate.checkpoint.layout import IMPORTED, manifest_key
from tidegate.checkpoint.manifest import Interval, Manifest, SourceState, Written, decode, encode
from tidegate.checkpoint.recovery import Choice, Refusal, choose
from tidegate.model.batch_ids import BatchIds, Numbering
from tidegate.model.errors import CorruptSnapshot
from tidegate.model.ids import Attempt, BatchId, CheckpointId, OperatorId, SlotIndex
from tidegate.model.shape import StateShape
from tidegate.model.snapshot import KeyGroupRange, OperatorSnapshot, SourceProgress, Split, SplitPosition

ONE = SlotIndex(1)
SOURCE_ENTRY = OperatorSnapshot(operator=SOURCE, subtask=SlotIndex(0), value=b"quiet")
ENTRIES = (
    OperatorSnapshot(operator=COUNT, subtask=SlotIndex(0), chunks=(chunk(0, 42, 7), chunk(0, 41, 7))),
    OperatorSnapshot(operator=COUNT, subtask=ONE, chunks=(chunk(1, 42, 7),)),
    OperatorSnapshot(operator=SINK, subtask=SlotIndex(0), committables=(committable(42, 0, 7),)),
    OperatorSnapshot(operator=SINK, subtask=ONE, committables=(committable(41, 1, 7),)),
    SOURCE_ENTRY,
)
OPEN = SplitPosition(split=Split(number=4, payload=b"x"), position=None)
SHAPES = tuple(StateShape(operator, (("what", "it is"),)) for operator in sorted({COUNT, SINK, SOURCE}))
MANIFEST = Manifest(
    pipeline=PLAN.pipeline,
    checkpoint=CheckpointId(42),
    attempt=Attempt(7),
    parent=(CheckpointId(41), Attempt(7)),
    max_parallelism=128,
    parallelism=2,
    operators=ENTRIES,
    sources=(SourceState(operator=SOURCE, enumerator=b"files", done=(Interval(0, 3),), open=(OPEN,)),),
    stateful=(COUNT, SINK, SOURCE),
    shapes=SHAPES,
    written=(Written(SINK, Attempt(7), CheckpointId(42)),),
)
C = invariants


def entry(number: int, **changes: Any) -> dict[str, Any]:
    entries = list(ENTRIES)
    entries[number] = msgspec.structs.replace(entries[number], **changes)
    return {"operators": tuple(entries)}


def chunks(*handles: Any) -> dict[str, Any]:
    return entry(0, chunks=handles)


def of(one: Any, **changes: Any) -> Any:
    return msgspec.structs.replace(one, **changes)


BROKEN: list[tuple[Callable[..., Any], dict[str, Any], str]] = [
    (C.numbers_count_from_one, {"checkpoint": CheckpointId(0), "parent": None}, "count from 1"),
    (C.numbers_count_from_one, {"attempt": Attempt(-1)}, "count from 1"),
    (C.an_imported_checkpoint_is_a_beginning, {"attempt": IMPORTED}, "imported checkpoint"),
    (C.the_parent_is_older, {"parent": (CheckpointId(42), Attempt(6))}, "parent 42 is not older"),
    (C.the_parent_is_older, {"parent": (CheckpointId(41), Attempt(8))}, "attempt 8, which came after attempt 7"),
    (C.parallelism_is_within_bounds, {"parallelism": 129}, "parallelism 129"),
    (C.parallelism_is_within_bounds, {"max_parallelism": 1}, "parallelism 2"),
    (C.entries_are_sorted_and_unique, {"operators": ENTRIES[::-1]}, "not sorted"),
    (C.entries_are_sorted_and_unique, {"operators": (*ENTRIES, ENTRIES[-1])}, "not unique"),
    (C.entries_are_of_subtasks_that_ran, {"parallelism": 1}, f"state of subtask 1 of {COUNT}"),
    (C.every_stateful_operator_has_an_entry, {"operators": ENTRIES[2:]}, f"the state of {COUNT} is missing"),
    (C.every_stateful_operator_has_an_entry, {"operators": (*ENTRIES[:2], ENTRIES[4])}, f"state of {SINK} is missing"),
    (C.every_stateful_operator_has_an_entry, {"operators": ENTRIES[:4]}, f"the state of {SOURCE} is missing"),
    (C.every_stateful_operator_has_an_entry, {"operators": ()}, "is missing"),
    (C.shapes_describe_operators_of_the_checkpoint, {"shapes": SHAPES[::-1]}, "shapes are not sorted"),
    (
        C.shapes_describe_operators_of_the_checkpoint,
        {"shapes": (*SHAPES, StateShape(OperatorId("z"), ()))},
        "shape of z and no state",
    ),
    (C.progress_of_sources_stands_in_sources_alone, entry(4, source=SourceProgress()), f"entry of {SOURCE}"),
    (C.chunks_lie_in_the_location, chunks(of(chunk(0, 42, 7), name="../../etc/passwd")), "which is no chunk"),
    (C.no_chunk_is_newer_than_the_checkpoint, chunks(chunk(0, 43, 7)), "checkpoint 43 of attempt 7"),
    (C.no_chunk_is_newer_than_the_checkpoint, chunks(chunk(0, 42, 8)), "checkpoint 42 of attempt 8"),
    (C.key_groups_are_within_bounds, chunks(of(chunk(0, 42, 7), groups=KeyGroupRange(0, 129))), "key groups 0 … 129"),
    (C.key_groups_are_within_bounds, chunks(of(chunk(0, 42, 7), groups=KeyGroupRange(5, 5))), "key groups 5 … 5"),
    (C.no_key_group_has_two_owners, chunks(of(chunk(0, 42, 7), groups=KeyGroupRange(0, 17))), "key group 16"),
    (
        C.no_output_is_newer_than_the_checkpoint,
        entry(2, committables=(committable(43, 0, 7),)),
        "output of checkpoint 43",
    ),
    (
        C.no_output_is_newer_than_the_checkpoint,
        {"written": (Written(SINK, Attempt(8), CheckpointId(42)),)},
        "is said to have written",
    ),
    (
        C.output_with_one_place_is_the_same,
        entry(3, committables=(of(committable(42, 0, 7), payload=b"other"),)),
        "two different outputs number 0 of subtask 0, checkpoint 42",
    ),
    (
        C.what_was_written_last_covers_the_output,
        {"written": (Written(SINK, Attempt(7), CheckpointId(41)),)},
        "output of checkpoint 42 and is said to have written until 41",
    ),
    (C.what_was_written_last_covers_the_output, {"written": MANIFEST.written * 2}, "not sorted or not unique"),
    (
        C.output_is_numbered_as_batches,
        {"numbering": Numbering(sinks=(BatchIds(SINK, BatchId(9), ((CheckpointId(42), BatchId(8)),)),))},
        "prepared for checkpoint 41 has no batch id",
    ),
    (C.every_source_is_told_once, {"sources": MANIFEST.sources * 2}, f"told of twice: {SOURCE}, {SOURCE}"),
]
BROKEN_SOURCES: list[tuple[Callable[..., Any], dict[str, Any], str]] = [
    (C.splits_read_to_the_end_are_sorted_ranges, {"done": (Interval(3, 1),)}, "disjoint"),
    (C.splits_read_to_the_end_are_sorted_ranges, {"done": (Interval(0, 2), Interval(2, 3))}, "disjoint"),
    (C.no_split_is_open_twice, {"open": (OPEN, OPEN)}, "open twice"),
    (C.no_split_is_open_and_read_to_the_end, {"done": (Interval(0, 5),)}, "split 4 of .* is open and read to the end"),
]


def names(broken: list[tuple[Callable[..., Any], dict[str, Any], str]]) -> list[str]:
    return [f"{claim.__name__}-{number}" for number, (claim, _, _) in enumerate(broken)]


@pytest.mark.parametrize(("claim", "changes", "words"), BROKEN, ids=names(BROKEN))
def test_a_manifest_that_contradicts_itself_is_neither_built_nor_read(
    claim: Callable[..., Any], changes: dict[str, Any], words: str
) -> None:
    """T59, T78: whichever part is lost or altered, the message names it."""
    with pytest.raises(ValueError, match=words):
        of(MANIFEST, **changes)
    # As somebody would have stored it who does not check.
    stored = unchecked(MANIFEST, changes)
    with pytest.raises(CorruptSnapshot, match="the/key is damaged.*" + words):
        decode(Manifest, "the/key", stored)


@pytest.mark.parametrize(("claim", "changes", "words"), BROKEN_SOURCES, ids=names(BROKEN_SOURCES))
def test_progress_that_contradicts_itself_is_neither_built_nor_read(
    claim: Callable[..., Any], changes: dict[str, Any], words: str
) -> None:
    """T78"""
    with pytest.raises(ValueError, match=words):
        of(MANIFEST.sources[0], **changes)
    source = msgspec.to_builtins(MANIFEST.sources[0], builtin_types=(bytes,)) | changes
    with pytest.raises(CorruptSnapshot, match=words):
        decode(Manifest, "the/key", unchecked(MANIFEST, {"sources": (source,)}))


def test_every_claim_is_broken_by_a_case() -> None:
    assert {claim for claim, _, _ in BROKEN} == set(invariants.CLAIMS)
    assert {claim for claim, _, _ in BROKEN_SOURCES} == set(invariants.SOURCE_CLAIMS)


def test_a_whole_manifest_contradicts_nothing() -> None:
    assert invariants.contradiction(MANIFEST) is None
    assert decode(Manifest, "the/key", encode(MANIFEST)) == MANIFEST


def test_a_source_that_has_read_and_whose_progress_is_missing_is_refused() -> None:
    """T78: it would start from its beginning beside the state that its rows have made."""
    lost = of(MANIFEST, sources=(), pipeline=PLAN.pipeline)
    decision = choose(PLAN, Attempt(8), facts(lost))
    assert isinstance(decision, Refusal)
    assert decision.failure.code == CorruptSnapshot.code
    assert f"the progress of {SOURCE} is missing" in decision.failure.message
    assert isinstance(choose(PLAN, Attempt(8), facts(MANIFEST)), Choice)


@pytest.mark.parametrize("left", [{"open": ()}, {"done": ()}, {}], ids=["done", "open", "both"])
def test_a_source_whose_list_of_splits_is_missing_is_refused(left: dict[str, Any]) -> None:
    """T78: it would give the numbers of splits that are done to others, which nobody would read."""
    lost = of(MANIFEST, sources=(of(MANIFEST.sources[0], enumerator=b"", **left),))
    decision = choose(PLAN, Attempt(8), facts(lost))
    assert isinstance(decision, Refusal)
    assert decision.failure.code == CorruptSnapshot.code
    assert f"splits of {SOURCE} are done or open, and the list" in decision.failure.message
    before_the_first_look = of(MANIFEST, sources=(SourceState(operator=SOURCE),))
    assert isinstance(choose(PLAN, Attempt(8), facts(before_the_first_look)), Choice)


def test_a_source_that_is_new_in_the_query_has_no_progress() -> None:
    """Restored for a changed query, and exported from there before it has read anything: its entry is an empty one."""
    bare = of(MANIFEST, sources=(), operators=(*ENTRIES[:4], of(SOURCE_ENTRY, value=b"")))
    assert not [*invariants.every_source_tells_its_progress(bare, (SOURCE,))]
    unknown = of(MANIFEST, sources=(), operators=ENTRIES[:4], stateful=(COUNT, SINK), shapes=SHAPES[:2])
    assert not [*invariants.every_source_tells_its_progress(unknown, (SOURCE,))]


def facts(manifest: Manifest) -> Facts:
    known = Facts(manifests=(manifest.ref,), keys=(manifest_key(manifest.ref), *manifest.chunk_keys()))
    known.readable[manifest.ref] = manifest
    known.restored[manifest.attempt] = recovery.Restored(attempt=manifest.attempt)
    return known


def unchecked(manifest: Manifest, changes: dict[str, Any]) -> bytes:
    """The document with these changes, encoded by somebody who checks nothing."""
    fields = {name: getattr(manifest, name) for name in Manifest.__struct_fields__} | changes
    plain = msgspec.defstruct("Unchecked", [*fields], tag_field="format", tag="manifest/1", kw_only=True)
    return encode(plain(**fields))
