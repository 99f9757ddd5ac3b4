"""Google's and Azure's stores: what is asked of them, seen from the server's side."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.servers.buckets import BucketServer, bucket_server

from tidegate.api.location import check_store
from tidegate.ports.store import AlreadyThere, BlobStore, Created
from tidegate.storage.open import open_store
from tidegate.storage.options import storage_options


@pytest.fixture
def server() -> Iterator[BucketServer]:
    with bucket_server() as server:
        yield server


@pytest.fixture(params=["gs", "az"])
def store(request: pytest.FixtureRequest, server: BucketServer) -> BlobStore:
    return open_store(f"{request.param}://bucket/q1", storage_options(server.options_for(request.param)))


def test_objects_are_created_under_a_condition_and_with_a_mark(store: BlobStore, server: BucketServer) -> None:
    assert store.create("a/claim", b"mine") == Created()
    assert store.create("a/claim", b"other") == AlreadyThere()
    assert store.read("a/claim") == b"mine"
    ((key, (_, marks)),) = server.objects.items()
    assert key == "q1/a/claim"
    assert any(name.endswith("tidegatemark") and len(value) == 32 for name, value in marks.items())


def test_what_is_there_is_listed_and_deleted_and_what_is_not_is_no_error(
    store: BlobStore, server: BucketServer
) -> None:
    for key in ("state/a", "state/b", "stateful"):
        store.create(key, b"1")
    assert store.list("state/") == ("state/a", "state/b")
    store.delete("state/a")
    store.delete("state/a")
    assert store.read("state/a") is None
    assert store.list("") == ("state/b", "stateful")
    assert store.deletes_together
    assert store.delete_many(("state/a", "state/b", "stateful")) == {}
    assert store.list("") == ()


def test_the_store_passes_the_probe(store: BlobStore, server: BucketServer) -> None:
    check_store(store, "here")
    assert not server.objects
