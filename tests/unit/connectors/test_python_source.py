from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition, SimpleDataSourceStreamReader
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, SupportsTriggerAvailableNow
from tests.nodes import ByNode
from tests.unit.connectors.reading import BOUNDED, drain, positions, read_all, scan_of

from tidegate.checkpoint.intervals import contains, done_prefix
from tidegate.checkpoint.manifest import SourceState
from tidegate.checkpoint.sources import fresh
from tidegate.connectors.legacy import Scan
from tidegate.connectors.python_source.enumerator import KnownRanges, RangeEnumerator
from tidegate.connectors.python_source.options import asked_of
from tidegate.connectors.python_source.payload import pack
from tidegate.connectors.python_source.readers import stream_reader
from tidegate.connectors.spark_types import spark_schema
from tidegate.model import types as t
from tidegate.model.config import QueryConfig
from tidegate.model.errors import CorruptSnapshot, DataError, InvalidQuery, UserCodeFailed
from tidegate.model.ids import OperatorId
from tidegate.model.snapshot import FinishedSplit, SourceProgress
from tidegate.model.types import Field
from tidegate.spark.restored_sources import RestoredSources
from tidegate.storage.local import LocalBlobStore

SCHEMA = (Field("n", t.LONG), Field("s", t.STRING))


class Counter(DataSource):
    """Counts to ``until``; reads tuples, lists or record batches, as told."""

    def streamReader(self, schema: Any) -> DataSourceStreamReader:
        return CounterReader(dict(self.options))


class CounterReader(DataSourceStreamReader):
    def __init__(self, options: dict[str, str]) -> None:
        self.options = options

    def initialOffset(self) -> dict[str, int]:
        return {"n": 0}

    def getDefaultReadLimit(self) -> Any:
        return ReadMaxRows(10)

    def latestOffset(self, start: dict[str, int], limit: Any) -> dict[str, int]:
        until = int(self.options["until"])
        return {"n": until if isinstance(limit, ReadAllAvailable) else min(until, start["n"] + limit.max_rows)}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        middle = (start["n"] + end["n"]) // 2
        return [InputPartition((start["n"], middle)), InputPartition((middle, end["n"]))]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        first, last = partition.value
        if self.options["kind"] == "arrow":
            numbers = range(first, last)
            yield pa.record_batch({"n": list(numbers)[:0], "s": pa.array([], pa.string())})
            yield pa.record_batch({"x": list(numbers), "y": [str(n) for n in numbers]})
            return
        for n in range(first, last):
            if self.options["kind"] == "raises" and n == 7:
                raise ValueError("seven is bad")
            yield (n,) if self.options["kind"] == "short" else (n, str(n))


class OldCounter(Counter):
    """Written for Spark 4.0: latestOffset takes no arguments."""

    def streamReader(self, schema: Any) -> DataSourceStreamReader:
        class OldReader(CounterReader):
            def latestOffset(self) -> dict[str, int]:  # type: ignore[override]
                return {"n": int(self.options["until"])}

        return OldReader(dict(self.options))


class Simple(DataSource):
    """Ten rows per read, as long as there are some; read() may look further ahead than readBetweenOffsets()."""

    def simpleStreamReader(self, schema: Any) -> SimpleDataSourceStreamReader:
        return SimpleReader(dict(self.options))


class SimpleReader(SimpleDataSourceStreamReader):
    def __init__(self, options: dict[str, str]) -> None:
        self.options = options

    def initialOffset(self) -> dict[str, int]:
        return {"n": 0}

    def read(self, start: dict[str, int]) -> tuple[Iterator[Any], dict[str, int]]:
        end = min(start["n"] + 10, int(self.options["until"]))
        return self.readBetweenOffsets(start, {"n": end}), {"n": start["n"] if self.options.get("stuck") else end}

    def readBetweenOffsets(self, start: dict[str, int], end: dict[str, int]) -> Iterator[Any]:
        return iter([(n, str(n)) for n in range(start["n"], end["n"])])


def scan(source: type[DataSource], columns: tuple[str, ...] | None = None, **options: Any) -> Scan:
    packed = pack(
        source, {"until": "25", "kind": "tuples"} | {k: str(v) for k, v in options.items()}, spark_schema(SCHEMA)
    )
    return scan_of(source.name(), SCHEMA, columns, packed)


def expected(until: int = 25) -> list[tuple[int, str]]:
    return [(n, str(n)) for n in range(until)]


@pytest.mark.parametrize("kind", ["tuples", "arrow"])
@pytest.mark.parametrize("source", [Counter, OldCounter])
def test_all_rows_of_all_partitions_are_read_once(source: type[DataSource], kind: str) -> None:
    assert read_all(scan(source, kind=kind), rows_max=4) == expected()


def test_columns_are_pruned_after_the_users_read() -> None:
    assert read_all(scan(Counter, columns=("s",))) == [(s,) for _, s in expected()]


def test_a_continuous_run_respects_the_sources_own_limit_and_goes_on_from_where_it_was() -> None:
    of, connectors = scan(Counter), ByNode()
    enumerator = connectors.enumerator(of, QueryConfig())
    rounds = [enumerator.discover(n) for n in range(4)]
    assert [len(found) for found in rounds] == [2, 2, 2, 0]
    assert [split.number for found in rounds for split in found] == list(range(6))
    source = connectors.source(of)
    assert [row for found in rounds for split in found for row in drain(source.open(split, None))] == expected()


def test_after_a_restore_the_enumerator_knows_its_splits_and_finds_only_new_ones() -> None:
    of, connectors = scan(Counter), ByNode()
    before = connectors.enumerator(of, QueryConfig())
    known = before.discover(0)
    after = connectors.enumerator(of, QueryConfig())
    assert after.restore(before.snapshot(), known[1:]) == known
    assert after.discover(1) == before.discover(1)


def test_forgotten_splits_leave_the_snapshot_and_numbering_goes_on() -> None:
    """Two partitions per range: a range is forgotten when both of its splits are done."""
    of, connectors = scan(Counter, until=60), ByNode()
    before = connectors.enumerator(of, QueryConfig())
    splits = [split for now_ms in range(3) for split in before.discover(now_ms)]
    oldest = before.snapshot()
    before.forget(3)
    after = connectors.enumerator(of, QueryConfig())
    assert after.restore(before.snapshot(), (splits[3],)) == tuple(splits[2:])
    assert [split.number for split in after.discover(3)] == [6, 7]
    old = connectors.enumerator(of, QueryConfig())
    assert old.restore(oldest, ()) == tuple(splits), "an older checkpoint's own state is whole"


def test_open_splits_that_the_offsets_do_not_name_are_an_error() -> None:
    of, connectors = scan(Counter), ByNode()
    before = connectors.enumerator(of, QueryConfig())
    splits = before.discover(0)
    before.forget(2)
    with pytest.raises(CorruptSnapshot, match="offsets do not name"):
        connectors.enumerator(of, QueryConfig()).restore(before.snapshot(), splits[1:])


def test_the_manifest_of_an_endless_source_does_not_grow() -> None:
    """1,000 discoveries, a checkpoint after each, every split read at once; then all retained checkpoints are restored."""
    of, connectors = scan(Counter, until=1_000_000), ByNode()
    forgetful, keeping = (connectors.enumerator(of, QueryConfig()) for _ in range(2))
    assigner = fresh(of.id, 1)
    sizes: list[tuple[int, int]] = []
    retained: deque[SourceState] = deque(maxlen=3)
    for now_ms in range(1_000):
        found = forgetful.discover(now_ms)
        keeping.discover(now_ms)
        assigner = assigner.on_discovered(found, forgetful.snapshot(), bounded=False, endless=False)
        # The last split is still open when the barrier passes, and done at the next one.
        state = assigner.fold(
            [SourceProgress(finished=tuple(FinishedSplit(split.number - 1) for split in found if split.number))]
        )
        assigner = assigner.on_completed(state)
        forgetful.forget(done_prefix(state.done))
        retained.append(state)
        sizes.append((len(msgspec.msgpack.encode(state)), len(keeping.snapshot())))
    assert max(size for size, _ in sizes) < 250
    assert sizes[-1][1] > 20_000, "what it would be if nothing were forgotten"
    for state in retained:
        restored = connectors.enumerator(of, QueryConfig())
        known = restored.restore(state.enumerator, ())
        unread = [split for split in known if not contains(state.done, split.number)]
        rows = [
            row for split in (*unread, *restored.discover(0)) for row in drain(connectors.source(of).open(split, None))
        ]
        first = state.done[0].stop * 5
        assert rows[:15] == [(n, str(n)) for n in range(first, first + 15)]


@pytest.mark.parametrize("kind", ["tuples", "arrow"])
def test_a_restore_from_every_position_yields_exactly_the_remaining_rows(kind: str) -> None:
    """T34: a record batch fetched ahead does not move the position."""
    of, connectors = scan(Counter, kind=kind), ByNode()
    split = connectors.enumerator(of, BOUNDED).discover(0)[1]
    everything = drain(connectors.source(of).open(split, None))
    for position, emitted in positions(connectors.source(of), split, rows_max=3):
        assert drain(connectors.source(of).open(split, position)) == everything[emitted:]


def test_what_is_planned_together_is_read_as_one() -> None:
    """As a batch of Structured Streaming: partitions of one range belong together, and the next range is the next batch."""
    for source, cuts in ((Counter, [True, False] * 3), (Simple, [True] * 3)):
        of, connectors = scan(source), ByNode()
        before = connectors.enumerator(of, QueryConfig())
        splits = [split for now_ms in range(4) for split in before.discover(now_ms)]
        assert [split.cut for split in splits] == cuts
        after = connectors.enumerator(of, QueryConfig())
        assert after.restore(before.snapshot(), ()) == tuple(splits), "also behind a restart"


def test_a_bounded_run_of_a_source_that_notes_its_end_keeps_the_sources_limit_up_to_there() -> None:
    class NotingReader(CounterReader, SupportsTriggerAvailableNow):
        def prepareForTriggerAvailableNow(self) -> None:
            assert "end" not in self.options, "noted once"
            self.options["end"] = self.options["until"]
            self.options["until"] = "1000"

        def latestOffset(self, start: dict[str, int], limit: Any) -> dict[str, int]:
            return {"n": min(int(self.options["end"]), start["n"] + limit.max_rows)}

    class Noting(Counter):
        def streamReader(self, schema: Any) -> DataSourceStreamReader:
            return NotingReader(dict(self.options))

    of, connectors = scan(Noting), ByNode()
    enumerator = connectors.enumerator(of, BOUNDED)
    splits = enumerator.discover(0)
    assert enumerator.bounded and [split.cut for split in splits] == [True, False] * 3
    assert [row for split in splits for row in drain(connectors.source(of).open(split, None))] == expected()


def test_a_simple_source_is_read_range_by_range_and_restored_by_its_own_method() -> None:
    of, connectors = scan(Simple), ByNode()
    enumerator = connectors.enumerator(of, QueryConfig())
    splits = [split for now_ms in range(5) for split in enumerator.discover(now_ms)]
    assert [split.number for split in splits] == [0, 1, 2]
    source = connectors.source(of)
    assert [row for split in splits for row in drain(source.open(split, None), rows_max=4)] == expected()
    for position, emitted in positions(source, splits[1], rows_max=4):
        assert drain(source.open(splits[1], position)) == expected()[10 + emitted : 20]


def test_bounded_runs_of_a_simple_source_take_one_read_each_and_go_on_from_each_other() -> None:
    of, connectors = scan(Simple), ByNode()
    seen: list[Any] = []
    state = b""
    for run in range(4):
        enumerator = connectors.enumerator(of, BOUNDED)
        known = enumerator.restore(state, ())
        found = enumerator.discover(run)
        assert enumerator.bounded and all(split.number >= len(known) for split in found)
        seen += [row for split in found for row in drain(connectors.source(of).open(split, None))]
        state = enumerator.snapshot()
    assert seen == expected()


def test_a_simple_source_that_does_not_move_is_an_error_and_no_endless_loop() -> None:
    with pytest.raises(DataError, match="did not move the offset"):
        read_all(scan(Simple, stuck="yes"))


def test_a_simple_source_that_cannot_repeat_itself_is_refused() -> None:
    class Forgetful(DataSource):
        def simpleStreamReader(self, schema: Any) -> SimpleDataSourceStreamReader:
            return SimpleDataSourceStreamReader()

    with pytest.raises(InvalidQuery, match="readBetweenOffsets"):
        ByNode().enumerator(scan(Forgetful), BOUNDED)


def test_an_error_in_read_shows_the_users_traceback() -> None:
    with pytest.raises(UserCodeFailed, match="seven is bad") as raised:
        read_all(scan(Counter, kind="raises"))
    assert "in read" in raised.value.message and "tidegate/connectors" not in raised.value.message


def test_rows_of_the_wrong_width_are_shown() -> None:
    with pytest.raises(DataError, match=r"\(0,\).*row of 2 values"):
        read_all(scan(Counter, kind="short"))


def test_a_source_that_plans_other_partitions_in_the_slot_is_refused() -> None:
    of, connectors = scan(Counter), ByNode()
    (split, _) = connectors.enumerator(of, BOUNDED).discover(0)
    import msgspec

    from tidegate.connectors.python_source.splits import PartitionSplit

    other = msgspec.structs.replace(msgspec.msgpack.decode(split.payload, type=PartitionSplit), count=5)
    with pytest.raises(DataError, match="5 partitions on the driver"):
        connectors.source(of).open(type(split)(number=0, payload=msgspec.msgpack.encode(other)), None)


def test_fewer_rows_after_a_restart_are_noticed() -> None:
    of, connectors = scan(Counter), ByNode()
    (split, _) = connectors.enumerator(of, BOUNDED).discover(0)
    reader = connectors.source(of).open(split, None)
    drain(reader)
    shrunk = type(split)(number=0, payload=split.payload.replace(b'{"n": 25}', b'{"n": 15}'))
    with pytest.raises(DataError, match="same rows again"):
        connectors.source(of).open(shrunk, reader.position)


def test_a_source_without_a_stream_is_refused() -> None:
    class BatchOnly(DataSource):
        pass

    with pytest.raises(InvalidQuery, match="cannot be read as a stream"):
        ByNode().enumerator(scan(BatchOnly), BOUNDED)


class Tail(DataSource):
    """Begins at the end of what is there."""

    def streamReader(self, schema: Any) -> DataSourceStreamReader:
        return TailReader(dict(self.options))


class TailReader(CounterReader):
    def initialOffset(self) -> dict[str, int]:
        return {"n": int(self.options["until"])}


def test_an_initial_offset_that_moves_is_asked_for_once(tmp_path: Path) -> None:
    """The second attempt comes before any checkpoint, when more rows are there."""
    store = LocalBlobStore(tmp_path)

    def attempt(end: int, **options: Any) -> str:
        enumerator = RangeEnumerator(
            stream_reader(Tail({"until": str(end), "kind": "tuples"}), spark_schema(SCHEMA)),
            "tail",
            bounded=False,
            asked=asked_of(TAIL_OPTIONS | options),
        )
        assert RestoredSources(None, store).restore(OperatorId("source-0"), enumerator, 0) == ()
        enumerator.discover(0)
        return str(msgspec.msgpack.decode(enumerator.snapshot(), type=KnownRanges).ranges)

    assert attempt(40) == "()"
    assert "'{\"n\": 40}', end='{\"n\": 50}'" in attempt(60)
    assert attempt(60, since="now") == "()", "other options, another beginning"
    assert "'{\"n\": 40}'" in attempt(70, password="rotated"), "secrets say nothing about it"


TAIL_OPTIONS = {"password": "first"}
