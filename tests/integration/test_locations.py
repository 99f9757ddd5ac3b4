"""Bad checkpoint locations: full, read-only, vanished, foreign, too new, damaged. Each is a clear error that says what to do, nothing
is lost, nothing falls back in silence, and after mending the query goes on."""

from __future__ import annotations

import errno
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from tests.integration.small_pipeline import CONFIG, SmallPipeline, Visible, files
from tests.servers.disks import SmallDisk

from tidegate.checkpoint import effects as fx
from tidegate.checkpoint.layout import PIPELINE_KEY
from tidegate.checkpoint.manifest import Manifest, decode, encode
from tidegate.model.errors import CorruptSnapshot, InvalidQuery, TidegateError, Unavailable
from tidegate.ports.store import BlobStore
from tidegate.storage.local import LocalBlobStore

# --- disks that go wrong ------------------------------------------------------------------------------------------------


class MountedDisk(SmallDisk):
    """A real file system of 256 kB, filled, made read-only and taken away by the kernel."""

    def __init__(self, point: Path) -> None:
        super().__init__(point, "256k")
        self.location = point / "checkpoints"

    def open(self) -> BlobStore:
        return LocalBlobStore(self.location)


class FaultyDisk:
    """The same in any environment: real files, and the system calls that change them fail on demand."""

    def __init__(self, point: Path) -> None:
        point.mkdir()
        self.location = point / "checkpoints"
        self._away = point / "away"
        self._fault: int | None = None

    def open(self) -> BlobStore:
        return _FaultyStore(self)

    def fill(self) -> None:
        self._fault = errno.ENOSPC

    def make_read_only(self) -> None:
        self._fault = errno.EROFS

    def free(self) -> None:
        self._fault = None

    make_writable = free

    def hide(self) -> None:
        self.location.rename(self._away)

    def show(self) -> None:
        if self.location.exists():
            shutil.rmtree(self.location)
        self._away.rename(self.location)

    def check(self) -> None:
        if self._fault is not None:
            raise OSError(self._fault, "made up by the test")

    def close(self) -> None:
        pass


class _FaultyStore(LocalBlobStore):
    def __init__(self, disk: FaultyDisk) -> None:
        self._disk = disk
        super().__init__(disk.location)

    def _write(self, path: Path, data: bytes) -> None:
        self._disk.check()
        super()._write(path, data)

    def _make_directory(self, directory: Path) -> None:
        self._disk.check()
        super()._make_directory(directory)


@pytest.fixture(params=[FaultyDisk, MountedDisk])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[MountedDisk | FaultyDisk]:
    made = request.param(tmp_path / "disk")
    yield made
    made.close()


# --- full, read-only, gone ----------------------------------------------------------------------------------------------


def test_a_disk_that_fills_up_fails_checkpoints_by_reason_and_goes_on_when_there_is_space(
    disk: MountedDisk | FaultyDisk,
) -> None:
    """T11"""
    visible = Visible()
    query = SmallPipeline(disk.open, visible).start().run_s(3)
    before = query.completed()
    assert before >= 2
    disk.fill()
    query.run_s(3)
    assert query.completed() == before and query.outcome is None
    assert query.failures() and all("free some space" in words for words in query.failures()), query.failures()[:1]
    disk.free()
    query.run_s(10)
    assert query.completed() > before and query.outcome is None
    visible.assert_whole(before + 2)


def test_a_disk_that_stays_full_ends_the_query_as_unavailable_and_a_later_start_goes_on(
    disk: MountedDisk | FaultyDisk,
) -> None:
    visible = Visible()
    query = SmallPipeline(disk.open, visible).start().run_s(3)
    rows = len(visible.rows)
    disk.fill()
    query.run_s(60)
    assert query.failed.code == Unavailable.code and "free some space" in query.failed.hint
    with pytest.raises(Unavailable, match="cannot write"):
        SmallPipeline(disk.open, visible).start()
    disk.free()
    again = SmallPipeline(disk.open, visible).start().run_s(3)
    assert again.restored[0] is not None, "it does not begin again"
    visible.assert_whole(rows + 2)


def test_a_location_that_becomes_read_only_ends_the_query_with_the_way_out(disk: MountedDisk | FaultyDisk) -> None:
    visible = Visible()
    query = SmallPipeline(disk.open, visible).start().run_s(3)
    rows = len(visible.rows)
    disk.make_read_only()
    query.run_s(60)
    assert query.failures() and query.failed.code == InvalidQuery.code
    assert "read-only" in query.failed.hint
    with pytest.raises(InvalidQuery, match="cannot write") as refused:
        SmallPipeline(disk.open, visible).start()
    assert "read-only" in refused.value.hint
    disk.make_writable()
    SmallPipeline(disk.open, visible).start().run_s(3)
    visible.assert_whole(rows + 2)


def test_a_location_that_vanishes_while_running_is_never_taken_for_an_empty_one(
    disk: MountedDisk | FaultyDisk,
) -> None:
    """The disk is unmounted: the directory is gone, or it is empty and takes every write. Nothing begins from nothing."""
    visible = Visible()
    query = SmallPipeline(disk.open, visible).start().run_s(3)
    rows, completed = len(visible.rows), query.completed()
    disk.hide()
    query.run_s(120)
    assert query.completed() == completed and len(visible.rows) == rows, "nothing is published without the location"
    assert None not in query.restored[1:], "and nothing starts again from nothing"
    if query.outcome is not None:
        assert query.failed.code in {Unavailable.code, CorruptSnapshot.code}
        assert "mounted" in query.failed.hint
    query.kill()
    disk.show()
    SmallPipeline(disk.open, visible).start(process="another").run_s(3)
    visible.assert_whole(rows + 2)


def test_a_location_that_comes_back_is_used_again_by_the_running_query(tmp_path: Path) -> None:
    disk, visible = FaultyDisk(tmp_path / "disk"), Visible()
    query = SmallPipeline(disk.open, visible).start().run_s(3)
    before = query.completed()
    disk.hide()
    query.run_s(2)
    disk.show()
    query.run_s(10)
    assert query.outcome is None and query.completed() > before
    visible.assert_whole(before + 2)


def test_a_limit_on_file_sizes_is_an_error_with_a_hint(tmp_path: Path) -> None:
    """In a process of its own: the limit cannot be raised again."""
    script = f"""
import resource
from tidegate.storage.local import LocalBlobStore
store = LocalBlobStore({str(tmp_path)!r})
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))
store.create("small", b"x" * 1000)
try:
    store.create("large", b"x" * 1001)
except Exception as error:
    print(type(error).__name__, "ulimit" in error.hint, store.list(""))
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
store.create("large", b"x" * 1001)
print(store.list(""))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == ["Unavailable True ('small',)", "('large', 'small')"], done.stderr
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[1] == resource.RLIM_INFINITY


# --- somebody else's, or newer ---------------------------------------------------------------------------------------------


@pytest.fixture
def ran(tmp_path: Path) -> tuple[Path, Visible]:
    """A location in which a query has run for a while and died."""
    visible = Visible()
    query = SmallPipeline(lambda: LocalBlobStore(tmp_path / "here"), visible).start().run_s(5)
    query.kill()
    assert query.completed() >= 4
    return tmp_path / "here", visible


def start_at(location: Path, visible: Visible, **options: bool) -> SmallPipeline:
    return SmallPipeline(lambda: LocalBlobStore(location), visible).start(process="another", **options).run_s(3)


def test_checkpoints_of_another_pipeline_are_refused(ran: tuple[Path, Visible], tmp_path: Path) -> None:
    location, visible = ran
    rows = len(visible.rows)
    other = tmp_path / "other"
    SmallPipeline(lambda: LocalBlobStore(other), Visible()).start(pipeline="another one").run_s(1)
    mine = (location / PIPELINE_KEY).read_bytes()
    shutil.copy(other / PIPELINE_KEY, location / PIPELINE_KEY)
    query = start_at(location, visible)
    assert query.failed.code == CorruptSnapshot.code and "belongs to pipeline p" in query.failed.message
    assert "checkpointLocation of its own" in query.failed.hint
    (location / PIPELINE_KEY).write_bytes(mine)
    start_at(location, visible)
    visible.assert_whole(rows + 2)


@pytest.mark.parametrize("what", ["pipeline", "manifest"])
def test_a_newer_format_is_not_called_damaged_and_nothing_older_is_restored(
    ran: tuple[Path, Visible], what: str
) -> None:
    location, visible = ran
    rows = len(visible.rows)
    if what == "pipeline":
        path = location / PIPELINE_KEY
        good = path.read_bytes()
        path.write_bytes(good.replace(b"pipeline/1", b"pipeline/2"))
    else:
        path = newest_manifest(location)
        good = path.read_bytes()
        newer = msgspec.defstruct("Newer", [("pipeline", str)], tag_field="format", tag="manifest/2")
        path.write_bytes(encode(newer(pipeline="p")))
    with pytest.raises(InvalidQuery, match="written by a newer Tidegate"):
        raise_what_ended(lambda: start_at(location, visible, accept_duplicates=True))
    assert len(visible.rows) == rows
    path.write_bytes(good)
    start_at(location, visible)
    visible.assert_whole(rows + 2)


def raise_what_ended(start: Callable[[], SmallPipeline]) -> None:
    """The same whether ``start()`` refuses or the query ends a moment later."""
    failure = start().failed
    kinds = {kind.code: kind for kind in TidegateError.__subclasses__()}
    raise kinds[failure.code](failure.message, hint=failure.hint)


def newest_manifest(location: Path) -> Path:
    return max(location.glob("checkpoints/*/manifest"))


def chunk_of(manifest_path: Path, location: Path) -> Path:
    manifest = decode(Manifest, "manifest", manifest_path.read_bytes())
    (key,) = manifest.chunk_keys()
    return location / key


# --- damage -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("damage", ["first bit", "middle bit", "last bit", "cut", "empty", "deleted"])
def test_damage_to_any_file_is_harmless_or_an_error_that_names_it(
    ran: tuple[Path, Visible], tmp_path: Path, damage: str
) -> None:
    """T13: every file of the location in turn. Never a wrong row, never a silent fall-back; with the file put back all goes on."""
    location, before = ran
    refused: set[str] = set()
    for name in files(location):
        copy = tmp_path / "copy"
        shutil.copytree(location, copy)
        visible = Visible()
        visible.rows, visible._known = list(before.rows), set(before._known)
        good = (copy / name).read_bytes()
        spoil(copy / name, damage)
        try:
            query = start_at(copy, visible)
            if query.outcome is not None:
                raise_what_ended(lambda query=query: query)
        except (CorruptSnapshot, InvalidQuery) as error:
            refused.add(name)
            assert name in error.message, f"{name}: {error}"
            assert error.hint
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            (copy / name).write_bytes(good)
            start_at(copy, visible)
        visible.assert_whole(len(before.rows) + 2)
        shutil.rmtree(copy)
    newest = newest_manifest(location)
    for path in (location / PIPELINE_KEY, location / "attempts/000001/restored", newest, chunk_of(newest, location)):
        name = str(path.relative_to(location))
        assert name in refused, name


def spoil(path: Path, damage: str) -> None:
    data = bytearray(path.read_bytes())
    path.unlink()
    match damage:
        case "deleted":
            return
        case "cut":
            del data[len(data) // 2 :]
        case "empty":
            data.clear()
        case _:
            data[{"first bit": 0, "middle bit": len(data) // 2, "last bit": -1}[damage]] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("victim", ["manifest", "chunk"])
def test_going_back_past_damage_takes_a_word_of_a_person(ran: tuple[Path, Visible], victim: str) -> None:
    """T13: the previous retained checkpoint is restored when that is allowed; what it repeats is said beforehand."""
    location, visible = ran
    newest = newest_manifest(location)
    spoil(newest if victim == "manifest" else chunk_of(newest, location), "middle bit")
    query = start_at(location, visible)
    assert query.failed.code == CorruptSnapshot.code
    rows = len(visible.rows)
    allowed = start_at(location, visible, accept_duplicates=True)
    assert allowed.outcome is None and allowed.restored[0] is not None
    assert visible.rows[rows] == rows, "one checkpoint back, so one row comes again"
    assert visible.rows[rows:] == list(range(rows, rows + len(visible.rows) - rows))


def test_a_chunk_damaged_while_running_ends_the_query_at_its_next_restart_and_not_in_a_loop(
    ran: tuple[Path, Visible],
) -> None:
    location, visible = ran
    chunk = chunk_of(newest_manifest(location), location)
    good = chunk.read_bytes()
    spoil(chunk, "last bit")
    query = start_at(location, visible)
    assert isinstance(query.outcome, fx.Failed) and query.failed.code == CorruptSnapshot.code
    assert len(query.restored) == 1, "trying again cannot help"
    chunk.write_bytes(good)
    rows = len(visible.rows)
    start_at(location, visible)
    visible.assert_whole(rows + 2)


def test_another_number_of_key_groups_is_refused_at_the_start(ran: tuple[Path, Visible]) -> None:
    """T47"""
    location, visible = ran
    config = msgspec.structs.replace(CONFIG, max_parallelism=16)
    with pytest.raises(InvalidQuery, match="maxParallelism 8"):
        SmallPipeline(lambda: LocalBlobStore(location), visible, config=config).start()
