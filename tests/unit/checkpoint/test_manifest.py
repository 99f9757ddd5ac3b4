"""Documents: what goes in comes out, and whatever is not intact is named."""

from __future__ import annotations

import zlib

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.checkpoint.scenario import COUNT, PLAN, SINK, SOURCE, chunk, committable

from tidegate.checkpoint.importing import relocated
from tidegate.checkpoint.layout import IMPORTED, ManifestRef, chunk_key
from tidegate.checkpoint.manifest import (
    Claim,
    Committed,
    Interval,
    Manifest,
    PipelineDocument,
    Restored,
    SourceState,
    agree,
    decode,
    decode_pipeline,
    encode,
    encode_pipeline,
)
from tidegate.model.errors import CorruptSnapshot, InvalidQuery
from tidegate.model.ids import Attempt, CheckpointId, PipelineId, SlotIndex
from tidegate.model.snapshot import InFlight, OperatorSnapshot, Split, SplitPosition

MANIFEST = Manifest(
    pipeline=PLAN.pipeline,
    checkpoint=CheckpointId(42),
    attempt=Attempt(7),
    parent=(CheckpointId(41), Attempt(7)),
    max_parallelism=128,
    parallelism=2,
    operators=(
        OperatorSnapshot(operator=COUNT, subtask=SlotIndex(0), chunks=(chunk(0, 42, 7),), value=b"\x00watermark"),
        OperatorSnapshot(
            operator=SINK, subtask=SlotIndex(0), committables=(committable(42, 0, 7), committable(41, 0, 7))
        ),
        OperatorSnapshot(operator=SINK, subtask=SlotIndex(1), committables=(committable(41, 1, 7),)),
    ),
    sources=(
        SourceState(
            operator=SOURCE,
            enumerator=b"files",
            done=(Interval(0, 3), Interval(5, 6)),
            open=(SplitPosition(split=Split(number=4, payload=b"x"), position=None),),
        ),
    ),
)
PIPELINE = PipelineDocument(pipeline=PipelineId("p"), max_parallelism=128, fingerprint="abc")


@pytest.mark.parametrize(
    "document",
    [
        MANIFEST,
        Claim(attempt=Attempt(8), process="random"),
        Restored(attempt=Attempt(8), checkpoint=(CheckpointId(42), Attempt(7))),
        Restored(attempt=Attempt(8)),
        Committed(checkpoint=CheckpointId(42), attempt=Attempt(7)),
    ],
    ids=lambda document: type(document).__name__,
)
def test_a_document_is_read_as_it_was_written(document: Manifest | Claim | Restored | Committed) -> None:
    assert decode(type(document), "key", encode(document)) == document


@given(st.data())
def test_no_damage_of_a_manifest_goes_unnoticed(data: st.DataObject) -> None:
    """T13: any byte changed, any tail cut: the error names the key."""
    whole = encode(MANIFEST)
    position = data.draw(st.integers(0, len(whole) - 1))
    if data.draw(st.booleans()):
        damaged = whole[:position]
    else:
        flipped = data.draw(st.integers(1, 255))
        damaged = whole[:position] + bytes([whole[position] ^ flipped]) + whole[position + 1 :]
    with pytest.raises(CorruptSnapshot, match="checkpoints/000042-000007/manifest"):
        decode(Manifest, "checkpoints/000042-000007/manifest", damaged)


def test_a_document_of_another_kind_is_damage() -> None:
    with pytest.raises(CorruptSnapshot, match="cannot be understood"):
        decode(Manifest, "key", encode(Claim(attempt=Attempt(1), process="x")))


def test_a_pickle_is_damage_and_is_never_executed() -> None:
    """T63: the decoder knows documents, nothing else."""
    import pickle

    with pytest.raises(CorruptSnapshot):
        decode(Manifest, "key", pickle.dumps(print))


def test_committables_come_by_sink_and_in_checkpoint_order() -> None:
    assert MANIFEST.committables() == ((SINK, (committable(41, 0, 7), committable(41, 1, 7), committable(42, 0, 7))),)


def test_only_chunks_with_files_have_keys() -> None:
    inlined = OperatorSnapshot(
        operator=COUNT,
        subtask=SlotIndex(0),
        chunks=(
            chunk(0, 42, 7),
            type(chunk(0, 1))(
                name="aggregate-0/000007-00000-000042-1",
                groups=chunk(0, 1).groups,
                rows=1,
                size_bytes=3,
                checksum=0,
                data=b"abc",
            ),
        ),
    )
    one = Manifest(
        pipeline=PLAN.pipeline,
        checkpoint=CheckpointId(42),
        attempt=Attempt(7),
        max_parallelism=128,
        operators=(inlined,),
    )
    assert one.chunk_keys() == {"state/aggregate-0/000007-00000-000042-0"}


@pytest.mark.parametrize(
    "changes",
    [
        {"checkpoint": 0},
        {"attempt": 0},
        {"parent": (42, 7)},
        {"parallelism": 129},
        {"operators": MANIFEST.operators[::-1]},
        {"operators": MANIFEST.operators[:1] * 2},
    ],
    ids=str,
)
def test_an_impossible_manifest_cannot_be_built(changes: dict[str, object]) -> None:
    fields = {name: getattr(MANIFEST, name) for name in Manifest.__struct_fields__}
    with pytest.raises(ValueError, match=r"."):
        Manifest(**{**fields, **changes})


@pytest.mark.parametrize(
    "done", [(Interval(3, 1),), (Interval(0, 2), Interval(2, 3)), (Interval(5, 6), Interval(0, 1))]
)
def test_ranges_of_splits_are_disjoint_sorted_and_apart(done: tuple[Interval, ...]) -> None:
    with pytest.raises(ValueError, match="disjoint"):
        SourceState(operator=SOURCE, done=done)


def test_a_manifest_names_its_place_and_its_parent() -> None:
    assert MANIFEST.ref == ManifestRef(CheckpointId(42), Attempt(7))
    assert MANIFEST.parent_ref == ManifestRef(CheckpointId(41), Attempt(7))


def test_the_pipeline_document_is_json_for_people() -> None:
    data = encode_pipeline(PIPELINE)
    assert b'"format": "pipeline/1"' in data
    assert decode_pipeline(data) == PIPELINE
    with pytest.raises(CorruptSnapshot, match=r"pipeline\.json"):
        decode_pipeline(data[:-5])


def test_a_start_with_another_max_parallelism_is_refused() -> None:
    """T47"""
    wanted = PipelineDocument(pipeline=PipelineId("new"), max_parallelism=64)
    with pytest.raises(InvalidQuery, match="maxParallelism 128"):
        agree(PIPELINE, wanted, "/location")
    same = PipelineDocument(pipeline=PipelineId("new"), max_parallelism=128)
    assert agree(PIPELINE, same, "/location") == PIPELINE


@pytest.mark.parametrize("kind", [Manifest, Claim, Restored, Committed])
def test_an_intact_document_of_a_newer_format_is_not_called_damaged(kind: type[msgspec.Struct]) -> None:
    word, _, number = str(kind.__struct_config__.tag).partition("/")
    newer = msgspec.defstruct("Newer", [("what", str)], tag_field="format", tag=f"{word}/{int(number) + 1}")
    with pytest.raises(InvalidQuery, match="some/key was written by a newer Tidegate") as refused:
        decode(kind, "some/key", encode(newer(what="?")))
    assert "start the query with that version" in refused.value.hint


@pytest.mark.parametrize("tag", ["manifest/0", "claim/2", "manifest/x", "manifest"])
def test_what_is_no_newer_format_of_the_same_document_is_damage(tag: str) -> None:
    strange = msgspec.defstruct("Strange", [("what", str)], tag_field="format", tag=tag)
    with pytest.raises(CorruptSnapshot, match="some/key"):
        decode(Manifest, "some/key", encode(strange(what="?")))


def test_an_imported_checkpoint_has_no_past_and_nothing_to_publish() -> None:
    imported, _ = relocated(MANIFEST, PLAN.pipeline)
    assert imported.attempt == IMPORTED
    assert decode(Manifest, "k", encode(imported)) == imported
    for wrong in ({"operators": MANIFEST.operators}, {"parent": (CheckpointId(1), Attempt(1))}):
        with pytest.raises(ValueError, match="imported checkpoint"):
            msgspec.structs.replace(imported, **wrong)


def test_rows_that_a_barrier_overtook_belong_to_the_checkpoint() -> None:
    """A checkpoint without them could not be restored: retention, savepoints and imports must know of them."""
    rows = InFlight(edge=0, source=SlotIndex(1), chunk=chunk(1, 42, 7))
    entry = msgspec.structs.replace(MANIFEST.operators[0], in_flight=(rows,))
    unaligned = msgspec.structs.replace(MANIFEST, operators=(entry, *MANIFEST.operators[1:]))
    assert unaligned.chunk_keys() == MANIFEST.chunk_keys() | {chunk_key(chunk(1, 42, 7).name)}


def test_a_field_that_another_version_knows_is_no_damage_of_the_pipeline_document() -> None:
    """T79: its checksum goes by what is stored, not by the fields that this version would write."""
    fields = msgspec.json.decode(encode_pipeline(PIPELINE))
    stored = {name: value for name, value in fields.items() if name != "imported_from"} | {"later": 7, "checksum": ""}
    checksum = f"{zlib.crc32(msgspec.json.encode(stored)):08x}"
    assert decode_pipeline(msgspec.json.encode(stored | {"checksum": checksum})) == PIPELINE
    with pytest.raises(CorruptSnapshot, match="its checksum"):
        decode_pipeline(msgspec.json.encode(stored | {"checksum": checksum, "later": 8}))
