"""A source that can do no more than it must."""

from __future__ import annotations

import polars as pl
import pytest

from tidegate.model.snapshot import Split, SplitPosition
from tidegate.ports.source import SourceConnector, SplitEnumerator, SplitReader


class File(SplitReader):
    position, finished = b"", False

    def read(self, rows_max: int, now_ms: int) -> pl.DataFrame | None:
        return None

    def describe(self) -> str:
        return "a file"


class Files(SourceConnector):
    def open(self, split: Split, position: bytes | None) -> SplitReader:
        return File()


def test_a_reader_that_fetches_nothing_ahead_has_read_what_is_there() -> None:
    reader = File()
    reader.look()
    assert reader.caught_up and not reader.awaits_rows
    reader.close()


def test_that_nothing_came_from_a_reader_that_counts_no_answers_is_one() -> None:
    assert File().empty_answers is None


def test_a_source_that_nobody_else_watches_keeps_what_it_hears_to_itself() -> None:
    source = Files()
    source.completed((SplitPosition(split=Split(number=0, payload=b""), position=None),))
    source.close()


def test_a_reader_without_a_position_cannot_be_made() -> None:
    class Lost(File):
        position = SplitReader.position

    with pytest.raises(TypeError, match="position"):
        Lost()


class Folder(SplitEnumerator):
    bounded = True

    def discover(self, now_ms: int) -> tuple[Split, ...]:
        return (Split(number=0, payload=b""),)

    def snapshot(self) -> bytes:
        return b"all"

    def restore(self, state: bytes, known: tuple[Split, ...]) -> tuple[Split, ...]:
        return known


def test_splits_are_whole_and_dealt_out_one_after_the_other_unless_a_source_says_otherwise() -> None:
    folder = Folder()
    assert not folder.endless and not folder.ordered


def test_a_source_begins_at_the_same_place_at_any_time_unless_it_says_what_was_asked_for() -> None:
    folder = Folder()
    assert folder.asked is None
    with pytest.raises(NotImplementedError, match="Folder begins"):
        folder.begin(0)


def test_an_enumerator_may_remember_everything_and_care_for_nothing() -> None:
    folder = Folder()
    folder.check()
    folder.learn_done(lambda number: True)
    folder.forget(7)
    folder.close()
    assert not folder.holds, "nobody waits for it to be closed"
    assert folder.snapshot() == b"all"
