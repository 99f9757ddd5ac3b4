"""A store that can do no more than it must."""

from __future__ import annotations

import pytest

from tidegate.model.errors import Unavailable
from tidegate.ports.store import AlreadyThere, BlobStore, Created, CreateOutcome
from tidegate.state.encoded import Encoded


class Shelf(BlobStore):
    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}

    def create(self, key: str, data: bytes) -> CreateOutcome:
        if key in self.objects:
            return AlreadyThere()
        self.objects[key] = data
        return Created()

    def read(self, key: str) -> bytes | None:
        return self.objects.get(key)

    def list(self, prefix: str) -> tuple[str, ...]:
        return tuple(sorted(key for key in self.objects if key.startswith(prefix)))

    def delete(self, key: str) -> None:
        if key == "stuck":
            raise Unavailable("it does not want to")
        self.objects.pop(key, None)


def test_an_object_of_one_owner_is_created_whole_and_an_earlier_try_of_his_counts() -> None:
    store = Shelf()
    store.put_own("a", Encoded.of(b"one ", b"two"))
    store.put_own("a", Encoded.of(b"one ", b"two"))
    assert store.objects == {"a": b"one two"}


def test_many_are_deleted_one_after_the_other_and_those_that_stay_are_named() -> None:
    store = Shelf()
    store.objects = {"a": b"", "stuck": b"", "b": b""}
    assert not store.deletes_together, "so that a clean-up can stop after each of them"
    assert store.delete_many(("a", "never there", "stuck", "b")) == {"stuck": "it does not want to"}
    assert store.list("") == ("stuck",)


def test_a_store_without_deletion_cannot_be_made() -> None:
    class Forgetful(Shelf):
        delete = BlobStore.delete

    with pytest.raises(TypeError, match="delete"):
        Forgetful()
