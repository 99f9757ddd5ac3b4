"""Files of a table: what a person is told when they cannot be written, and what is left behind."""

from __future__ import annotations

import errno
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest
from pyarrow import fs

from tidegate.connectors.lake.notes import FileNames, SinkName, StagingNotes, file_name
from tidegate.connectors.lake.storage import TableStorage, failed, in_short
from tidegate.connectors.lake.writer import DataFileLayout, TableWriter
from tidegate.model import types as t
from tidegate.model.errors import InvalidQuery, Unavailable
from tidegate.model.ids import Attempt, CheckpointId, SlotIndex
from tidegate.model.types import Field

NAME = SinkName("p1", "sink-0")


class Flat:
    """No partitions; every file at the same place."""

    def __init__(self, place: str) -> None:
        self.place = place

    def divided(self, rows: pl.DataFrame) -> list[tuple[None, pl.DataFrame]]:
        return [(None, rows)]

    def location(self, partition: object, name: str) -> str:
        return self.place

    def document(self, files: object) -> bytes:
        return b"document"


def local(root: Path) -> TableStorage:
    return TableStorage(
        lambda location: (fs.LocalFileSystem(), location if location[0] == "/" else f"{root}/{location}")
    )


def test_a_full_disk_is_said_and_the_query_may_go_on_later(tmp_path: Path) -> None:
    storage = local(tmp_path)
    with pytest.raises(Unavailable, match="No space left on device") as raised:
        storage.put("/dev/full", b"x" * 100_000)
    assert "free some space" in raised.value.hint
    layout = DataFileLayout((Field("n", t.LONG),), pa.schema([("n", pa.int64())]))
    names = FileNames(NAME, Attempt(1), SlotIndex(0), "parquet")
    writer = TableWriter(layout, Flat("/dev/full"), storage, StagingNotes(storage, "", NAME), names)
    writer.write(pl.DataFrame({"n": range(100_000)}))
    with pytest.raises(Unavailable, match="cannot write /dev/full: No space left"):
        writer.prepare(CheckpointId(1))


def test_errors_say_what_a_person_can_do() -> None:
    assert isinstance(failed(OSError(errno.EACCES, "Permission denied"), "write", "/t"), InvalidQuery)
    unknown = failed(ValueError("AWS Error ACCESS_DENIED\nrequest id 7"), "write", "s3://b/t")
    assert isinstance(unknown, Unavailable) and "credentials" in unknown.hint
    assert unknown.message == "cannot write s3://b/t: ValueError: AWS Error ACCESS_DENIED request id 7"
    assert failed(unknown, "list", "elsewhere") is unknown
    tree = "Kernel error\n   \x1b[31m↳\x1b[0m tcp connect error\n     \x1b[31m↳\x1b[0m Connection refused\n"
    assert in_short(OSError(tree)) == "Kernel error: tcp connect error: Connection refused"


def test_notes_are_found_by_attempt_and_nothing_else_is(tmp_path: Path) -> None:
    storage = local(tmp_path)
    notes = StagingNotes(storage, "", NAME)
    assert notes.older_than(Attempt(9), frozenset()) == {}
    names = [FileNames(NAME, Attempt(attempt), SlotIndex(0), "parquet") for attempt in (1, 2, 3)]
    written = {}
    for one in names:
        note, name = one.take()
        notes.write(note, f"data/{name}")
        written[note] = f"data/{name}"
    storage.put("_tidegate/staged/p1/sink-0/README", b"somebody else's")
    old, middle, _ = written
    assert notes.older_than(Attempt(3), frozenset()) == {note: written[note] for note in (old, middle)}
    assert notes.older_than(Attempt(3), frozenset([old])) == {middle: written[middle]}
    notes.remove((old, middle))
    notes.remove((old, middle))
    assert notes.older_than(Attempt(3), frozenset()) == {}


def test_two_writers_of_one_attempt_never_share_a_name() -> None:
    """Not even when one is a second copy of the other."""
    names = [FileNames(NAME, Attempt(1), SlotIndex(0), "parquet") for _ in range(2)]
    taken = [one.take()[1] for one in names for _ in range(3)]
    assert len(set(taken)) == 6 and file_name(f"s3://b/t/k=1/{taken[0]}") == taken[0]
