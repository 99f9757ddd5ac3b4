"""What Parquet files say of their event times before they are read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.unit.connectors.reading import drain, file_scan

from tidegate.connectors.files.config import parse_source
from tidegate.connectors.files.discovery import FOOTERS_WORTH_READING, FileEnumerator
from tidegate.connectors.files.footers import TAIL_BYTES, earliest_times
from tidegate.connectors.files.found import Found
from tidegate.connectors.files.source import FileSource
from tidegate.connectors.files.splits import FileSplit, decode_split
from tidegate.connectors.legacy import Scan
from tidegate.model.elements import WATERMARK_MAX_US
from tidegate.model.errors import DataError, Unavailable
from tidegate.model.snapshot import Split
from tidegate.model.types import LONG, TIMESTAMP, TIMESTAMP_NTZ, DataType, Field

SECOND_US = 1_000_000
MICROS = pa.timestamp("us", "UTC")
MANY = FOOTERS_WORTH_READING + 1
"""Files in one look at which a query with one slot reads footers."""


def store(path: Path, times: list[int | None], of: pa.DataType = MICROS, name: str = "at", **how: Any) -> Path:
    """``times`` in units of the type."""
    path.parent.mkdir(parents=True, exist_ok=True)
    table = pa.table({name: pa.array(times, of), "n": pa.array(range(len(times)), pa.int64())})
    pq.write_table(table, path, **how)
    return path


def read_local(path: str, start: int, stop: int) -> bytes:
    return Path(path).read_bytes()[start:stop]


def earliest(path: Path, column: str = "at") -> int | None:
    (found,) = earliest_times([Found(0, str(path), path.stat().st_size)], column, read_local)
    return found


def scan(path: Path, kind: DataType = TIMESTAMP, event_time: str | None = "at", **options: Any) -> Scan:
    fields = (Field("at", kind), Field("n", LONG))
    return replace(file_scan("parquet", path, fields, **options), event_time=event_time)


def enumerator(of: Scan, slots: int = 1) -> FileEnumerator:
    return FileEnumerator(parse_source(of), bounded=False, slots=slots)


@pytest.mark.parametrize(("unit", "per_second"), [("ms", 1_000), ("us", SECOND_US), ("ns", 1_000_000_000)])
@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin"])
@pytest.mark.parametrize("kind", [TIMESTAMP, TIMESTAMP_NTZ])
def test_every_unit_means_what_it_means_when_it_is_read(
    tmp_path: Path, unit: str, per_second: int, zone: str | None, kind: DataType
) -> None:
    path = store(tmp_path / "in" / "x", [7 * per_second + 1, -3 * per_second - 1], pa.timestamp(unit, zone))
    promised = earliest(path)
    (split,) = enumerator(scan(tmp_path / "in", kind)).discover(0)
    reader = FileSource(scan(tmp_path / "in", kind)).open(split, None)
    rows = reader.read(10, 0)
    assert rows is not None and rows["at#0"].to_physical().min() == promised


def test_the_smallest_of_all_row_groups_counts_and_nulls_do_not(tmp_path: Path) -> None:
    assert earliest(store(tmp_path / "x", [9, 8, None, None, 5, None, 7, 6], row_group_size=2)) == 5


@pytest.mark.parametrize("times", [[], [None, None, None]])
def test_a_file_without_any_event_time_holds_nothing_back(tmp_path: Path, times: list[int | None]) -> None:
    assert earliest(store(tmp_path / "x", times)) == WATERMARK_MAX_US


def test_what_does_not_tell_is_not_known(tmp_path: Path) -> None:
    """INT96 is what Spark writes by default, and has no statistics."""
    assert earliest(store(tmp_path / "int96", [1], pa.timestamp("ns"), use_deprecated_int96_timestamps=True)) is None
    assert earliest(store(tmp_path / "none", [1], write_statistics=False)) is None
    assert earliest(store(tmp_path / "long", [1], pa.int64())) is None
    assert earliest(store(tmp_path / "other", [1], name="when")) is None
    pq.write_table(pa.table({"s": pa.array([{"at": 1}], pa.struct([("at", MICROS)]))}), tmp_path / "nested")
    assert earliest(tmp_path / "nested") is None and earliest(tmp_path / "nested", "s.at") is None
    two = pa.table([pa.array([1], MICROS)] * 2, names=["AT", "At"])
    pq.write_table(two, tmp_path / "two")
    assert earliest(tmp_path / "two") is None
    (tmp_path / "damaged").write_bytes(b"PAR1 not really")
    assert earliest(tmp_path / "damaged") is None


def test_names_are_found_as_they_are_read(tmp_path: Path) -> None:
    assert earliest(store(tmp_path / "x", [4], name="AT")) == 4
    assert earliest(store(tmp_path / "y", [4], name="my.at"), "my.at") == 4


def test_a_footer_that_is_longer_than_most_is_read_whole(tmp_path: Path) -> None:
    table = pa.table({"at": pa.array([3], MICROS), **{f"{'c' * 300}{n}": pa.array([n]) for n in range(400)}})
    pq.write_table(table, tmp_path / "x")
    assert (tmp_path / "x").stat().st_size > 2 * TAIL_BYTES and earliest(tmp_path / "x") == 3


def test_a_store_that_stops_answering_costs_statistics_and_nothing_else(tmp_path: Path) -> None:
    asked: list[str] = []

    def read(path: str, start: int, stop: int) -> bytes:
        asked.append(path)
        raise Unavailable("no answer")

    files = [Found(0, str(store(tmp_path / f"{n}", [n])), 1_000) for n in range(200)]
    assert earliest_times(files, "at", read) == [None] * 200
    assert len(asked) < 200


def backlog(directory: Path, count: int = MANY) -> None:
    """Files whose names and ages say the contrary of their times."""
    for number in range(count):
        store(directory / f"{number:03d}", [(count - number) * SECOND_US, (count + 1) * SECOND_US])


def test_a_large_backlog_is_numbered_by_event_time(tmp_path: Path) -> None:
    backlog(tmp_path)
    store(tmp_path / "silent", [1], write_statistics=False)
    found = enumerator(scan(tmp_path)).discover(0)
    times = [split.earliest_us for split in found]
    assert times == [None, *(SECOND_US * (n + 1) for n in range(MANY))], "what does not tell is read first"


@pytest.mark.parametrize(
    ("of", "slots"),
    [({}, 2), ({"fileStatistics": "off"}, 1), ({"event_time": None}, 1), ({"event_time": ""}, 1)],
)
def test_footers_are_not_read_where_it_is_not_worth_it(tmp_path: Path, of: dict[str, Any], slots: int) -> None:
    backlog(tmp_path)
    found = enumerator(scan(tmp_path, **of), slots).discover(0)
    assert [split.earliest_us for split in found] == [None] * MANY
    assert [Path(decode_split(split.payload).path).name for split in found] == [f"{n:03d}" for n in range(MANY)]


def test_limits_and_the_users_own_order_go_before_event_time(tmp_path: Path) -> None:
    backlog(tmp_path)
    limited = enumerator(scan(tmp_path, maxFilesPerTrigger=2)).discover(0)
    assert [split.earliest_us for split in limited] == [SECOND_US * (MANY - n) for n in range(MANY)]
    latest = enumerator(scan(tmp_path, latestFirst="true")).discover(0)
    assert [split.earliest_us for split in latest] == [SECOND_US * (n + 1) for n in range(MANY)]


def test_a_partition_column_is_not_what_the_file_stores(tmp_path: Path) -> None:
    for number in range(MANY):
        store(tmp_path / "at=2024-01-01" / f"{number}", [number])
    assert {split.earliest_us for split in enumerator(scan(tmp_path)).discover(0)} == {None}


def test_statistics_survive_a_restart_as_long_as_the_query_asks_for_the_same_column(tmp_path: Path) -> None:
    backlog(tmp_path)
    before = enumerator(scan(tmp_path))
    found = before.discover(0)
    assert enumerator(scan(tmp_path)).restore(before.snapshot(), found[:1]) == found
    for changed in ({"event_time": "n"}, {"event_time": None}, {"fileStatistics": "off"}):
        again = enumerator(scan(tmp_path, **changed)).restore(before.snapshot(), found[:1])
        assert {split.earliest_us for split in again} == {None}


def live_file(watching: FileEnumerator, directory: Path, name: str) -> int | None:
    """What a file says that arrives alone."""
    store(directory / name, [7 * SECOND_US])
    (split,) = watching.discover(0)
    return split.earliest_us


def test_a_file_that_arrives_while_a_backlog_is_read_says_its_times_too(tmp_path: Path) -> None:
    """Else it holds event time until all of the backlog has been read."""
    backlog(tmp_path)
    watching = enumerator(scan(tmp_path))
    watching.discover(0)
    watching.forget(MANY - 1)
    assert live_file(watching, tmp_path, "live-1") == 7 * SECOND_US
    watching.forget(MANY)
    assert live_file(watching, tmp_path, "live-2") is None, "nothing is left that it could hold"


def test_a_backlog_that_a_restart_finds_unread_asks_for_the_times_of_others(tmp_path: Path) -> None:
    backlog(tmp_path)
    before = enumerator(scan(tmp_path))
    found = before.discover(0)
    for done, said in ((MANY - 1, 7 * SECOND_US), (MANY, None)):
        again = enumerator(scan(tmp_path))
        again.learn_done(lambda number, done=done: number < done)
        again.restore(before.snapshot(), found[done:])
        assert live_file(again, tmp_path, f"live-{done}") == said
        (tmp_path / f"live-{done}").unlink()


def test_a_backlog_that_says_nothing_asks_for_nothing(tmp_path: Path) -> None:
    for number in range(MANY):
        store(tmp_path / f"{number}", [1], write_statistics=False)
    watching = enumerator(scan(tmp_path))
    watching.discover(0)
    assert live_file(watching, tmp_path, "live") is None


def test_documents_of_a_version_without_statistics_are_read() -> None:
    old = msgspec.msgpack.encode({"type": "file/1", "path": "/in/x", "size_bytes": 3})
    assert decode_split(old) == FileSplit(path="/in/x", size_bytes=3)
    assert msgspec.msgpack.encode(FileSplit(path="/in/x", size_bytes=3)) == old, (
        "and nothing is added where there is none"
    )


def test_a_row_before_what_its_file_promised_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    path = store(tmp_path / "liar", [5, None, 4])
    of = scan(tmp_path)

    def opened(earliest_us: int, column: str = "at") -> list[tuple[Any, ...]]:
        file = FileSplit(path=str(path), size_bytes=path.stat().st_size, event_time=column, earliest_us=earliest_us)
        return drain(FileSource(of).open(Split(number=0, payload=msgspec.msgpack.encode(file)), None))

    assert len(opened(4)) == 3
    with pytest.raises(DataError, match="liar holds rows earlier"):
        opened(5)
    assert len(opened(5, column="n")) == 3, "about another column"
