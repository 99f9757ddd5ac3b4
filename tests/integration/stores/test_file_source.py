"""Source files in an object store or in HDFS, over real servers: found, brought here and read once, whatever happens to them."""

from __future__ import annotations

import gzip
import logging
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import polars as pl
import pytest
from tests.e2e.scenario import wait_until
from tests.integration.stores.conftest import Home
from tests.integration.stores.file_output import Output
from tests.nodes import ByNode
from tests.servers.buckets import bucket_server
from tests.servers.s3 import S3Server
from tests.unit.connectors.reading import file_scan
from tests.unit.connectors.test_file_metadata import WHOLE

from tidegate.checkpoint.cohorts import Cohorts
from tidegate.checkpoint.events import Event, SplitsDiscovered
from tidegate.connectors.files import format as files
from tidegate.connectors.files.discovery import FOOTERS_WORTH_READING, FileEnumerator
from tidegate.connectors.files.splits import decode_split
from tidegate.connectors.legacy import Scan
from tidegate.model.config import QueryConfig
from tidegate.model.elements import WATERMARK_MIN_US
from tidegate.model.errors import Bug, DataError, InvalidQuery, Unavailable
from tidegate.model.ids import Attempt
from tidegate.model.snapshot import FinishedSplit, Split
from tidegate.model.types import LONG, STRING, TIMESTAMP, Field, Schema
from tidegate.ports.directory import RemoteDirectory
from tidegate.ports.source import SplitEnumerator, SplitReader
from tidegate.spark.discovery import Discovery
from tidegate.storage.object_store import PART_BYTES
from tidegate.storage.options import storage_options
from tidegate.storage.output_directory import open_directory

LINES = (Field("value", STRING),)


class Input:
    """A directory of a store, written to as people do it, and read by a source."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self.url = home.location
        self.directory: RemoteDirectory = open_directory(self.url, home.options)
        self.directory.make()
        self.connectors = ByNode(None, partial(open_directory, options=home.options))

    def write(self, name: str, data: bytes | str | pl.DataFrame) -> None:
        self.directory.delete(name)
        draft = self.directory.draft(name)
        match data:
            case pl.DataFrame():
                data.write_parquet(draft.file)
            case str():
                draft.file.write(data.encode())
            case _:
                draft.file.write(data)
        draft.keep()

    def scan(self, form: str = "text", schema: Schema = LINES, below: str = "", **options: Any) -> Scan:
        return file_scan(form, self.url + below, schema, **options)

    def enumerator(self, scan: Scan) -> FileEnumerator:
        found = self.connectors.enumerator(scan, QueryConfig())
        assert isinstance(found, FileEnumerator)
        return found

    def names(self, below: str = "", **options: Any) -> list[str]:
        """Of the files that a source finds, in the order in which it reads them."""
        return [self.name(split) for split in self.enumerator(self.scan(below=below, **options)).discover(0)]

    def name(self, split: Split) -> str:
        path = decode_split(split.payload).path
        assert path.startswith(self.url + "/")
        return path.removeprefix(self.url + "/")

    def open(self, scan: Scan, split: Split, position: bytes | None = None) -> SplitReader:
        return self.connectors.source(scan).open(split, position)

    def rows(self, scan: Scan) -> list[tuple[Any, ...]]:
        splits = self.enumerator(scan).discover(0)
        return [row for split in splits for row in all_rows(self.open(scan, split))]


@pytest.fixture
def source(remote_home: Home) -> Input:
    return Input(remote_home)


@pytest.fixture(autouse=True)
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where copies lie; nothing is left of them after a test."""
    directory = tmp_path / "scratch"
    directory.mkdir()
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(directory))
    yield directory
    wait_until(lambda: not list(directory.iterdir()), "an empty scratch directory")


def arrived(reader: SplitReader, rows_max: int = 1_000) -> pl.DataFrame | None:
    """What is read once the file is here."""
    found: list[pl.DataFrame | None] = []

    def reads() -> bool:
        found.append(reader.read(rows_max, 0))
        return found[-1] is not None or reader.finished

    wait_until(reads, "the file")
    return found[-1]


def all_rows(reader: SplitReader, rows_max: int = 1_000) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = []
    while not reader.finished:
        frame = arrived(reader, rows_max)
        rows += [] if frame is None else frame.rows()
    reader.close()
    return rows


def test_files_are_found_by_sparks_rules(source: Input) -> None:
    for name in (
        "b",
        "k=1/l=ü %2F/part 1",
        "_SUCCESS",
        ".crc",
        "x._COPYING_",
        "_tidegate/staged/y",
        "deeper/c",
        "k=2/_z",
    ):
        source.write(name, "x\n")
    source.write("empty", b"")
    assert sorted(source.names()) == ["b", "k=1/l=ü %2F/part 1"]
    assert sorted(source.names(recursiveFileLookup=True)) == ["b", "deeper/c", "k=1/l=ü %2F/part 1"]
    assert source.names(pathGlobFilter="part*") == ["k=1/l=ü %2F/part 1"]


def test_patterns_and_braces_choose_files_and_directories(source: Input) -> None:
    for name in (
        "2024/a.json",
        "2024/b.csv",
        "2025/a.json",
        "2025/k=1/c.json",
        "2025/deeper/d.json",
        "_2026/a.json",
        "e.json",
    ):
        source.write(name, "x\n")
    assert sorted(source.names("/*/*.json")) == ["2024/a.json", "2025/a.json", "_2026/a.json"]
    assert sorted(source.names("/202[45]")) == ["2024/a.json", "2024/b.csv", "2025/a.json", "2025/k=1/c.json"]
    assert sorted(source.names("/{2024,2025/k=*}/*.json")) == ["2024/a.json", "2025/k=1/c.json"]
    assert source.names("/*") == source.names("/{*,*}"), "a file that two patterns name is one file"


def test_a_file_is_found_once_and_what_comes_later_is_found_later(source: Input) -> None:
    source.write("z", "1\n")
    watching = source.enumerator(source.scan())
    (first,) = watching.discover(0)
    source.write("a", "2\n")
    (second,) = watching.discover(0)
    assert [source.name(first), source.name(second)] == ["z", "a"] and watching.discover(0) == ()
    again = source.enumerator(source.scan())
    assert again.restore(watching.snapshot(), ()) == (first, second) and again.discover(0) == ()


@pytest.mark.parametrize("form", ["parquet", "json", "csv", "text"])
def test_every_format_is_read_with_the_columns_of_its_directories(source: Input, form: str) -> None:
    frame = pl.DataFrame({"n": range(100)}, schema={"n": pl.Int64})
    schema = (Field("n", LONG), Field("k", STRING)) if form != "text" else (Field("value", STRING), Field("k", STRING))
    lines = {"json": frame.write_ndjson(), "csv": frame.write_csv(include_header=False)}
    source.write(f"k=ü%2F/x.{form}", frame if form == "parquet" else lines.get(form, lines["csv"]))
    expected = [(n if form != "text" else str(n), "ü/") for n in range(100)]
    assert source.rows(source.scan(form, schema)) == expected


def test_compressed_lines_are_known_by_their_name_in_the_store(source: Input) -> None:
    source.write("a.txt.gz", gzip.compress(b"1\n2\n"))
    assert source.rows(source.scan()) == [("1",), ("2",)]


@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_reading_goes_on_at_every_position(source: Input, form: str) -> None:
    """Positions are those of the file in the store, whichever copy is read."""
    frame = pl.DataFrame({"n": range(50)}, schema={"n": pl.Int64})
    source.write("x", frame if form == "parquet" else frame.write_csv(include_header=False))
    scan = source.scan(form, (Field("n", LONG),))
    (split,) = source.enumerator(scan).discover(0)
    reader = source.open(scan, split)
    seen = [reader.position]
    while not reader.finished:
        arrived(reader, 7)
        seen.append(reader.position)
    reader.close()
    for position in seen:
        begun = len(all_rows(source.open(scan, split, position), 7))
        assert begun == max(0, 50 - 7 * seen.index(position))


def test_a_large_file_comes_in_parts(source: Input) -> None:
    lines = b"".join(b"%0999d\n" % n for n in range(3 * PART_BYTES // 1_000))
    source.write("large", lines)
    scan = source.scan()
    (split,) = source.enumerator(scan).discover(0)
    rows = all_rows(source.open(scan, split), 10_000)
    assert [int(value) for (value,) in rows] == list(range(len(lines) // 1_000))


def test_a_reader_awaits_its_file_and_says_so(source: Input) -> None:
    """Rows that are known to be there hold watermarks back, and the source has not caught up before it has read them."""
    source.write("x", "1\n")
    scan = source.scan()
    (split,) = source.enumerator(scan).discover(0)
    reader: Any = source.open(scan, split)
    assert (reader.awaits_rows, reader.caught_up) == (True, False) and "on its way" in reader.describe()
    assert arrived(reader) is not None
    assert (reader.awaits_rows, reader.caught_up) == (False, True) and source.url in reader.describe()
    reader.close()


def test_what_the_metadata_column_says_is_the_file_in_the_store(source: Input) -> None:
    source.write("k=1/a b", "one\n")
    scan = source.scan("text", (*LINES, Field("_metadata", WHOLE)))
    ((_, found),) = source.rows(scan)
    status = source.directory.status("k=1/a b")
    assert status is not None and found["file_path"].endswith("/k=1/a%20b")
    assert found["file_path"].startswith(source.url.partition("://")[0] + "://")
    assert (found["file_name"], found["file_size"]) == ("a%20b", 4)
    assert int(found["file_modification_time"].timestamp() * 1_000) == status.modified_ms


def test_a_file_that_is_deleted_or_changed_before_it_is_read_is_named(source: Input) -> None:
    for name in ("gone", "changed"):
        source.write(name, "1\n")
    scan = source.scan()
    splits = {source.name(split): split for split in source.enumerator(scan).discover(0)}
    source.directory.delete("gone")
    source.write("changed", "1\n2\n")
    for name, error, words in (("gone", Unavailable, "was deleted"), ("changed", DataError, "was changed")):
        reader = source.open(scan, splits[name])
        with pytest.raises(error, match=words) as raised:
            arrived(reader)
        assert f"{source.url}/{name}" in raised.value.message
        reader.close()


def test_an_object_that_is_replaced_between_two_parts_is_not_mixed_from_both(s3_home: Home) -> None:
    source = Input(s3_home)
    source.write("x", b"a" * (5 * PART_BYTES))
    pieces = source.directory._store.fetch("x").pieces  # type: ignore[attr-defined]
    assert next(pieces) == b"a" * PART_BYTES
    source.write("x", b"b" * (5 * PART_BYTES))
    with pytest.raises(DataError, match="was replaced while it was read"):
        list(pieces)


def test_a_file_that_nobody_wants_any_more_is_not_kept(source: Input, scratch: Path) -> None:
    """Discarded on its way, or before it was its turn; the fixture sees that nothing stays."""
    for number in range(5):
        source.write(f"{number}", b"1\n" * PART_BYTES)
    scan = source.scan()
    connector = source.connectors.source(scan)
    readers = [connector.open(split, None) for split in source.enumerator(scan).discover(0)]
    wait_until(lambda: list(scratch.iterdir()), "a copy under way")
    for reader in readers:
        reader.close()


def test_no_room_for_copies_says_where_and_is_tried_again(
    source: Input, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source.write("x", "1\n")
    scan = source.scan()
    (split,) = source.enumerator(scan).discover(0)
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path / "nowhere"))
    reader = source.open(scan, split)
    with pytest.raises(Unavailable, match=f"copy source files to {tmp_path}/nowhere"):
        arrived(reader)
    reader.close()


def test_a_log_says_what_is_there_and_in_which_order(remote_home: Home) -> None:
    """As in Spark: what a query of ours or Spark's has committed, and nothing beside it. Written by another name of the same store."""
    output = Output(remote_home, None)  # type: ignore[arg-type]
    sink = output.sink(partition_by=("k",))
    committer = output.committer(sink)
    source = Input(remote_home)
    scan = source.scan("parquet", (Field("n", LONG), Field("k", STRING)))
    watching = source.enumerator(scan)
    committer.commit(output.epoch(sink, 2))
    source.write("stray", pl.DataFrame({"n": [-1]}))
    first = watching.discover(0)
    committer.commit(output.epoch(sink, 1, checkpoint=2))
    second = watching.discover(0)
    rows = [row for split in (*first, *second) for row in all_rows(source.open(scan, split))]
    assert [n for n, _ in rows] == [100, 101, 200] and watching.discover(0) == ()
    assert (len(first), len(second)) == (2, 1)


def test_a_place_that_cannot_be_read_is_refused_before_anything_runs(source: Input, s3: S3Server) -> None:
    source.write("file", "x\n")
    with pytest.raises(InvalidQuery, match="file is a file") as raised:
        source.enumerator(source.scan(below="/file")).check()
    assert "directory" in str(raised.value.hint)
    source.enumerator(source.scan()).check()
    source.enumerator(source.scan(below="/*")).check()
    if source.home.kind == "hdfs":
        with pytest.raises(InvalidQuery, match="nowhere: no such directory"):
            source.enumerator(source.scan(below="/nowhere")).check()
        return
    source.enumerator(source.scan(below="/nowhere")).check()  # Buckets have no directories: files may still come.
    with pytest.raises(InvalidQuery, match="NoSuchBucket"):
        checked("s3://no-such-bucket/in", source.home)
    with s3.check_keys(), pytest.raises(InvalidQuery, match="InvalidAccessKeyId"):
        checked(source.url, source.home)


def checked(url: str, home: Home) -> None:
    connectors = ByNode(None, partial(open_directory, options=home.options))
    enumerator: Any = connectors.enumerator(file_scan("text", url, LINES), QueryConfig())
    enumerator.check()


@pytest.fixture
def impatient(source: Input) -> ByNode:
    """Soon convinced that a store does not answer."""
    values = {**source.home.options.values, "timeoutSeconds": "2", "retries": "0"}
    return ByNode(None, partial(open_directory, options=storage_options(values)))


def test_a_store_that_does_not_answer_says_so_and_nothing_is_forgotten(source: Input, impatient: ByNode) -> None:
    proxy = source.home.proxy
    assert proxy is not None
    source.write("a", "1\n")
    watching = impatient.enumerator(source.scan(), QueryConfig())
    assert len(watching.discover(0)) == 1
    source.write("b", "2\n")
    proxy.faults.stalled = True
    for _ in range(2):
        with pytest.raises(Unavailable):
            watching.discover(0)
    proxy.faults.stalled = False
    wait_until(lambda: found_by(watching) == 1, "the new file")


def found_by(watching: SplitEnumerator) -> int:
    try:
        return len(watching.discover(0))
    except Unavailable:
        return 0  # A connection from before the trouble.


def test_event_time_waits_for_a_store_that_does_not_list(
    source: Input, impatient: ByNode, caplog: pytest.LogCaptureFixture
) -> None:
    """T72: a look that fails is no look. What lay there meanwhile is of the cohort that was open, and not late."""
    proxy = source.home.proxy
    assert proxy is not None
    source.write("a", "1\n")
    scan, inbox = source.scan(), SimpleQueue[Event]()
    watching = {scan.id: impatient.enumerator(scan, QueryConfig())}
    discovery = Discovery(Attempt(1), lambda: watching, None, 3_600_000, inbox.put)

    def looked(cohorts: Cohorts) -> Cohorts:
        event = inbox.get(timeout=60)
        assert isinstance(event, SplitsDiscovered)
        return cohorts.looked(event.splits, found=event.found)

    cohorts = looked(Cohorts(delay_us=0))
    source.write("b", "2\n")
    proxy.faults.stalled = True
    with caplog.at_level(logging.WARNING, "tidegate"):
        asked = discovery.look()
        wait_until(lambda: discovery.failing(), "the look that fails")
        since_ms = discovery.failing()[scan.id].since_ms
        cohorts = cohorts.finished((FinishedSplit(0, 100_000_000),))
        assert source.home.location in discovery.failing()[scan.id].message
        assert cohorts.granted_us == WATERMARK_MIN_US and inbox.empty() and not asked.is_set()
        proxy.faults.stalled = False
        assert asked.wait(60), "it is tried again by itself"
    assert since_ms and not discovery.failing()
    assert len([one for one in caplog.messages if "again and again" in one]) == 1
    cohorts = looked(cohorts)
    assert cohorts.granted_us == WATERMARK_MIN_US and cohorts.unread, "the file that was found is on time"
    cohorts = cohorts.finished((FinishedSplit(1, 50_000_000),))
    assert discovery.look().wait(60)
    assert looked(cohorts).granted_us == 100_000_000
    discovery.stop()


def test_a_large_backlog_says_which_times_it_holds(source: Input, impatient: ByNode) -> None:
    """Footers of files in a store are read in pieces, small and larger ones."""
    count = FOOTERS_WORTH_READING + 1
    schema = (Field("at", TIMESTAMP), *(Field(f"{'c' * 200}{n}", LONG) for n in range(400)))
    for number in range(count):
        wide = {name.name: [number] for name in schema[1:]} if number % 2 else {}
        source.write(f"{number}", pl.DataFrame({"at": pl.Series([number], dtype=pl.Datetime("us")), **wide}))
    scan = replace(source.scan("parquet", schema), event_time="at")
    found = impatient.enumerator(scan, QueryConfig(parallelism=1)).discover(0)
    assert [split.earliest_us for split in found] == list(range(count))


def test_a_source_that_was_not_told_how_to_reach_a_store_does_not_take_it_for_a_directory(source: Input) -> None:
    scan = source.scan()
    source.write("x", "1\n")
    (split,) = source.enumerator(scan).discover(0)
    with pytest.raises(Bug, match="not told how to reach"):
        files.enumerator(scan, QueryConfig()).discover(0)
    with pytest.raises(Bug, match="not told how to reach"):
        files.source(scan).open(split, None)


@pytest.mark.parametrize("scheme", ["gs", "az"])
def test_files_come_from_googles_and_azures_stores_as_well(scheme: str) -> None:
    with bucket_server() as server:
        source = Input(Home(scheme, f"{scheme}://bucket/in put", storage_options(server.options_for(scheme))))
        source.write("k=1/a", "1\n2\n")
        assert source.rows(source.scan("csv", (Field("n", LONG), Field("k", LONG)))) == [(1, 1), (2, 1)]
