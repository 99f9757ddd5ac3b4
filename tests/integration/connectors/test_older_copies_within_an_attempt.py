"""A checkpoint location that was set back to an earlier checkpoint of the attempt that wrote it. Only attempt and checkpoint together tell."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.e2e.scenario import while_active
from tests.integration.connectors.remembering_targets import Kafka, Query, copy, newest
from tests.integration.connectors.test_older_copies import FALL_BACK, TARGETS, assert_rows, made, refusal
from tests.servers.kafka import Broker

from tidegate.api.query import StreamingQuery
from tidegate.checkpoint import layout
from tidegate.connectors.kafka.client.groups import Groups
from tidegate.connectors.kafka.client.transactions import Handle, Transactions
from tidegate.connectors.kafka.sink.publication_note import decode
from tidegate.model.errors import CorruptSnapshot

pytestmark = pytest.mark.spark


@pytest.fixture(params=TARGETS)
def query(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> Query:
    return Query(spark, tmp_path, made(request.param, request, tmp_path))


@contextmanager
def running(query: Query) -> Iterator[StreamingQuery]:
    """One attempt."""
    started = query.endless().start()
    try:
        yield started
    finally:
        started.stop()


def publish(query: Query, started: StreamingQuery, *ids: int) -> None:
    """In one checkpoint or more of the running attempt; returns when the location says that the newest one is committed."""
    query.add(*ids)
    started.processAllAvailable()
    marked = lambda: (query.location / layout.committed_key(newest(query.location))).exists()  # noqa: E731
    while_active(started, marked, "the marker of the newest checkpoint")


def test_a_location_from_an_older_copy_of_its_own_attempt_is_refused_and_falls_back_without_a_gap(
    query: Query, tmp_path: Path
) -> None:
    """T74: the same attempt, so its number tells nothing. Nothing is written before the refusal, and none of the rows is lost afterwards."""
    with running(query) as started:
        publish(query, started, 1, 2)
        publish(query, started, 3)
        old = copy(query.location, tmp_path / "old")
        left = newest(old)
        publish(query, started, 4)
        publish(query, started, 5)
    ahead = newest(query.location)
    assert ahead.attempt == left.attempt and ahead.checkpoint > left.checkpoint
    copy(old, query.location)

    query.add(6)
    said = refusal(query)
    assert "manifest is missing" in said and str(left) in said, said
    query.run(**FALL_BACK)
    assert_rows(query, [1, 2, 3, 6], twice=[4, 5])
    assert newest(query.location).checkpoint > ahead.checkpoint, "no number is given out again"
    query.run(7)
    assert_rows(query, [1, 2, 3, 6, 7], twice=[4, 5])


def test_an_attempt_goes_on_from_its_own_newest_checkpoint(query: Query) -> None:
    with running(query) as started:
        publish(query, started, 1)
        publish(query, started, 2)
    query.run(3)
    query.run()
    assert_rows(query, [1, 2, 3])


def test_a_query_that_ended_between_the_note_and_the_commit_goes_on(
    spark: SparkSession, tmp_path: Path, kafka: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """T74: brokers know a checkpoint whose manifest is there and whose marker is not."""
    query = Query(spark, tmp_path, Kafka(kafka, kafka.topic()))
    query.run(1)

    def dies(_: Transactions, handles: Sequence[Handle], **__: object) -> dict[Handle, int]:
        if handles:
            raise CorruptSnapshot("killed")
        return {}

    with monkeypatch.context() as patched, pytest.raises(CorruptSnapshot, match="killed"):
        patched.setattr(Transactions, "end_all", dies)
        query.run(2)
    ahead = newest(query.location)
    assert not (query.location / layout.committed_key(ahead)).exists()
    with closing(Groups({"bootstrap.servers": kafka.bootstrap})) as groups:
        (note,) = map(decode, groups.read(group_of(query)).values())
    assert (note.checkpoint, note.attempt) == (ahead.checkpoint, ahead.attempt)
    assert_rows(query, [1])
    query.run(3)
    assert_rows(query, [1, 2, 3])


def test_brokers_from_a_backup_are_said_and_nothing_is_skipped(
    spark: SparkSession, tmp_path: Path, kafka: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    """The target is behind: its note is that of an earlier checkpoint."""
    query = Query(spark, tmp_path, Kafka(kafka, kafka.topic()))
    with closing(Groups({"bootstrap.servers": kafka.bootstrap})) as groups:
        with running(query) as started:
            publish(query, started, 1)
            before, group = newest(query.location), group_of(query)
            backup = groups.read(group)
            publish(query, started, 2)
        had = newest(query.location)
        for partition, text in backup.items():
            groups.write(group, partition, text)
    with caplog.at_level(logging.WARNING, "tidegate"):
        query.run(3)
    (warning,) = {one.getMessage() for one in caplog.records if "older copy" in one.getMessage()}
    assert f"checkpoint {before}" in warning and f"checkpoint {had}" in warning
    assert_rows(query, [1, 2, 3])


def group_of(query: Query) -> str:
    pipeline = json.loads((query.location / layout.PIPELINE_KEY).read_bytes())["pipeline"]
    return f"tidegate/{pipeline}/sink-kafka"
