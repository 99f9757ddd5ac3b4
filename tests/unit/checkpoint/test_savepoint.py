"""Savepoints: whole or not there, self-contained, movable, repeatable."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path

import pytest
from tests.unit.checkpoint.locations import Killed, MortalStore, contents, old_location, state_of

from tidegate.checkpoint.effects import ExportSavepoint
from tidegate.checkpoint.events import SavepointExported, SavepointFailed
from tidegate.checkpoint.layout import SAVEPOINT_KEY
from tidegate.checkpoint.manifest import Manifest
from tidegate.checkpoint.savepoint import Savepoint, check_target, perform_export, read_savepoint
from tidegate.model.errors import CorruptSnapshot, InvalidQuery, Unavailable
from tidegate.model.ids import Attempt
from tidegate.ports.store import AlreadyThere, BlobStore, Created
from tidegate.storage.local import LocalBlobStore

OWNER = Attempt(8)


def take(source: BlobStore, manifest: Manifest, target: BlobStore) -> SavepointExported | SavepointFailed:
    effect = ExportSavepoint(OWNER, manifest, "/the/target")
    return perform_export(effect, source, lambda _: target, lambda: 5, query="SELECT 1", created_by="0.1")


def test_a_savepoint_holds_everything_and_may_be_moved(tmp_path: Path) -> None:
    source, manifest = old_location(tmp_path / "old")
    answer = take(source, manifest, LocalBlobStore(tmp_path / "saved"))
    assert answer == SavepointExported(5, OWNER, manifest.checkpoint, "/the/target")
    shutil.rmtree(tmp_path / "old")
    shutil.move(tmp_path / "saved", tmp_path / "elsewhere")
    moved = LocalBlobStore(tmp_path / "elsewhere")
    savepoint = read_savepoint(moved)
    assert savepoint is not None
    assert state_of(moved, savepoint.manifest) == [b"first", b"second" * 100, b"small"]
    assert savepoint.manifest.committables() == () and manifest.committables()
    assert (savepoint.query, savepoint.created_by, savepoint.drained) == ("SELECT 1", "0.1", False)
    assert savepoint.manifest.pipeline == manifest.pipeline
    assert str(tmp_path).encode() not in (tmp_path / "elsewhere" / SAVEPOINT_KEY).read_bytes()


def test_exporting_again_changes_nothing(tmp_path: Path) -> None:
    source, manifest = old_location(tmp_path / "old")
    target = LocalBlobStore(tmp_path / "saved")
    take(source, manifest, target)
    before = contents(target)
    assert isinstance(take(source, manifest, target), SavepointExported)
    assert contents(target) == before


@pytest.mark.parametrize("after", [False, True])
def test_a_crash_at_any_write_leaves_no_savepoint_or_a_whole_one(tmp_path: Path, after: bool) -> None:
    """T11, T12: the store offers create-if-absent and nothing else."""
    source, manifest = old_location(tmp_path / "old")
    died = 0
    for lives in range(5):
        target = LocalBlobStore(tmp_path / f"saved-{lives}")
        try:
            take(source, manifest, MortalStore(target, lives, after=after))
        except Killed:
            died += 1
        savepoint = read_savepoint(target)
        assert savepoint is None or state_of(target, savepoint.manifest) == [b"first", b"second" * 100, b"small"]
        assert isinstance(take(source, manifest, target), SavepointExported), "trying again completes it"
        assert read_savepoint(target) is not None
    assert died == 3


@pytest.mark.parametrize("key", ["pipeline.json", "notes.txt", "state/count/000009-00000-000001-0"])
def test_a_target_that_holds_something_else_is_refused_and_left_alone(tmp_path: Path, key: str) -> None:
    source, manifest = old_location(tmp_path / "old")
    target = LocalBlobStore(tmp_path / "saved")
    target.create(key, b"mine")
    answer = take(source, manifest, target)
    assert isinstance(answer, SavepointFailed) and answer.failure.code == InvalidQuery.code
    assert key in answer.failure.message and not answer.failure.retryable
    assert contents(target) == {key: b"mine"}


def test_a_target_that_holds_another_savepoint_is_refused(tmp_path: Path) -> None:
    source, manifest = old_location(tmp_path / "old")
    target = LocalBlobStore(tmp_path / "saved")
    effect = ExportSavepoint(OWNER, manifest, "/the/target", drained=True)
    perform_export(effect, source, lambda _: target, lambda: 5)
    answer = take(source, manifest, target)
    assert isinstance(answer, SavepointFailed) and "another savepoint" in answer.failure.message
    kept = read_savepoint(target)
    assert kept is not None and kept.drained


@pytest.mark.parametrize(("change", "says"), [("flip", "damaged"), ("cut", "damaged"), ("delete", "missing")])
def test_a_bad_chunk_is_found_while_copying(tmp_path: Path, change: str, says: str) -> None:
    """T13: a savepoint is never made of what could not be restored."""
    source, manifest = old_location(tmp_path / "old")
    key = sorted(manifest.chunk_keys())[1]
    path = tmp_path / "old" / key
    data = path.read_bytes()
    path.unlink()
    if change != "delete":
        path.write_bytes(data[:-1] if change == "cut" else bytes([data[0] ^ 1]) + data[1:])
    target = LocalBlobStore(tmp_path / "saved")
    answer = take(source, manifest, target)
    assert isinstance(answer, SavepointFailed) and answer.failure.code == CorruptSnapshot.code
    assert key in answer.failure.message and says in answer.failure.message
    assert read_savepoint(target) is None


def test_a_target_that_cannot_be_reached_is_a_failure_not_a_crash(tmp_path: Path) -> None:
    source, manifest = old_location(tmp_path / "old")
    target = LocalBlobStore(tmp_path / "saved")
    shutil.rmtree(tmp_path / "saved")
    answer = take(source, manifest, target)
    assert isinstance(answer, SavepointFailed) and answer.failure.code == Unavailable.code


class FullStore(LocalBlobStore):
    """Takes the first file and no other."""

    full = False

    def _write(self, path: Path, data: bytes) -> None:
        if self.full:
            raise OSError(errno.ENOSPC, "No space left on device")
        super()._write(path, data)
        self.full = True


def test_a_failed_export_leaves_the_place_as_it_was_for_another_try(tmp_path: Path) -> None:
    source, manifest = old_location(tmp_path / "old")
    target = FullStore(tmp_path / "saved")
    answer = take(source, manifest, target)
    assert isinstance(answer, SavepointFailed) and "free some space" in answer.failure.hint
    assert target.list("") == ()
    check_target(LocalBlobStore(tmp_path / "saved"), "saved", "x")
    assert isinstance(take(source, manifest, LocalBlobStore(tmp_path / "saved")), SavepointExported)


class LateStore(LocalBlobStore):
    """Reports that the document could not be created, and creates it later all the same."""

    late: bytes | None = None

    def create(self, key: str, data: bytes) -> Created | AlreadyThere:
        if key == SAVEPOINT_KEY:
            self.late = data
            raise Unavailable("no answer")
        return super().create(key, data)

    def land(self) -> None:
        assert self.late is not None
        super().create(SAVEPOINT_KEY, self.late)


def test_a_document_that_lands_after_its_export_failed_is_whole(tmp_path: Path) -> None:
    """T11: an unknown outcome is no failure; nothing the document names may have been taken away."""
    source, manifest = old_location(tmp_path / "old")
    target = LateStore(tmp_path / "saved")
    assert isinstance(take(source, manifest, target), SavepointFailed)
    target.land()
    saved = read_savepoint(target)
    assert saved is not None
    assert saved.manifest.chunk_keys() <= set(target.list(""))


def test_of_two_savepoints_for_one_place_one_stands_whole_and_the_other_is_refused(tmp_path: Path) -> None:
    """Both found the place empty; the other one's document comes in between."""
    source, manifest = old_location(tmp_path / "old")
    target = LocalBlobStore(tmp_path / "saved")

    class Overtaken(LocalBlobStore):
        def create(self, key: str, data: bytes) -> Created | AlreadyThere:
            if key == SAVEPOINT_KEY:
                target.create(SAVEPOINT_KEY, b"the other one")
            return super().create(key, data)

    answer = take(source, manifest, Overtaken(tmp_path / "saved"))
    assert isinstance(answer, SavepointFailed) and answer.failure.code == InvalidQuery.code
    assert contents(target) == {SAVEPOINT_KEY: b"the other one"}


def test_the_place_is_checked_before_a_savepoint_is_taken(tmp_path: Path) -> None:
    check_target(LocalBlobStore(tmp_path / "new"), "new", "x")
    assert list((tmp_path / "new").iterdir()) == []
    (tmp_path / "new" / "notes.txt").write_text("mine")
    with pytest.raises(InvalidQuery, match="not empty"):
        check_target(LocalBlobStore(tmp_path / "new"), "new", "x")


def test_a_savepoint_cannot_carry_output_to_publish(tmp_path: Path) -> None:
    _, manifest = old_location(tmp_path / "old")
    with pytest.raises(ValueError, match="neither output"):
        Savepoint(manifest=manifest)


@pytest.mark.parametrize("at", ["head", "middle", "end", "tail cut"])
def test_a_damaged_savepoint_is_refused_by_name(tmp_path: Path, at: str) -> None:
    """T13"""
    source, manifest = old_location(tmp_path / "old")
    target = LocalBlobStore(tmp_path / "saved")
    take(source, manifest, target)
    path = tmp_path / "saved" / SAVEPOINT_KEY
    data = bytearray(path.read_bytes())
    if at == "tail cut":
        del data[-1]
    else:
        data[{"head": 3, "middle": len(data) // 2, "end": -1}[at]] ^= 1
    path.write_bytes(data)
    with pytest.raises(CorruptSnapshot, match=SAVEPOINT_KEY):
        read_savepoint(target)
