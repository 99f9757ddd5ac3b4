"""Where a source begins: decided by whoever comes first, the same for everybody who starts from the same checkpoint."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.unit.checkpoint.scenario import PLAN, SOURCE

from tidegate.checkpoint import layout
from tidegate.checkpoint.beginning import Beginning, decided, is_decided
from tidegate.checkpoint.layout import ManifestRef
from tidegate.checkpoint.manifest import Manifest, SourceState, encode
from tidegate.model.errors import CorruptSnapshot
from tidegate.model.ids import Attempt, CheckpointId, OperatorId
from tidegate.model.snapshot import Split, SplitPosition
from tidegate.ports.store import CreateOutcome
from tidegate.storage.local import LocalBlobStore


def taken(checkpoint: int, attempt: int = 1, *sources: SourceState) -> Manifest:
    return Manifest(
        pipeline=PLAN.pipeline,
        checkpoint=CheckpointId(checkpoint),
        attempt=Attempt(attempt),
        max_parallelism=128,
        sources=sources,
    )


def once(answer: bytes) -> Callable[[], bytes]:
    return lambda: answer


def never() -> bytes:
    raise AssertionError("it was decided already")


def where(
    store: LocalBlobStore, manifest: Manifest | None, decide: Callable[[], bytes], asked: str = "latest"
) -> bytes:
    return decided(store, SOURCE, manifest, asked, decide)[1].enumerator


def test_the_first_decision_counts_for_every_start_from_the_same_checkpoint(tmp_path: Path) -> None:
    store = LocalBlobStore(tmp_path)
    for base in (None, taken(7), taken(7, 2)):
        answer = b"%d" % (0 if base is None else 10 * base.checkpoint + base.attempt)
        assert where(store, base, once(answer)) == answer
        assert where(store, base, never) == answer


def test_of_two_drivers_at_once_both_begin_where_the_first_one_says(tmp_path: Path) -> None:
    store = LocalBlobStore(tmp_path)

    def overtaken() -> bytes:
        assert where(store, None, once(b"the other one")) == b"the other one"
        return b"mine"

    assert where(store, None, overtaken) == b"the other one"
    assert len(store.list(layout.BEGIN_PREFIX)) == 1


def test_an_answer_that_got_lost_is_looked_up_and_not_decided_again(tmp_path: Path) -> None:
    class Mute(LocalBlobStore):
        def create(self, key: str, data: bytes) -> CreateOutcome:
            super().create(key, data)
            raise ConnectionError

    with pytest.raises(ConnectionError):
        where(Mute(tmp_path), None, once(b"first"))
    assert where(LocalBlobStore(tmp_path), None, never) == b"first"


def test_other_options_are_another_question(tmp_path: Path) -> None:
    store = LocalBlobStore(tmp_path)
    assert where(store, None, once(b"9"), "latest") == b"9"
    assert where(store, None, once(b"3"), "offsets 3") == b"3"
    assert where(store, None, never, "latest") == b"9"


def test_a_checkpoint_taken_before_the_first_look_does_not_move_the_beginning(tmp_path: Path) -> None:
    """The decision of the attempt that took it counts: what came in between is read."""
    store = LocalBlobStore(tmp_path)
    assert where(store, None, once(b"9")) == b"9"
    unread = taken(1, 1, SourceState(operator=SOURCE))
    assert where(store, unread, never) == b"9"
    assert where(store, taken(1), once(b"12")) == b"12", "a source that is new in the query begins now"
    assert where(store, taken(5, 1, SourceState(operator=SOURCE)), never) == b"12", "the newest one before it"


def test_a_checkpoint_says_where_a_source_is_as_soon_as_it_has_been_looked_into() -> None:
    split = SplitPosition(split=Split(number=0, payload=b""), position=None)
    assert not is_decided(None)
    assert not is_decided(SourceState(operator=SOURCE))
    assert is_decided(SourceState(operator=SOURCE, enumerator=b"known"))
    assert is_decided(SourceState(operator=SOURCE, open=(split,)))


def test_a_damaged_or_misplaced_decision_is_named(tmp_path: Path) -> None:
    store = LocalBlobStore(tmp_path)
    key, beginning = decided(store, SOURCE, None, "latest", once(b"9"))
    document = tmp_path / key
    whole = document.read_bytes()
    document.chmod(0o644)
    document.write_bytes(whole[:-1] + b"x")
    with pytest.raises(CorruptSnapshot, match=f"{key} is damaged"):
        where(store, None, never)
    document.write_bytes(encode(Beginning(source=OperatorId("source-other"), enumerator=beginning.enumerator)))
    with pytest.raises(CorruptSnapshot, match="says where source-other begins"):
        where(store, None, never)


def test_decisions_are_nothing_that_recovery_or_retention_looks_at() -> None:
    """Whatever is not recognised is never read and never deleted, by earlier versions neither."""
    base = ManifestRef(CheckpointId(42), Attempt(7))
    key = layout.begin_key(SOURCE, base, "0badcafe")
    assert key == "begin/source-0/000042-000007-0badcafe"
    assert layout.parse(key) is None
    assert layout.begin_base(key, "0badcafe") == base
    assert layout.begin_base(key, "00000000") is None
    assert layout.begin_base(layout.manifest_key(base), "0badcafe") is None
