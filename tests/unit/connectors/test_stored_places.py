"""What a checkpoint or savepoint says about places is held against the query: it cannot make a source read anything else."""

from __future__ import annotations

import gzip
from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast

import msgspec
import polars as pl
import pytest
from tests.nodes import ByNode
from tests.unit.connectors.reading import drain, file_scan, scan_of, written
from tests.unit.connectors.test_kafka_options import parsed

from tidegate.connectors.files.config import parse_source
from tidegate.connectors.files.discovery import FileEnumerator
from tidegate.connectors.files.source import FileSource
from tidegate.connectors.files.splits import FileSplit, KnownFiles, LinePosition, ParquetPosition
from tidegate.connectors.fixed_splits import FixedEnumerator
from tidegate.connectors.kafka.source.cluster import Cluster
from tidegate.connectors.kafka.source.enumerator import KafkaEnumerator
from tidegate.connectors.kafka.source.splits import (
    KafkaPosition,
    KafkaSplit,
    KnownPartitions,
    NumberedSplit,
    decode_position,
)
from tidegate.connectors.kafka.source.splits import decode_split as decode_kafka
from tidegate.connectors.nexmark.source import NexmarkSplit
from tidegate.connectors.rate.source import RatePosition, RateSplit
from tidegate.model.config import QueryConfig
from tidegate.model.errors import CorruptSnapshot, InvalidQuery
from tidegate.model.snapshot import Split
from tidegate.model.types import LONG, STRING, TIMESTAMP, Field
from tidegate.ports.directory import OpenDirectory

LINES = (Field("value", STRING),)
RATE = (Field("timestamp", TIMESTAMP), Field("value", LONG))


def files(
    query: Path | str,
    *paths: Path | str,
    done: Iterable[int] = (),
    open_directory: OpenDirectory | None = None,
    **options: Any,
) -> tuple[Split, ...]:
    """A query over ``query`` goes on from a checkpoint that knows ``paths``."""
    enumerator = FileEnumerator(parse_source(file_scan("text", query, LINES, **options)), bounded=False)
    if open_directory is not None:
        enumerator.reach(open_directory)
    enumerator.learn_done(frozenset(done).__contains__)
    newest = tuple(FileSplit(path=str(path), size_bytes=3) for path in paths)
    return enumerator.restore(msgspec.msgpack.encode(KnownFiles(newest=newest)), ())


@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd",
        "/data/in/../secret/x",
        "/data/in/./x",
        "/data/in//x",
        "/data/in/",
        "/data/in",
        "/data/index/x",
        "/data/in/archive/x",
        "/data/in/_private/x",
        "/data/in/k=1/.hidden/x",
        "/data/in/k=1/_x",
        "in/x",
    ],
)
def test_a_stored_path_opens_nothing_that_the_query_does_not_read(path: str) -> None:
    """T82: an absolute path, one that climbs out, a sibling, and directories that no listing enters, which may be links."""
    if path == "/data/in":
        assert len(files("/data/in", path)) == 1, "the path of the query may be a file"
        return
    with pytest.raises(InvalidQuery, match="split 1, which is not read to its end") as refused:
        files("/data/in", "/data/in/a", path)
    assert path in refused.value.message and "/data/in" in refused.value.message and refused.value.hint
    assert len(files("/data/in", "/data/in/a", path, done=[1])) == 2, "what has been read is opened by nobody"


def test_a_path_that_only_a_reader_knows_is_refused_like_any_other() -> None:
    """T82: an open split wins over the list of known files."""
    enumerator = FileEnumerator(parse_source(file_scan("text", "/data/in", LINES)), bounded=False)
    known = msgspec.msgpack.encode(KnownFiles(newest=(FileSplit(path="/data/in/a", size_bytes=3),)))
    forged = Split(number=0, payload=msgspec.msgpack.encode(FileSplit(path="/etc/passwd", size_bytes=3)))
    with pytest.raises(InvalidQuery, match="/etc/passwd"):
        enumerator.restore(known, (forged,))


@pytest.mark.parametrize(
    ("query", "path", "options"),
    [
        ("/data/in/", "/data/in/k=1/x", {}),
        ("/data/in", "/data/in/archive/x", {"recursiveFileLookup": "true"}),
        ("/data/20{24,26}", "/data/2026/x", {}),
        ("/data/*/part-*", "/data/a/part-3", {}),
        ("/data/*", "/data/a/k=1/x", {}),
        ("file:///data/in", "/data/in/x", {}),
        ("/", "/x", {}),
    ],
)
def test_what_a_listing_finds_is_read_on(query: str, path: str, options: dict[str, str]) -> None:
    assert len(files(query, path, **options)) == 1


@pytest.mark.parametrize(
    ("query", "path"),
    [("/data/20{24,26}", "/data/2025/x"), ("/data/*/part-*", "/data/a/x"), ("/data/*", "/data/_b/x")],
)
def test_a_pattern_admits_what_it_matches(query: str, path: str) -> None:
    with pytest.raises(InvalidQuery, match=path):
        files(query, path)


def test_files_of_a_directory_that_has_moved_are_in_nobodys_way_once_they_are_read(tmp_path: Path) -> None:
    written(tmp_path / "here" / "b", "y\n")
    there, known = tmp_path / "there", [tmp_path / "there" / "a", tmp_path / "there" / "b"]
    enumerator = FileEnumerator(parse_source(file_scan("text", tmp_path / "here", LINES)), bounded=False)
    enumerator.learn_done(lambda number: True)
    newest = tuple(FileSplit(path=str(path), size_bytes=3) for path in known)
    assert len(enumerator.restore(msgspec.msgpack.encode(KnownFiles(newest=newest)), ())) == 2
    assert [split.number for split in enumerator.discover(0)] == [2], "what lies at the new place counts as new"
    with pytest.raises(InvalidQuery, match=rf"{there}/b: the query reads {tmp_path}/here"):
        files(tmp_path / "here", *known, done=[0])


def test_a_file_that_the_log_of_the_directory_names_is_read_on_wherever_it_lies(tmp_path: Path) -> None:
    log = tmp_path / "in" / "_spark_metadata" / "0"
    entry = f'{{"path":"file://{tmp_path}/other/x","size":3,"isDir":false,"modificationTime":1,"blockReplication":1,"blockSize":1,"action":"add"}}'
    written(log, f"v1\n{entry}")
    assert len(files(tmp_path / "in", tmp_path / "other" / "x")) == 1
    with pytest.raises(InvalidQuery, match="other/y"):
        files(tmp_path / "in", tmp_path / "other" / "y")


class Nowhere:
    """A directory in a store that nobody asks anything."""

    def __init__(self, url: str) -> None:
        self.url = url

    def has(self, directory: str) -> bool:
        raise AssertionError("the store was asked")

    found = read = fetch = has


@pytest.mark.parametrize(
    ("query", "path", "reads"),
    [
        ("s3://lake/in", "s3://lake/in/k=1/x", True),
        ("s3a://lake/in", "s3://lake/in/x", True),
        ("s3://lake/in/*/day", "s3://lake/in/a/day/x", True),
        ("s3://lake/in", "s3://other/in/x", False),
        ("s3://lake/in", "s3://lake/inside/x", False),
        ("s3://lake/in", "s3://lake/in/../secret/x", False),
        ("s3://lake/in", "gs://lake/in/x", False),
        ("s3://lake/in", "/lake/in/x", False),
        ("hdfs://one:9000/in", "hdfs://two:9000/in/x", False),
    ],
)
def test_a_stored_url_names_no_other_bucket_host_or_prefix(query: str, path: str, reads: bool) -> None:
    """T82: seen by its name alone; no store is asked."""

    def open_directory(url: str) -> Any:
        return Nowhere(url)

    if reads:
        assert len(files(query, path, open_directory=cast(OpenDirectory, open_directory))) == 1
        return
    with pytest.raises(InvalidQuery, match="split 0, which is not read to its end"):
        files(query, path, open_directory=cast(OpenDirectory, open_directory))


@pytest.mark.parametrize("fails", [True, False])
@pytest.mark.parametrize("options", [{"subscribe": "mine"}, {"subscribePattern": "mi.*"}, {"assign": '{"mine":[0]}'}])
def test_a_stored_topic_is_never_read_unless_the_query_subscribes_to_it(options: dict[str, str], fails: bool) -> None:
    """T82: refused by name and split; without ``failOnDataLoss`` it is left unread. No broker is asked."""
    config = parsed(**options, failOnDataLoss=str(fails).lower())
    enumerator = KafkaEnumerator(config, Cluster(config), bounded=False)
    splits = [KafkaSplit(topic="mine", partition=0, start=3), KafkaSplit(topic="secret", partition=0, start=0)]
    known = KnownPartitions(started=True, splits=tuple(map(NumberedSplit, range(2), splits)))
    if fails:
        with pytest.raises(InvalidQuery, match="split 1, secret-0, which the query no longer reads"):
            enumerator.restore(msgspec.msgpack.encode(known), ())
        return
    enumerator.restore(msgspec.msgpack.encode(known), ())
    assert [config.selection.selects(*one.place) for one in splits] == [True, False], "what readers go by"


@pytest.mark.parametrize(
    "document",
    [
        {"type": "kafka/1", "topic": "mine", "partition": -1},
        {"type": "kafka/1", "topic": "mine", "partition": 0, "start": -1},
        {"type": "kafka/1", "topic": "mine", "partition": 0, "end": -1},
    ],
)
def test_numbers_of_a_kafka_split_are_within_bounds(document: dict[str, Any]) -> None:
    """T82: -1 would be the end of the log to a client, and what lies before it would be left out without a word."""
    with pytest.raises(CorruptSnapshot, match="a split of the Kafka source cannot be read"):
        decode_kafka(msgspec.msgpack.encode(document))
    with pytest.raises(CorruptSnapshot, match="a position of the Kafka source"):
        decode_position(msgspec.msgpack.encode({"type": "kafka-position/1", "offset": -1}))
    assert decode_position(msgspec.msgpack.encode(KafkaPosition(offset=-2))).offset == -2


def fixed(form: str) -> FixedEnumerator:
    if form == "rate":
        return ByNode().enumerator(scan_of(form, RATE, numPartitions=2), QueryConfig())
    return ByNode().enumerator(scan_of(form, RATE, partitions=2), QueryConfig())


@pytest.mark.parametrize(("part", "of"), [(1, 2), (0, 1), (0, 0), (-1, 2)])
@pytest.mark.parametrize(("form", "kind"), [("rate", RateSplit), ("tidegate-nexmark", NexmarkSplit)])
def test_a_part_that_stands_for_another_one_is_refused(form: str, kind: type[Any], part: int, of: int) -> None:
    """T82: values would be missing, or come twice."""
    first, second = fixed(form).discover(0)
    described = msgspec.msgpack.decode(first.payload, type=kind)
    forged = msgspec.msgpack.encode(msgspec.structs.replace(described, part=part, of=of))
    assert fixed(form).restore(b"", (first, second)) == (first, second)
    with pytest.raises(CorruptSnapshot, match="split"):
        fixed(form).restore(b"", (Split(number=0, payload=forged), second))


def test_a_position_before_the_beginning_is_refused() -> None:
    scan = scan_of("rate", RATE, numPartitions=1)
    (split,) = ByNode().enumerator(scan, QueryConfig()).discover(0)
    with pytest.raises(CorruptSnapshot, match="a position of the rate source cannot be read"):
        ByNode().source(scan).open(split, msgspec.msgpack.encode(RatePosition(emitted=-5)))


def test_a_position_behind_the_end_of_a_file_is_refused_and_not_taken_for_its_end(tmp_path: Path) -> None:
    """T82: rows would be left out without a word."""
    pl.DataFrame({"n": range(10)}).write_parquet(tmp_path / "a.parquet")
    written(tmp_path / "b.txt", "x\ny\n")
    (tmp_path / "c.txt.gz").write_bytes(gzip.compress(b"x\ny\n"))
    for name, schema, end, positions in (
        (
            "a.parquet",
            (Field("n", LONG),),
            ParquetPosition(group=1),
            [ParquetPosition(group=2), ParquetPosition(row=11)],
        ),
        ("b.txt", LINES, LinePosition(offset=4), [LinePosition(offset=5)]),
        ("c.txt.gz", LINES, LinePosition(offset=4), [LinePosition(offset=5)]),
    ):
        path = tmp_path / name
        source = FileSource(file_scan(path.suffixes[0][1:].replace("txt", "text"), path, schema))
        file = FileSplit(path=str(path), size_bytes=path.stat().st_size)
        split = Split(number=0, payload=msgspec.msgpack.encode(file))
        assert drain(source.open(split, msgspec.msgpack.encode(end))) == [], "the end itself is a position"
        for position in positions:
            with pytest.raises(CorruptSnapshot, match=f"in {path}, behind its end"):
                source.open(split, msgspec.msgpack.encode(position))
