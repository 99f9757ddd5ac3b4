"""What enumerators begin with: a checkpoint, or the stored decision where a source begins."""

from __future__ import annotations

import queue
from pathlib import Path

import pytest

from tidegate.checkpoint import layout
from tidegate.checkpoint.events import AttemptFailed, Event, SplitsDiscovered
from tidegate.checkpoint.manifest import Interval, Manifest, SourceState
from tidegate.model.errors import CorruptSnapshot, InvalidQuery
from tidegate.model.ids import Attempt, CheckpointId, OperatorId, PipelineId
from tidegate.model.snapshot import Split
from tidegate.ports.source import SplitEnumerator
from tidegate.spark.discovery import Discovery
from tidegate.spark.restored_sources import RestoredSources
from tidegate.storage.local import LocalBlobStore

SOURCE = OperatorId("source-0")
PATIENCE_S = 10


class Log(SplitEnumerator):
    """Its end moves; one split begins where it stood when it was first looked at."""

    bounded = False

    def __init__(self, end: int, asked: str | None = "latest") -> None:
        self.end = end
        self.asked = asked
        self.start: bytes | None = None

    def begin(self, now_ms: int) -> bytes:
        return b"%d" % self.end

    def discover(self, now_ms: int) -> tuple[Split, ...]:
        if self.start is not None:
            return ()
        self.start = b"%d" % self.end
        return (Split(number=0, payload=self.start),)

    def snapshot(self) -> bytes:
        return self.start or b""

    def restore(self, state: bytes, known: tuple[Split, ...]) -> tuple[Split, ...]:
        if state == b"damaged":
            raise CorruptSnapshot("it cannot be read", hint="restore it from a copy")
        self.start = state
        return (Split(number=0, payload=state),)


def taken(*sources: SourceState) -> Manifest:
    return Manifest(
        pipeline=PipelineId("p"), checkpoint=CheckpointId(7), attempt=Attempt(1), max_parallelism=8, sources=sources
    )


def begins(log: Log, store: LocalBlobStore | None, manifest: Manifest | None = None) -> bytes:
    """As the first event of an attempt says."""
    inbox: queue.Queue[Event] = queue.Queue()
    discovery = Discovery(Attempt(1), lambda: {SOURCE: log}, manifest, 3_600_000, inbox.put, store=store)
    event = inbox.get(timeout=PATIENCE_S)
    discovery.stop()
    assert isinstance(event, SplitsDiscovered), event
    (split,) = event.splits
    assert event.state == split.payload
    return split.payload


def test_every_attempt_before_the_first_checkpoint_begins_where_the_first_one_did(tmp_path: Path) -> None:
    store = LocalBlobStore(tmp_path)
    assert [begins(Log(end), store) for end in (10, 15, 99)] == [b"10"] * 3


def test_a_checkpoint_that_knows_the_source_counts_and_the_decision_does_not(tmp_path: Path) -> None:
    store = LocalBlobStore(tmp_path)
    begins(Log(10), store)
    known = SourceState(operator=SOURCE, enumerator=b"12", done=(Interval(0, 1),))
    assert begins(Log(99), store, taken(known)) == b"12"


def test_a_source_that_is_new_in_the_query_begins_where_it_was_when_the_changed_query_first_looked(
    tmp_path: Path,
) -> None:
    store = LocalBlobStore(tmp_path)
    assert [begins(Log(end), store, taken()) for end in (30, 40)] == [b"30"] * 2


def test_what_is_the_same_at_any_time_needs_no_document(tmp_path: Path) -> None:
    store = LocalBlobStore(tmp_path)
    assert begins(Log(10, asked=None), store) == b"10"
    assert store.list("") == ()


@pytest.mark.parametrize("error", [CorruptSnapshot, InvalidQuery])
def test_what_is_wrong_with_a_stored_position_names_the_source_and_the_document(error: type[Exception]) -> None:
    class Refusing(Log):
        def restore(self, state: bytes, known: tuple[Split, ...]) -> tuple[Split, ...]:
            raise error("split 3 lies elsewhere", hint="look there")  # pyright: ignore[reportCallIssue]

    manifest = taken(SourceState(operator=SOURCE, enumerator=b"x"))
    with pytest.raises(error, match="source-0 in checkpoints/000007-000001/manifest: split 3 lies elsewhere") as caught:
        RestoredSources(manifest, None).restore(SOURCE, Refusing(0), 0)
    assert caught.value.hint == "look there"  # pyright: ignore[reportAttributeAccessIssue]


def test_a_decision_that_cannot_be_understood_ends_the_attempt_and_is_named(tmp_path: Path) -> None:
    store = LocalBlobStore(tmp_path)
    RestoredSources(None, store).restore(SOURCE, Log(10), 0)
    (key,) = store.list(layout.BEGIN_PREFIX)

    class Puzzled(Log):
        def restore(self, state: bytes, known: tuple[Split, ...]) -> tuple[Split, ...]:
            return super().restore(b"damaged", known)

    inbox: queue.Queue[Event] = queue.Queue()
    Discovery(Attempt(1), lambda: {SOURCE: Puzzled(11)}, None, 3_600_000, inbox.put, store=store)
    event = inbox.get(timeout=PATIENCE_S)
    assert isinstance(event, AttemptFailed)
    assert f"{SOURCE} in {key}: it cannot be read" in event.failure.message and not event.failure.retryable
