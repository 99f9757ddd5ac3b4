"""What stores do when answers are lost, slow or refused. Over real servers, behind a proxy that makes the trouble."""

from __future__ import annotations

import time

import pytest
from hdfs_native import Client
from tests.integration.stores.conftest import Home
from tests.servers.proxy import http_answer
from tests.servers.s3 import S3Server

from tidegate.api.location import check_store
from tidegate.model.errors import InvalidQuery, Unavailable
from tidegate.ports.store import AlreadyThere, Created
from tidegate.state.encoded import Encoded
from tidegate.storage.errors import Refused
from tidegate.storage.keys import TEMPORARY_PREFIX
from tidegate.storage.open import open_store
from tidegate.storage.options import storage_options
from tidegate.storage.places import HdfsPlace, place_of

SLOW_DOWN = "<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"


def _options(settings: dict[str, str]):
    return storage_options({name.removeprefix("storage."): value for name, value in settings.items()})


def test_a_create_whose_answer_was_lost_is_found_to_be_ours(remote_home: Home) -> None:
    """T3: without the look afterwards it would count as unknown, or, repeated by the client, as somebody else's."""
    store, proxy = remote_home.open(), remote_home.proxy
    assert proxy is not None
    store.create("warm", b"")
    proxy.faults.lose_answer_to = remote_home.create_request
    assert store.create("attempts/000001/claim", b"mine") == Created()
    assert proxy.faults.seen == [remote_home.create_request]
    assert remote_home.open().read("attempts/000001/claim") == b"mine"


def test_a_create_that_the_client_repeats_after_an_error_is_found_to_be_ours(s3_home: Home) -> None:
    """The first put landed, its answer became an error on the way, the second was refused: by nobody but ourselves."""
    store, proxy = s3_home.open(), s3_home.proxy
    assert proxy is not None
    proxy.faults.lost_becomes = http_answer("503 Service Unavailable", "<Error><Code>InternalError</Code></Error>")
    proxy.faults.lose_answer_to = b"PUT /"
    assert store.create("attempts/000001/claim", b"mine") == Created()
    assert proxy.faults.seen == [b"PUT /"]


def test_a_lost_answer_that_the_client_leaves_to_us_is_settled_by_looking(s3_home: Home) -> None:
    store, proxy = (
        open_store(s3_home.location, storage_options({**s3_home.options.values, "retries": "0"})),
        s3_home.proxy,
    )
    assert proxy is not None
    proxy.faults.lose_answer_to = b"PUT /"
    assert store.create("attempts/000001/claim", b"mine") == Created()
    assert proxy.faults.seen == [b"PUT /"]


def test_a_lost_answer_to_a_refused_create_is_still_a_refusal(remote_home: Home) -> None:
    """Also when the other one wrote the very same bytes: what counts is who created it."""
    store, proxy = remote_home.open(), remote_home.proxy
    assert proxy is not None
    remote_home.open().create("committed", b"same")
    proxy.faults.lose_answer_to = remote_home.create_request
    assert store.create("committed", b"same") == AlreadyThere()
    assert proxy.faults.seen == [remote_home.create_request]


def test_a_stalled_store_is_unavailable_in_time_and_goes_on_afterwards(remote_home: Home) -> None:
    store, proxy = remote_home.open_impatient(), remote_home.proxy
    assert proxy is not None
    remote_home.open().create("a", b"1")
    proxy.faults.stalled = True
    began = time.monotonic()
    with pytest.raises(Unavailable):
        store.create("b", b"2")
    assert time.monotonic() - began < 30
    proxy.faults.stalled = False
    store = remote_home.open()
    assert store.read("a") == b"1"
    # Absent proved nothing; made now, or found to be ours from before, it is there.
    store.create("b", b"2")
    assert store.read("b") == b"2"


def test_a_slow_read_is_waited_for_as_long_as_it_moves(s3_home: Home) -> None:
    store, proxy = s3_home.open(), s3_home.proxy
    assert proxy is not None
    data = bytes(1 << 20)
    store.create("a", data)
    proxy.faults.answer_bytes_per_s = 1 << 20
    assert store.read("a") == data


def test_throttling_is_told_in_the_words_of_the_store(s3_home: Home) -> None:
    options = storage_options({**s3_home.options.values, "retries": "1"})
    store, proxy = open_store(s3_home.location, options), s3_home.proxy
    assert proxy is not None
    proxy.faults.answer_instead = (b"PUT /", http_answer("503 Slow Down", SLOW_DOWN))
    proxy.faults.times = 2
    with pytest.raises(Unavailable, match=r"SlowDown: Please reduce your request rate") as raised:
        store.create("a", b"1")
    assert not isinstance(raised.value, Refused)
    assert "fewer requests" in raised.value.hint
    assert store.create("a", b"1") == Created()


def test_a_short_throttling_is_waited_out(s3_home: Home) -> None:
    store, proxy = s3_home.open(), s3_home.proxy
    assert proxy is not None
    proxy.faults.answer_instead = (b"PUT /", http_answer("503 Slow Down", SLOW_DOWN))
    assert store.create("a", b"1") == Created()
    assert len(proxy.faults.seen) == 1


def test_a_conflict_that_left_nothing_is_tried_again_and_never_taken_for_an_object(s3_home: Home) -> None:
    """S3 may answer 409 to every one of several puts at the same moment."""
    store, proxy = s3_home.open(), s3_home.proxy
    assert proxy is not None
    body = "<Error><Code>ConditionalRequestConflict</Code><Message>try again</Message></Error>"
    proxy.faults.answer_instead = (b"PUT /", http_answer("409 Conflict", body))
    proxy.faults.times = 2
    assert store.create("a", b"1") == Created()
    assert len(proxy.faults.seen) == 2
    proxy.faults.times = 1_000
    with pytest.raises(Unavailable, match="nothing is there"):
        store.create("b", b"1")


def test_an_upload_in_parts_survives_a_lost_answer_to_its_last_step(s3_home: Home) -> None:
    store, proxy = s3_home.open(), s3_home.proxy
    assert proxy is not None
    proxy.faults.lose_answer_to = b"uploadId="
    data = bytes(20 << 20)
    store.put_own("state/op/large", Encoded.of(data))  # type: ignore[attr-defined]
    assert proxy.faults.seen
    assert store.read("state/op/large") == data


def test_a_revoked_key_is_refused_in_words_and_works_again_once_it_is_back(s3: S3Server, bucket: str) -> None:
    key = s3.access_key()
    store = open_store(f"s3://{bucket}/revoked", _options(s3.options_for(key)))
    with s3.check_keys():
        assert store.create("a", b"1") == Created()
        s3.revoke(key)
        for call in (lambda: store.create("b", b"2"), lambda: store.read("a"), lambda: store.list("")):
            with pytest.raises(Refused, match="InvalidAccessKeyId") as raised:
                call()
            assert key.secret not in str(raised.value)
            assert "renew" in raised.value.hint
        with pytest.raises(InvalidQuery, match="InvalidAccessKeyId"):
            check_store(store, "here")
    assert store.read("a") == b"1"


def test_a_store_that_knows_no_request_for_many_objects_deletes_them_one_by_one(s3_home: Home) -> None:
    store, proxy = s3_home.open(), s3_home.proxy
    assert proxy is not None and store.deletes_together
    for key in ("a", "b", "c"):
        store.create(key, b"1")
    proxy.faults.answer_instead, proxy.faults.times = (b"?delete", http_answer("501 Not Implemented", "")), 100
    assert store.delete_many(("a", "b", "c")) == {}
    assert store.list("") == ()
    asked = len(proxy.faults.seen)
    assert store.delete_many(("a", "b", "c")) == {}
    assert len(proxy.faults.seen) == asked > 0, "it is not asked again"


def test_keys_that_cannot_be_deleted_are_named_with_the_reason(s3: S3Server, bucket: str) -> None:
    key = s3.access_key()
    store = open_store(
        f"s3://{bucket}/undeletable", storage_options({**_options(s3.options_for(key)).values, "retries": "0"})
    )
    assert store.deletes_together
    for name in ("a", "b"):
        store.create(name, b"1")
    with s3.check_keys():
        s3.revoke(key)
        problems = store.delete_many(("a", "b"))
    assert sorted(problems) == ["a", "b"] and all("InvalidAccessKeyId" in why for why in problems.values())
    assert store.list("") == ("a", "b")


def test_a_missing_bucket_is_never_an_empty_location(s3: S3Server) -> None:
    store = open_store("s3://no-such-bucket/q", _options(s3.options))
    for call in (
        lambda: store.read("a"),
        lambda: store.list(""),
        lambda: store.create("a", b""),
        lambda: store.delete("a"),
    ):
        with pytest.raises(Refused, match="NoSuchBucket") as raised:
            call()
        assert "make the bucket" in raised.value.hint
    with pytest.raises(InvalidQuery, match="NoSuchBucket"):
        check_store(store, "here")


def test_a_vanished_directory_of_hdfs_is_never_an_empty_location(hdfs_home: Home) -> None:
    store = hdfs_home.open(make=False)
    for call in (lambda: store.read("a"), lambda: store.list("")):
        with pytest.raises(Unavailable, match="no such directory"):
            call()


def test_nobody_at_the_address_is_unavailable_soon(s3_home: Home, hdfs_home: Home) -> None:
    for home in (s3_home, hdfs_home):
        store, proxy = home.open_impatient(), home.proxy
        assert proxy is not None
        proxy.close()
        began = time.monotonic()
        with pytest.raises(Unavailable, match="cannot write"):
            store.create("a", b"1")
        assert time.monotonic() - began < 20


def test_a_file_whose_last_step_failed_or_never_came_is_seen_by_nobody(hdfs_home: Home) -> None:
    """T11: the rename alone makes a file appear. One who failed cleans up, one who was killed cannot."""
    store, proxy = hdfs_home.open(), hdfs_home.proxy
    assert proxy is not None
    proxy.faults.answer_instead, proxy.faults.times = (b"rename2", b""), 1_000
    with pytest.raises(Unavailable, match="cannot write"):
        store.create("checkpoints/000001-000001/manifest", b"whole")
    proxy.faults.times = 0
    place = place_of(hdfs_home.location)
    assert isinstance(place, HdfsPlace)
    client = Client(f"hdfs://{place.authority}")
    folder = f"{place.path}/checkpoints/000001-000001"
    assert not list(client.list_status(folder)), "the temporary file of the failed one is gone"
    with client.create(f"{folder}/{TEMPORARY_PREFIX}0123-manifest") as file:
        file.write(b"wh")
    assert store.list("") == () and store.read("checkpoints/000001-000001/manifest") is None
    assert store.create("checkpoints/000001-000001/manifest", b"other") == Created()
    assert store.list("") == ("checkpoints/000001-000001/manifest",)
