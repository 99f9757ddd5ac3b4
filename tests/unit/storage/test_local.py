"""Every store behaves the same: one suite, run over the local store and over a fake that can only put conditionally."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tidegate.checkpoint.ports import AlreadyThere, BlobStore, Created, judge, probe
from tidegate.model.errors import Bug, InvalidQuery, Unavailable
from tidegate.storage.local import TEMPORARY_PREFIX, LocalBlobStore

OpenStore = Callable[[], BlobStore]


class ConditionalPutStore:
    """An object store in memory: no rename, no directories, only create-if-absent."""

    def __init__(self, objects: dict[str, bytes], lock: threading.Lock) -> None:
        self._objects = objects
        self._lock = lock

    def create(self, key: str, data: bytes) -> Created | AlreadyThere:
        with self._lock:
            if key in self._objects:
                return AlreadyThere()
            self._objects[key] = data
            return Created()

    def read(self, key: str) -> bytes | None:
        return self._objects.get(key)

    def list(self, prefix: str) -> tuple[str, ...]:
        return tuple(sorted(key for key in self._objects if key.startswith(prefix)))

    def delete(self, key: str) -> None:
        self._objects.pop(key, None)


@pytest.fixture(params=["local", "conditional put"])
def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> OpenStore:
    """Opens the same store again and again, as several processes would."""
    if request.param == "local":
        return lambda: LocalBlobStore(tmp_path / "store")
    objects: dict[str, bytes] = {}
    lock = threading.Lock()
    return lambda: ConditionalPutStore(objects, lock)


def test_what_is_created_is_read_by_everybody(open_store: OpenStore) -> None:
    assert open_store().create("a/b", b"one") == Created()
    assert open_store().read("a/b") == b"one"


def test_nothing_is_ever_overwritten(open_store: OpenStore) -> None:
    """T12: create-if-absent is all the protocol has, and all it needs."""
    store = open_store()
    store.create("manifest", b"first")
    assert store.create("manifest", b"second") == AlreadyThere()
    assert store.read("manifest") == b"first"


def test_an_absent_object_reads_as_none(open_store: OpenStore) -> None:
    assert open_store().read("nothing/here") is None


def test_of_eight_racers_for_one_key_exactly_one_wins(open_store: OpenStore) -> None:
    start = threading.Barrier(8)
    outcomes: list[tuple[int, object]] = []

    def race(number: int) -> None:
        store = open_store()
        start.wait()
        outcomes.append((number, store.create("attempts/000001/claim", str(number).encode() * 1000)))

    racers = [threading.Thread(target=race, args=(number,)) for number in range(8)]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join()
    winners = [number for number, outcome in outcomes if outcome == Created()]
    assert len(winners) == 1 and len(outcomes) == 8
    assert open_store().read("attempts/000001/claim") == str(winners[0]).encode() * 1000


def test_a_listing_shows_every_key_under_a_prefix_in_order(open_store: OpenStore) -> None:
    store = open_store()
    for key in ("state/b", "state/a/2", "state/a/1", "stateful", "x"):
        store.create(key, b"")
    assert store.list("state/") == ("state/a/1", "state/a/2", "state/b")
    assert store.list("state/a") == ("state/a/1", "state/a/2")
    assert store.list("state") == ("state/a/1", "state/a/2", "state/b", "stateful")
    assert store.list("nowhere/") == ()
    assert len(store.list("")) == 5


def test_deleting_twice_is_no_error_and_the_key_may_be_made_again(open_store: OpenStore) -> None:
    store = open_store()
    store.create("a/b/c", b"1")
    store.delete("a/b/c")
    store.delete("a/b/c")
    assert store.read("a/b/c") is None and store.list("a/") == ()
    assert store.create("a/b/c", b"2") == Created()
    assert open_store().read("a/b/c") == b"2"


def test_the_store_passes_the_probe(open_store: OpenStore) -> None:
    store, asked = open_store(), probe("0123")
    judge("here", store.create(asked.key, asked.first), store.create(asked.key, asked.second))


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
