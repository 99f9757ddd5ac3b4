"""Starts at a location: whose it is, and what it begins with. Everything on real files, without Spark."""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import partial
from pathlib import Path

import msgspec
import pytest
from tests.unit.checkpoint.locations import Killed, MortalStore, contents, old_location, ref, state_of
from tests.unit.checkpoint.scenario import COUNT, PLAN

from tidegate.api.location import StartFrom, check_store, newest_claim, open_pipeline
from tidegate.checkpoint import layout
from tidegate.checkpoint.effects import ListLocation, WriteClaim
from tidegate.checkpoint.events import LocationListed
from tidegate.checkpoint.manifest import Claim, PipelineDocument, Restored, decode_pipeline, encode, encode_pipeline
from tidegate.checkpoint.plan import CheckpointPlan
from tidegate.checkpoint.recovery import Choice, choose
from tidegate.checkpoint.savepoint import Savepoint, export, read_savepoint, without_committables
from tidegate.checkpoint.storing import perform
from tidegate.model.errors import CorruptSnapshot, InvalidQuery, TidegateError
from tidegate.model.ids import Attempt, CheckpointId, PipelineId
from tidegate.ports.store import BlobStore, Created
from tidegate.storage.local import LocalBlobStore
from tidegate.storage.open import open_store

NEW = PipelineDocument(pipeline=PipelineId("the new one"), max_parallelism=PLAN.config.max_parallelism)
STATE = [b"first", b"second" * 100, b"small"]


def plan_for(pipeline: PipelineId) -> CheckpointPlan:
    return replace(PLAN, pipeline=pipeline)


def start_from(path: Path, *, claim: bool = False) -> StartFrom:
    return StartFrom(str(path), claim, partial(open_store, make=False))


def savepoint_at(folder: Path, *, drained: bool = False) -> Path:
    source, manifest = old_location(folder / "old")
    savepoint = Savepoint(manifest=without_committables(manifest), drained=drained)
    export(savepoint, source, LocalBlobStore(folder / "saved"), "saved")
    return folder / "saved"


def begin(store: BlobStore, start: StartFrom | None, **changes: object) -> PipelineDocument:
    return open_pipeline(store, "here", msgspec.structs.replace(NEW, **changes), plan_for, start)


def recover(store: BlobStore, attempt: int = 1) -> Choice:
    """What attempt ``attempt`` restores, by the real recovery."""
    plan = plan_for(decode_pipeline(store.read(layout.PIPELINE_KEY) or b"").pipeline)
    perform(plan, WriteClaim(Attempt(attempt), "me"), store, lambda: 0)
    listed = perform(plan, ListLocation(Attempt(attempt)), store, lambda: 0)
    assert isinstance(listed, LocationListed)
    decision = choose(plan, Attempt(attempt), listed.facts)
    assert isinstance(decision, Choice), decision
    return decision


def assert_imported(store: BlobStore, attempt: int = 1) -> Choice:
    choice = recover(store, attempt)
    assert choice.manifest is not None and choice.manifest.ref == ref(42, layout.IMPORTED)
    assert state_of(store, choice.manifest) == STATE
    assert choice.next_checkpoint == 43
    assert choice.garbage == (), "nothing that was imported is garbage"
    return choice


def test_a_pipeline_starts_from_a_savepoint_under_an_id_of_its_own(tmp_path: Path) -> None:
    saved = savepoint_at(tmp_path)
    before = contents(LocalBlobStore(saved))
    store = LocalBlobStore(tmp_path / "new")
    document = begin(store, start_from(saved))
    assert document.pipeline == "the new one"
    choice = assert_imported(store)
    assert choice.manifest is not None and choice.manifest.pipeline == "the new one"
    assert choice.manifest.committables() == () and choice.manifest.parent is None
    assert contents(LocalBlobStore(saved)) == before, "left alone"


def test_chunks_of_several_attempts_do_not_meet_under_one_name(tmp_path: Path) -> None:
    """Two chunks whose names differ in the attempt alone stay two files."""
    saved = savepoint_at(tmp_path)
    store = LocalBlobStore(tmp_path / "new")
    begin(store, start_from(saved))
    names = store.list(layout.STATE_PREFIX)
    assert len(names) == 2
    assert all(layout.parse(name) == layout.ChunkKey(name.removeprefix("state/"), Attempt(0)) for name in names)


def test_a_savepoint_of_an_imported_pipeline_can_be_imported_again(tmp_path: Path) -> None:
    saved = savepoint_at(tmp_path)
    middle = LocalBlobStore(tmp_path / "middle")
    begin(middle, start_from(saved))
    manifest = assert_imported(middle).manifest
    assert manifest is not None
    export(Savepoint(manifest=manifest), middle, LocalBlobStore(tmp_path / "again"), "again")
    store = LocalBlobStore(tmp_path / "new")
    begin(store, start_from(tmp_path / "again"))
    assert_imported(store)


def test_a_pipeline_starts_from_a_checkpoint_that_another_one_keeps(tmp_path: Path) -> None:
    old_location(tmp_path / "old")
    store = LocalBlobStore(tmp_path / "new")
    begin(store, start_from(tmp_path / "old" / "checkpoints" / "000042-000007"))
    assert_imported(store)


def test_a_checkpoint_whose_output_may_be_invisible_is_not_imported(tmp_path: Path) -> None:
    old_location(tmp_path / "old", committed=False)
    with pytest.raises(InvalidQuery, match="not visible yet") as refused:
        begin(LocalBlobStore(tmp_path / "new"), start_from(tmp_path / "old" / "checkpoints" / "000042-000007"))
    assert "savepoint" in refused.value.hint
    assert LocalBlobStore(tmp_path / "new").list("") == ()


def test_what_was_imported_stays_until_it_is_retired(tmp_path: Path) -> None:
    """The first attempt dies before it has taken a checkpoint, once before and once after it said what it restores."""
    store = LocalBlobStore(tmp_path / "new")
    begin(store, start_from(savepoint_at(tmp_path)))
    assert_imported(store, 1)
    assert_imported(store, 2)
    store.create(
        layout.restored_key(Attempt(2)), encode(Restored(attempt=Attempt(2), checkpoint=(CheckpointId(42), Attempt(0))))
    )
    assert_imported(store, 3)


@pytest.mark.parametrize("claim", [False, True])
@pytest.mark.parametrize("after", [False, True])
def test_an_import_that_died_at_any_write_is_done_again(tmp_path: Path, after: bool, claim: bool) -> None:
    """T11, T12: killed before or after the n-th create or delete, for every n; the next start has all of it."""
    died = 0
    for lives in range(12):
        folder = tmp_path / str(lives)
        saved = savepoint_at(folder)
        mortal = MortalStore(LocalBlobStore(saved), 99, after=after)
        store = MortalStore(LocalBlobStore(folder / "new"), lives, after=after)
        try:
            begin(store, StartFrom(str(saved), claim, lambda _, mortal=mortal: mortal), pipeline=PipelineId("first"))
        except Killed:
            died += 1
        again = LocalBlobStore(folder / "new")
        begin(again, start_from(saved, claim=claim), pipeline=PipelineId("second"))
        assert_imported(again)
        assert (read_savepoint(LocalBlobStore(saved)) is None) == claim
    assert died >= 4


@pytest.mark.parametrize("after", [False, True])
def test_a_claim_that_died_at_any_delete_is_finished_by_the_next_start(tmp_path: Path, after: bool) -> None:
    died = 0
    for lives in range(5):
        folder = tmp_path / str(lives)
        saved = savepoint_at(folder)
        dying = MortalStore(LocalBlobStore(saved), lives, after=after)
        store = LocalBlobStore(folder / "new")
        try:
            begin(store, StartFrom(str(saved), True, lambda _, dying=dying: dying))
        except Killed:
            died += 1
        begin(store, start_from(saved, claim=True))
        assert LocalBlobStore(saved).list("") == (), "every file of it is gone"
        assert_imported(store)
    assert died == 3


def test_an_interrupted_import_is_never_taken_for_an_empty_pipeline(tmp_path: Path) -> None:
    saved = savepoint_at(tmp_path)
    store = LocalBlobStore(tmp_path / "new")
    with pytest.raises(Killed):
        begin(MortalStore(store, 2, after=True), start_from(saved))
    with pytest.raises(InvalidQuery, match="interrupted") as refused:
        begin(store, None)
    assert str(saved) in refused.value.hint
    begin(store, start_from(saved))
    assert_imported(store)


def test_start_from_is_spent_at_the_second_start(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    saved = savepoint_at(tmp_path)
    store = LocalBlobStore(tmp_path / "new")
    begin(store, start_from(saved))
    recover(store)
    with caplog.at_level(logging.INFO, "tidegate"):
        begin(store, start_from(saved))
    assert "startFrom is spent" in caplog.text
    begin(store, None)
    for path in sorted(saved.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    begin(store, start_from(saved))  # It need not be there any more.


def test_a_location_that_has_begun_otherwise_is_refused(tmp_path: Path) -> None:
    saved = savepoint_at(tmp_path)
    own = LocalBlobStore(tmp_path / "own")
    begin(own, None)
    with pytest.raises(InvalidQuery, match="begun without"):
        begin(own, start_from(saved))
    store = LocalBlobStore(tmp_path / "new")
    begin(store, start_from(saved))
    other = savepoint_at(tmp_path / "other", drained=True)
    with pytest.raises(InvalidQuery, match="another checkpoint"):
        begin(store, start_from(other))


def test_part_of_one_import_is_not_completed_with_another(tmp_path: Path) -> None:
    store = LocalBlobStore(tmp_path / "new")
    with pytest.raises(Killed):
        begin(MortalStore(store, 2, after=True), start_from(savepoint_at(tmp_path)))
    with pytest.raises(InvalidQuery, match="part of another import"):
        begin(store, start_from(savepoint_at(tmp_path / "other", drained=True)))


def test_a_drained_savepoint_is_not_resumed_without_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """T49"""
    begin(LocalBlobStore(tmp_path / "suspended"), start_from(savepoint_at(tmp_path / "1")))
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
    begin(LocalBlobStore(tmp_path / "drained"), start_from(savepoint_at(tmp_path / "2", drained=True)))
    (warning,) = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert "windows are closed" in warning.getMessage()


def test_other_key_groups_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    """T47"""
    saved = savepoint_at(tmp_path)
    config = msgspec.structs.replace(PLAN.config, max_parallelism=64)
    store = LocalBlobStore(tmp_path / "new")
    new = msgspec.structs.replace(NEW, max_parallelism=64)
    with pytest.raises(InvalidQuery, match="maxParallelism"):
        open_pipeline(store, "here", new, lambda name: replace(PLAN, pipeline=name, config=config), start_from(saved))
    assert store.list("") == ()


def test_a_savepoint_without_an_operator_of_the_query_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    """T59"""
    source, manifest = old_location(tmp_path / "old")
    whole = without_committables(manifest)
    entries = tuple(one for one in whole.operators if one.operator != COUNT)
    export(
        Savepoint(manifest=msgspec.structs.replace(whole, operators=entries)),
        source,
        LocalBlobStore(tmp_path / "saved"),
        "saved",
    )
    store = LocalBlobStore(tmp_path / "new")
    with pytest.raises(InvalidQuery, match=COUNT):
        begin(store, start_from(tmp_path / "saved"))
    assert store.list("") == ()


def test_a_checkpoint_cannot_be_claimed(tmp_path: Path) -> None:
    source, _ = old_location(tmp_path / "old")
    before = contents(source)
    store = LocalBlobStore(tmp_path / "new")
    with pytest.raises(InvalidQuery, match="cannot be claimed"):
        begin(store, start_from(tmp_path / "old" / "checkpoints" / "000042-000007", claim=True))
    assert store.list("") == () and contents(source) == before


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("nowhere", "cannot reach"),
        ("empty", "no savepoint at"),
        ("old", "000042-000007"),
        ("old/checkpoints/000001-000001", "000042-000007"),
    ],
)
def test_what_start_from_does_not_find_is_said(tmp_path: Path, path: str, says: str) -> None:
    old_location(tmp_path / "old")
    (tmp_path / "empty").mkdir()
    store = LocalBlobStore(tmp_path / "new")
    with pytest.raises(TidegateError) as refused:
        begin(store, start_from(tmp_path / path))
    assert says in str(refused.value)
    assert store.list("") == () and not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("change", ["flip", "delete"])
def test_a_damaged_chunk_is_found_while_importing_and_mended_by_its_copy(tmp_path: Path, change: str) -> None:
    """T13"""
    saved = savepoint_at(tmp_path)
    key = LocalBlobStore(saved).list(layout.STATE_PREFIX)[0]
    good = (saved / key).read_bytes()
    (saved / key).unlink()
    if change == "flip":
        (saved / key).write_bytes(bytes([good[0] ^ 1]) + good[1:])
    store = LocalBlobStore(tmp_path / "new")
    with pytest.raises(CorruptSnapshot, match=key):
        begin(store, start_from(saved))
    assert newest_claim(store) == 0
    (saved / key).unlink(missing_ok=True)
    (saved / key).write_bytes(good)
    begin(store, start_from(saved))
    assert_imported(store)


def test_a_location_without_its_identity_is_refused(tmp_path: Path) -> None:
    """T13: a new identity would hide the checkpoints that are there."""
    store = LocalBlobStore(tmp_path / "here")
    begin(store, None)
    recover(store)
    identity = (tmp_path / "here" / layout.PIPELINE_KEY).read_bytes()
    (tmp_path / "here" / layout.PIPELINE_KEY).unlink()
    with pytest.raises(CorruptSnapshot, match="is missing"):
        begin(store, None)
    store.create(layout.PIPELINE_KEY, identity)
    assert begin(store, None).pipeline == "the new one"


def test_every_bit_of_the_identity_is_guarded(tmp_path: Path) -> None:
    """T13: another id, another number of key groups or another origin would start something else."""
    saved = savepoint_at(tmp_path)
    store = LocalBlobStore(tmp_path / "here")
    document = begin(store, start_from(saved))
    data = encode_pipeline(document)
    for index in range(len(data)):
        flipped = data[:index] + bytes([data[index] ^ 1]) + data[index + 1 :]
        try:
            assert decode_pipeline(flipped) == document, f"byte {index}"  # Space between the fields may be anything.
        except (CorruptSnapshot, InvalidQuery) as refused:
            assert layout.PIPELINE_KEY in refused.message


def test_an_identity_of_a_newer_format_is_not_called_damaged(tmp_path: Path) -> None:
    store = LocalBlobStore(tmp_path / "here")
    store.create(layout.PIPELINE_KEY, b'{"format": "pipeline/2", "pipelines": []}')
    with pytest.raises(InvalidQuery, match="written by a newer Tidegate"):
        begin(store, None)


class Forgetful(LocalBlobStore):
    """Ignores create-if-absent, as some object stores do."""

    def create(self, key: str, data: bytes) -> Created:
        self.delete(key)
        super().create(key, data)
        return Created()


def test_a_store_that_ignores_create_if_absent_is_refused(tmp_path: Path) -> None:
    store = Forgetful(tmp_path / "here")
    with pytest.raises(InvalidQuery, match="created twice") as refused:
        check_store(store, "here")
    assert "create-if-absent" in refused.value.hint
    assert store.list("") == ()


def test_a_claim_of_somebody_else_is_counted(tmp_path: Path) -> None:
    store = LocalBlobStore(tmp_path / "here")
    store.create(layout.claim_key(Attempt(3)), encode(Claim(attempt=Attempt(3), process="x")))
    assert newest_claim(store) == 3
