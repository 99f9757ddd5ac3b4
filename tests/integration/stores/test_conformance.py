"""What the coordinator relies on, claimed of every store over its real server: a local disk, S3, HDFS."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.integration.stores.conftest import Home

from tidegate.api.location import check_store
from tidegate.model.errors import Bug, InvalidQuery
from tidegate.ports.store import AlreadyThere, BlobStore, Created, CreateOutcome
from tidegate.state.encoded import Encoded
from tidegate.storage.keys import TEMPORARY_PREFIX

RACERS = 8
LARGE = bytes(range(256)) * (80 << 10)  # 20 MiB: in several parts wherever there are parts.


def test_what_is_created_is_read_by_everybody(home: Home) -> None:
    assert home.open().create("a/b", b"one") == Created()
    assert home.open().read("a/b") == b"one"


def test_nothing_is_ever_overwritten(home: Home) -> None:
    """T12: create-if-absent is all the protocol has, and all it needs."""
    store = home.open()
    store.create("manifest", b"first")
    assert store.create("manifest", b"second") == AlreadyThere()
    assert home.open().create("manifest", b"first") == AlreadyThere(), "the same bytes are still another create"
    assert store.read("manifest") == b"first"


def test_an_absent_object_reads_as_none_and_an_empty_one_as_empty(home: Home) -> None:
    store = home.open()
    assert store.read("nothing/here") is None
    store.create("empty", b"")
    assert store.read("empty") == b""
    assert store.list("") == ("empty",)


def test_of_eight_racers_for_one_key_exactly_one_wins(home: Home) -> None:
    stores = [home.open() for _ in range(RACERS)]
    start = threading.Barrier(RACERS)

    def race(number: int, key: str) -> CreateOutcome:
        start.wait()
        return stores[number].create(key, str(number).encode() * 1_000)

    for key in ("attempts/000001/claim", "attempts/000002/claim", "checkpoints/000001-000001/manifest"):
        with ThreadPoolExecutor(RACERS) as racers:
            outcomes = list(racers.map(race, range(RACERS), [key] * RACERS))
        winners = [number for number, outcome in enumerate(outcomes) if outcome == Created()]
        assert len(winners) == 1
        assert home.open().read(key) == str(winners[0]).encode() * 1_000


def test_a_listing_shows_every_key_under_a_prefix_in_order(home: Home) -> None:
    store = home.open()
    keys = ("state/b", "state/a/2", "state/a/1", "stateful", "x", *(f"many/{number:03d}" for number in range(25)))
    with ThreadPoolExecutor(RACERS) as makers:
        list(makers.map(lambda key: store.create(key, b""), keys))
    assert store.list("state/") == ("state/a/1", "state/a/2", "state/b")
    assert store.list("state/a") == ("state/a/1", "state/a/2")
    assert store.list("state") == ("state/a/1", "state/a/2", "state/b", "stateful")
    assert store.list("nowhere/") == ()
    assert home.open().list("") == tuple(sorted(keys))


def test_deleting_twice_is_no_error_and_the_key_may_be_made_again(home: Home) -> None:
    store = home.open()
    store.create("a/b/c", b"1")
    store.delete("a/b/c")
    store.delete("a/b/c")
    store.delete("never/there")
    assert store.read("a/b/c") is None and store.list("a/") == ()
    assert store.create("a/b/c", b"2") == Created()
    assert home.open().read("a/b/c") == b"2"


def test_many_are_deleted_together_and_absent_ones_are_no_error(remote_home: Home) -> None:
    store = remote_home.open()
    keys = [f"state/op/{number:03d}" for number in range(40)]
    with ThreadPoolExecutor(RACERS) as makers:
        list(makers.map(lambda key: store.create(key, b"1"), keys))
    assert store.deletes_together
    assert store.delete_many([*keys[:-1], "never/there"]) == {}
    assert store.list("") == (keys[-1],)


def test_a_large_object_comes_back_whole(home: Home) -> None:
    store = home.open()
    assert store.create("large", LARGE) == Created()
    assert store.create("large", b"small") == AlreadyThere()
    assert store.read("large") == LARGE


def test_an_object_of_one_owner_may_travel_in_parts_and_be_sent_again(s3_home: Home) -> None:
    store = s3_home.open()
    for data in (LARGE, LARGE, b"small"):
        store.put_own(f"state/op/{len(data)}", Encoded.of(data))
        assert store.read(f"state/op/{len(data)}") == data


@pytest.mark.parametrize("key", ["../x", "/etc/x", "a/../../x", "", "a/" + TEMPORARY_PREFIX + "x", "a\0b"])
def test_keys_stay_inside_the_location(home: Home, key: str) -> None:
    store = home.open()
    for call in (lambda: store.create(key, b""), lambda: store.read(key), lambda: store.delete(key)):
        with pytest.raises(Bug, match="inside the checkpoint location"):
            call()


def test_the_store_passes_the_probe_and_keeps_nothing_of_it(home: Home) -> None:
    store = home.open()
    check_store(store, home.location)
    assert store.list("") == ()


class WeakStore(BlobStore):
    """A server that knows no conditional put: it takes every one, as S3's copies did for years."""

    def __init__(self, store: BlobStore) -> None:
        self._store = store

    def create(self, key: str, data: bytes) -> CreateOutcome:
        self._store.delete(key)
        return self._store.create(key, data)

    def read(self, key: str) -> bytes | None:
        return self._store.read(key)

    def list(self, prefix: str) -> tuple[str, ...]:
        return self._store.list(prefix)

    def delete(self, key: str) -> None:
        self._store.delete(key)


def test_a_weak_store_is_found_out_before_anything_runs(home: Home) -> None:
    store = WeakStore(home.open())
    with pytest.raises(InvalidQuery, match="created twice") as raised:
        check_store(store, home.location)
    assert "conditional writes" in raised.value.hint
    assert store.list("") == ()
