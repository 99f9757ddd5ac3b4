"""What is particular to a directory. What holds for every store is claimed in ``tests/integration/stores/``."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tidegate.model.errors import Bug, InvalidQuery, Unavailable
from tidegate.ports.store import Created
from tidegate.storage.local import TEMPORARY_PREFIX, LocalBlobStore


class Killed(BaseException):
    """The process ends here: no handler of the store may run anything more."""


class CrashingStore(LocalBlobStore):
    """Dies at the n-th call that changes the disk, half way through it if it can be half done."""

    def __init__(self, root: Path, calls: int) -> None:
        self._left = calls
        self._dead = False
        super().__init__(root)

    def _step(self) -> bool:
        if self._dead:
            raise Killed
        self._left -= 1
        self._dead = self._left < 0
        return self._dead

    def _write(self, path: Path, data: bytes) -> None:
        if self._step():
            path.write_bytes(data[: len(data) // 2])
            raise Killed
        super()._write(path, data)

    def _link(self, temporary: Path, target: Path) -> None:
        if self._step():
            raise Killed
        super()._link(temporary, target)

    def _unlink(self, temporary: Path) -> None:
        if self._step():
            raise Killed
        super()._unlink(temporary)

    def _sync_directory(self, directory: Path) -> None:
        if self._step():
            raise Killed
        super()._sync_directory(directory)


def test_a_crash_at_any_write_call_leaves_old_or_new_and_never_part(tmp_path: Path) -> None:
    """T11."""
    crashes = 0
    for calls in range(40):
        root = tmp_path / str(calls)
        LocalBlobStore(root).create("checkpoints/000001/manifest", b"old" * 100)
        try:
            CrashingStore(root, calls).create("checkpoints/000002/manifest", b"new" * 100)
        except Killed:
            crashes += 1
        after = LocalBlobStore(root)
        assert after.read("checkpoints/000001/manifest") == b"old" * 100
        seen = after.read("checkpoints/000002/manifest")
        assert seen in (None, b"new" * 100)
        listed = ("checkpoints/000001/manifest", "checkpoints/000002/manifest")[: 1 + (seen is not None)]
        assert after.list("") == listed
        # Unknown outcome: creating it again settles it, either way it is there.
        after.create("checkpoints/000002/manifest", b"new" * 100)
        assert after.read("checkpoints/000002/manifest") == b"new" * 100
    assert 4 <= crashes < 40


def test_a_failed_write_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = LocalBlobStore(tmp_path)

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(Unavailable, match="No space left") as raised:
        store.create("a", b"x")
    assert "free some space" in raised.value.hint
    monkeypatch.undo()
    assert store.list("") == () and not list(tmp_path.rglob(TEMPORARY_PREFIX + "*"))


class BesideACleanup(LocalBlobStore):
    """Somebody deletes the last object of the directory, and with it the directory, right before the write: ``times`` times."""

    times = 0

    def _write(self, path: Path, data: bytes) -> None:
        if self.times:
            self.times -= 1
            path.parent.rmdir()
            path.parent.parent.rmdir()
        super()._write(path, data)


def test_a_directory_that_a_cleanup_removes_under_a_write_is_made_again(tmp_path: Path) -> None:
    """Found on Spark: the driver deletes old chunks while slots store new ones beside them."""
    store = BesideACleanup(tmp_path)
    for number in range(3):
        store.times = number
        assert isinstance(store.create(f"state/op/{number}", b"x"), Created)
        store.delete(f"state/op/{number}")
    store.times = 1_000
    with pytest.raises(Unavailable, match="state/op/last"):
        store.create("state/op/last", b"x")


@pytest.mark.parametrize("key", ["../x", "/etc/x", "a/../../x", "", "a/" + TEMPORARY_PREFIX + "x", "a\0b"])
def test_keys_stay_inside_the_location(tmp_path: Path, key: str) -> None:
    with pytest.raises(Bug, match="inside the checkpoint location"):
        LocalBlobStore(tmp_path).create(key, b"")


def test_a_vanished_location_is_unavailable_and_never_empty(tmp_path: Path) -> None:
    store = LocalBlobStore(tmp_path / "disk")
    store.create("a", b"1")
    (tmp_path / "disk").rename(tmp_path / "unmounted")
    for call in (lambda: store.read("a"), lambda: store.list(""), lambda: store.create("b", b"")):
        with pytest.raises(Unavailable, match="disk"):
            call()
    (tmp_path / "unmounted").rename(tmp_path / "disk")
    assert store.read("a") == b"1"


def test_a_file_in_the_way_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidQuery, match="file"):
        LocalBlobStore(tmp_path / "file" / "store")


def test_a_place_without_permission_is_refused_with_a_way_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = LocalBlobStore(tmp_path)

    def denied(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(store, "_write", denied)
    with pytest.raises(InvalidQuery, match="Permission denied") as raised:
        store.create("a", b"")
    assert "permission" in raised.value.hint
