"""What the driver notes in the cluster before it commits, what is read there, and what becomes of a note that cannot be kept or read."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from tests.integration.connectors.kafka_sink_kit import sink_node

from tidegate.connectors.kafka.client.transactions import Ends
from tidegate.connectors.kafka.protocol.codec import MalformedAnswer, array, int16, int32, int64, string, varint
from tidegate.connectors.kafka.protocol.errors import Code, Refused
from tidegate.connectors.kafka.protocol.groups import GroupTexts, commit_text, fetch_texts
from tidegate.connectors.kafka.protocol.metadata import Partition
from tidegate.connectors.kafka.protocol.transactions import Handle
from tidegate.connectors.kafka.sink.committer import KafkaCommitter
from tidegate.connectors.kafka.sink.names import TransactionNames, encode
from tidegate.connectors.kafka.sink.publication_note import CHARACTERS_MAX, UnreadableNote
from tidegate.connectors.kafka.sink.publication_note import decode as note_of
from tidegate.connectors.kafka.sink.publication_note import encode as text_of
from tidegate.connectors.kafka.sink.publication_notes import PublicationNotes
from tidegate.connectors.kafka.sink_config import parse_sink
from tidegate.model.errors import Unavailable
from tidegate.model.ids import Attempt, CheckpointId, SlotIndex
from tidegate.model.snapshot import Committable, Published

GROUP = "tidegate/pipeline-1/sink"
GOLDEN = '{"type":"kafka-note/1","attempt":3,"checkpoint":42}'
"""As it was written when notes were new."""


@dataclass
class Cluster:
    """The brokers: what they were asked for, in order, and what they answer."""

    texts: dict[Partition, str] = field(default_factory=dict)
    refuses: Code | None = None
    answers: bool = True
    asked: list[str] = field(default_factory=list)
    written_to: Mapping[str, Sequence[Partition]] = field(default_factory=dict)
    ids: tuple[str, ...] = ()

    def check_versions(self) -> None: ...

    def write(self, group: str, partition: Partition, text: str) -> None:
        self._answer(group)
        self.asked.append(f"note {note_of(text)}")
        self.texts[partition] = text

    def read(self, group: str) -> Mapping[Partition, str]:
        self._answer(group)
        return self.texts

    def end_all(self, handles: Sequence[Handle], *, commit: bool) -> Ends:
        assert commit
        self.asked.append(f"end {len(handles)}")
        return Ends({})

    def known_ids(self, prefix: str) -> tuple[str, ...]:
        return self.ids

    def describe(self, transactional_id: str) -> Any:
        return SimpleNamespace(partitions=self.written_to.get(transactional_id, ()))

    def _answer(self, group: str) -> None:
        assert group == GROUP
        if not self.answers:
            raise Unavailable("nobody answers")
        if self.refuses is not None:
            raise Refused(self.refuses, f"consumer group {group}")


class Driver:
    """A committer of a driver that has just been started."""

    def __init__(self, cluster: Cluster, topic: str | None = "rows") -> None:
        node = sink_node("nobody:1", "rows") if topic else _with_topics()
        config = parse_sink(node)
        self.names = TransactionNames.of(node, config.id_prefix)
        self.committer = KafkaCommitter(config, self.names)
        self.committer._wire = cluster  # type: ignore[assignment]
        self.committer._notes = PublicationNotes(cluster, self.names.group)

    def prepared(self, attempt: int, checkpoint: int, k: int = 0) -> Committable:
        handle = Handle(self.names.name(Attempt(attempt), SlotIndex(0), k), 1000 + k, 0)
        return Committable(checkpoint=CheckpointId(checkpoint), subtask=SlotIndex(0), number=k, payload=encode(handle))


def _with_topics() -> Any:
    from tidegate.model.types import STRING, Field

    return sink_node("nobody:1", None, schema=(Field("value", STRING), Field("topic", STRING)))


def published(attempt: int, checkpoint: int) -> Published:
    return Published(Attempt(attempt), CheckpointId(checkpoint))


def test_the_newest_checkpoint_is_noted_before_any_transaction_is_committed() -> None:
    """T74: nothing is visible that no note names, whenever the driver dies; and a commit that is repeated costs no request."""
    cluster = Cluster()
    driver = Driver(cluster)
    first = driver.prepared(2, 7, k=0)
    driver.committer.commit((first,))
    driver.committer.commit((driver.prepared(2, 8, k=2), first, driver.prepared(2, 8, k=1)))
    assert cluster.asked == [
        f"note {published(2, 7)}",
        "end 1",
        f"note {published(2, 8)}",
        "end 2",
    ]
    driver.committer.commit((first,))
    driver.committer.commit(())
    assert [one for one in cluster.asked if one.startswith("note")] == [f"note {published(2, n)}" for n in (7, 8)]
    assert Driver(cluster).committer.published() == published(2, 8)


def test_a_note_never_goes_back() -> None:
    """A driver that is late, or restores an older checkpoint, says nothing that is not known already."""
    cluster = Cluster()
    Driver(cluster).committer.commit((Driver(cluster).prepared(2, 8),))
    late = Driver(cluster)
    assert late.committer.published() == published(2, 8)
    late.committer.commit((late.prepared(1, 9),))
    assert Driver(cluster).committer.published() == published(2, 8)
    late.committer.commit((late.prepared(3, 9),))
    assert Driver(cluster).committer.published() == published(3, 9)


def test_an_attempt_that_has_begun_transactions_is_newer_than_the_note_of_an_older_one() -> None:
    cluster = Cluster(texts={("rows", 0): GOLDEN})
    driver = Driver(cluster)
    cluster.ids = (driver.names.probe, driver.names.name(Attempt(3), SlotIndex(0), 0))
    assert driver.committer.published() == published(3, 42)
    cluster.ids += (driver.names.name(Attempt(4), SlotIndex(0), 0),)
    assert driver.committer.published() == published(4, 0)


def test_where_nobody_may_note_anything_the_query_goes_on_and_it_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    cluster = Cluster(refuses=Code.GROUP_AUTHORIZATION_FAILED)
    driver = Driver(cluster)
    cluster.ids = (driver.names.name(Attempt(2), SlotIndex(0), 0),)
    with caplog.at_level(logging.WARNING, "tidegate"):
        assert driver.committer.published() == published(2, 0), "as far as transactional ids tell"
        for checkpoint in (1, 2, 3):
            driver.committer.commit((driver.prepared(2, checkpoint, k=checkpoint),))
    assert cluster.asked == ["end 1"] * 3
    (said,) = [one.getMessage() for one in caplog.records]
    assert "GROUP_AUTHORIZATION_FAILED" in said and GROUP in said and "right Read" in said
    cluster.refuses = None
    driver.committer.commit((driver.prepared(2, 4, k=4),))
    assert driver.committer.published() == published(2, 4), "the rights came later"


def test_where_nobody_answers_nothing_is_committed_without_its_note() -> None:
    cluster = Cluster(answers=False)
    driver = Driver(cluster)
    with pytest.raises(Unavailable):
        driver.committer.commit((driver.prepared(2, 7),))
    assert cluster.asked == []
    with pytest.raises(Unavailable):
        driver.committer.published()


def test_a_sink_into_many_topics_notes_where_it_has_written_to() -> None:
    """Brokers keep a note only beside a partition that exists."""
    cluster = Cluster()
    driver = Driver(cluster, topic=None)
    ended, open_one = driver.prepared(2, 7, k=0), driver.prepared(2, 7, k=1)
    driver.committer.commit((ended,))
    assert cluster.asked == ["end 1"], "it was committed already: it was noted then"
    cluster.written_to = {driver.names.name(Attempt(2), SlotIndex(0), 1): (("b", 3), ("c", 0))}
    driver.committer.commit((ended, open_one))
    driver.committer.commit((driver.prepared(2, 8, k=2),))
    assert {at: note_of(text) for at, text in cluster.texts.items()} == {("b", 3): published(2, 8)}


def test_a_note_is_what_it_was() -> None:
    """T79"""
    assert text_of(published(3, 42)) == GOLDEN and note_of(GOLDEN) == published(3, 42)
    assert note_of(GOLDEN[:-1] + ',"later":["field"]}') == published(3, 42)


HOSTILE = (
    "\x80\x04cos\nsystem\n",
    "[" * 200,
    "null",
    '{"attempt":3,"checkpoint":42}',
    GOLDEN.replace("note/1", "note/2"),
    GOLDEN.replace("42", "0"),
    GOLDEN.replace("42", "-1"),
    GOLDEN.replace("42", "4.5"),
    GOLDEN.replace("42", '"42"'),
    GOLDEN.replace("42", "true"),
    GOLDEN.replace("42", str((1 << 40) + 1)),
    GOLDEN.replace("42", "9" * 100),
    GOLDEN.replace("3", "0"),
    GOLDEN + GOLDEN,
    GOLDEN + " " * CHARACTERS_MAX,
    "\ud800",
)


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_what_is_no_note_is_named_and_passed_over(text: str, caplog: pytest.LogCaptureFixture) -> None:
    """T82: whoever may commit offsets in the group can write anything there."""
    with pytest.raises(UnreadableNote):
        note_of(text)
    cluster = Cluster(texts={("rows", 5): text})
    driver = Driver(cluster)
    with caplog.at_level(logging.WARNING, "tidegate"):
        assert driver.committer.published() is None
    (said,) = [one.getMessage() for one in caplog.records]
    assert GROUP in said and "partition 5 of rows" in said and len(said) < 1_000
    driver.committer.commit((driver.prepared(1, 1),))
    cluster.texts |= {("rows", 5): text}
    assert Driver(cluster).committer.published() == published(1, 1), "other notes count"


def test_requests_of_notes_are_the_protocols() -> None:
    """Byte for byte by the protocol's own tables: OffsetCommit 8 and OffsetFetch 6."""
    tags = b"\x00"
    offset = int32(3) + int64(0) + int32(-1) + string("note") + tags
    wanted = string("g") + int32(-1) + string("") + b"\x00" + array((string("t") + array((offset,)) + tags,))
    asked = commit_text("g", ("t", 3), "note")
    assert (asked.api_key, asked.version, asked.body) == (8, 8, wanted)
    assert (fetch_texts("g").api_key, fetch_texts("g").version, fetch_texts("g").body) == (9, 6, string("g") + b"\x00")

    head = int32(7) + tags + int32(0)
    committed = head + array((string("t") + array((int32(3) + int16(30) + tags,)) + tags,)) + tags
    assert asked.decode(committed) == (7, 30)
    one = int32(3) + int64(0) + int32(-1) + string("note") + int16(0) + tags
    none = int32(4) + int64(9) + int32(-1) + varint(0) + int16(0) + tags
    fetched = head + array((string("t") + array((one, none)) + tags,)) + int16(0) + tags
    texts, errors = {("t", 3): "note", ("t", 4): ""}, {("t", 3): 0, ("t", 4): 0}
    assert fetch_texts("g").decode(fetched) == (7, GroupTexts(0, texts, errors))
    for answer, request in ((committed, asked), (fetched, fetch_texts("g"))):
        for cut in range(len(answer) - 1):
            with pytest.raises(MalformedAnswer):
                request.decode(answer[:cut])
