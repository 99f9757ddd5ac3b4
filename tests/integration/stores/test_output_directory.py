"""What the file sink relies on, claimed of every output directory over its real server: a local disk, S3, HDFS."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.integration.stores.conftest import Home

from tidegate.connectors.files.local_directory import directory_at
from tidegate.ports.directory import OutputDirectory
from tidegate.storage.output_directory import open_directory
from tidegate.storage.places import LocalPlace, place_of

RACERS = 6


def opened(home: Home) -> OutputDirectory:
    place = place_of(home.location)
    location = place.path if isinstance(place, LocalPlace) else home.location
    return directory_at(location, lambda url: open_directory(url, home.options))


@pytest.fixture
def directory(home: Home) -> OutputDirectory:
    made = opened(home)
    made.make()
    return made


def kept(directory: OutputDirectory, name: str, data: bytes) -> None:
    draft = directory.draft(name)
    draft.file.write(data)
    assert draft.keep() == len(data)
    directory.settle([name])


def test_a_directory_that_was_made_holds_nothing(home: Home, directory: OutputDirectory) -> None:
    directory.make()
    assert list(opened(home).files()) == [] and directory.names("") == [] and not directory.has("_log")


def test_a_draft_lies_under_its_name_once_it_is_kept_and_nowhere_if_it_is_not_wanted(
    home: Home, directory: OutputDirectory
) -> None:
    draft = directory.draft("_staged/x/1")
    draft.file.write(b"abc")
    unwanted = directory.draft("_staged/x/2")
    unwanted.file.write(b"abc")
    unwanted.discard()
    assert directory.status("_staged/x/2") is None
    draft.keep()
    assert opened(home).read("_staged/x/1") == b"abc" and opened(home).names("_staged/x") == ["1"]


def test_what_is_published_is_whole_and_may_be_published_again(home: Home, directory: OutputDirectory) -> None:
    before_ms = (time.time() - 10) * 1_000
    kept(directory, "_staged/1", b"rows" * 1_000)
    directory.publish("_staged/1", "k=a b%2F/ü/part 1", 4_000)
    status = opened(home).status("k=a b%2F/ü/part 1")
    assert status is not None and status.size_bytes == 4_000 and before_ms < status.modified_ms < before_ms + 600_000
    try:
        directory.publish("_staged/1", "k=a b%2F/ü/part 1", 4_000)
    except FileNotFoundError:
        assert home.kind != "s3", "a bucket has no rename: the staged object stays until it is deleted"
    assert opened(home).read("k=a b%2F/ü/part 1") == b"rows" * 1_000
    directory.delete("_staged/1")
    with pytest.raises(FileNotFoundError):
        directory.publish("_staged/1", "elsewhere", 4_000)
    assert list(opened(home).files()) == ["k=a b%2F/ü/part 1"]


def test_a_draft_may_be_published_without_being_kept(home: Home, directory: OutputDirectory) -> None:
    draft = directory.draft("_staged/merged")
    draft.file.write(b"merged")
    draft.publish("k=1/part")
    assert list(opened(home).files()) == ["k=1/part"] and directory.read("k=1/part") == b"merged"


def test_a_name_is_taken_once_by_whoever_is_first(home: Home, directory: OutputDirectory) -> None:
    others = [opened(home) for _ in range(RACERS)]
    with ThreadPoolExecutor(RACERS) as racers:
        won = list(racers.map(lambda number: others[number].create("_log/0", str(number).encode()), range(RACERS)))
    assert won.count(True) == 1 and directory.read("_log/0") == str(won.index(True)).encode()


def test_a_directory_may_begin_empty_and_names_are_those_right_in_it(home: Home, directory: OutputDirectory) -> None:
    directory.begin("_log")
    directory.begin("_log")
    assert opened(home).has("_log") and not opened(home).has("_lo")
    for name in ("_log/0", "_log/1.compact", "_log/deeper/2", "_logs/3"):
        assert directory.create(name, b"")
    assert [name for name in opened(home).names("_log") if name[0].isdigit()] == ["0", "1.compact"]
    assert opened(home).names("_nothing") == []


def test_what_is_not_there_is_an_answer(directory: OutputDirectory) -> None:
    assert directory.status("nothing/here") is None
    directory.delete("nothing/here")
    with pytest.raises(FileNotFoundError) as raised:
        directory.read("nothing/here")
    assert "nothing/here" in str(raised.value.filename)


def test_urls_are_the_users_and_nothing_in_them_is_escaped(home: Home, tmp_path: Path) -> None:
    place = place_of(home.location)
    directory = opened(home)
    assert directory.url == (home.location if not isinstance(place, LocalPlace) else f"file://{place.path}")
    if home.kind == "s3":
        assert open_directory("s3a://bucket//a b//c/", home.options).url == "s3a://bucket/a b/c"
        assert open_directory("s3n://bucket", home.options).url == "s3n://bucket"
