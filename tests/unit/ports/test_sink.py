"""A sink that can do no more than it must."""

from __future__ import annotations

import polars as pl
import pytest

from tidegate.model.batch_ids import BatchIds
from tidegate.model.ids import Attempt, BatchId, CheckpointId, OperatorId
from tidegate.model.snapshot import Committable
from tidegate.ports.sink import SinkCommitter, SinkWriter


class Shouting(SinkWriter):
    def write(self, rows: pl.DataFrame) -> None:
        return None

    def prepare(self, checkpoint: CheckpointId) -> tuple[bytes, ...]:
        return ()


def test_what_a_writer_has_prepared_is_durable_at_once_and_its_commit_is_no_news() -> None:
    writer = Shouting()
    writer.settle(CheckpointId(1))
    writer.on_committed(CheckpointId(1))
    writer.close()


def test_a_writer_that_cannot_prepare_cannot_be_made() -> None:
    class Hasty(Shouting):
        prepare = SinkWriter.prepare

    with pytest.raises(TypeError, match="prepare"):
        Hasty()


class Echo(SinkCommitter):
    def __init__(self) -> None:
        self.heard: list[Committable] = []

    def commit(self, committables: tuple[Committable, ...]) -> None:
        self.heard += committables

    def sweep(self, older_than: Attempt, keep: tuple[Committable, ...]) -> None:
        return None


def test_a_target_that_cannot_tell_what_was_published_says_nothing() -> None:
    assert Echo().published() is None and Echo().forgets


def test_a_committer_without_batches_hears_their_numbers_in_vain() -> None:
    Echo().number_batches(BatchIds(OperatorId("sink"), BatchId(0), ()))


def test_a_committer_that_cleans_nothing_up_has_to_say_so() -> None:
    class Messy(Echo):
        sweep = SinkCommitter.sweep

    with pytest.raises(TypeError, match="sweep"):
        Messy()
