from __future__ import annotations

import datetime
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from tests.nodes import look_context, planned_scan, read_context
from tests.unit.connectors.reading import scan_of

from tidegate.connectors.fixed_splits import FixedEnumerator
from tidegate.connectors.legacy import Scan
from tidegate.connectors.pacing import wall_ms
from tidegate.connectors.rate import source as module
from tidegate.connectors.rate.config import RateConfig
from tidegate.connectors.rate.source import RateReader, RateSplit
from tidegate.connectors.rate.spec import RateSpec
from tidegate.model import types as t
from tidegate.model.config import QueryConfig
from tidegate.model.errors import InvalidQuery
from tidegate.model.ids import OperatorId
from tidegate.model.types import Field
from tidegate.spark.restored_sources import RestoredSources
from tidegate.storage.local import LocalBlobStore

RATE = (Field("timestamp", t.TIMESTAMP), Field("value", t.LONG))
STARTED_MS = 1_700_000_000_000


class Wall:
    def __init__(self) -> None:
        self.now_ms = STARTED_MS

    def __call__(self) -> int:
        return self.now_ms


def scan(**options: Any) -> Scan:
    return scan_of("rate", RATE, **options)


def config_of(of: Scan) -> RateConfig:
    spec = planned_scan(of).spec
    assert isinstance(spec, RateSpec)
    return spec.rate


def rate_enumerator(of: Scan, config: QueryConfig, wall: Callable[[], int] = wall_ms) -> FixedEnumerator:
    return module.rate_enumerator(config_of(of), look_context(config), wall)


def RateSource(of: Scan, wall: Callable[[], int] = wall_ms) -> module.RateSource:
    return module.RateSource(config_of(of), read_context(of), wall)


def values(reader: RateReader, now_ms: int) -> list[int]:
    found: list[int] = []
    while (frame := reader.read(7, now_ms)) is not None:
        found += frame["value#1"].to_list()
    return found


def test_values_are_dense_over_all_partitions_and_come_when_due() -> None:
    wall, of = Wall(), scan(rowsPerSecond=10, numPartitions=3)
    splits = rate_enumerator(of, QueryConfig(), wall).discover(0)
    readers = [RateSource(of, wall).open(split, None) for split in splits]
    assert [values(reader, 500) for reader in readers] == [[], [], []]
    assert sorted(v for reader in readers for v in values(reader, 1_500)) == list(range(10))
    assert sorted(v for reader in readers for v in values(reader, 2_000)) == list(range(10, 15))


def test_a_restore_neither_loses_nor_repeats_a_value_and_catches_up() -> None:
    wall, of = Wall(), scan(rowsPerSecond=10, numPartitions=1)
    (split,) = rate_enumerator(of, QueryConfig(), wall).discover(0)
    reader = RateSource(of, wall).open(split, None)
    reader.read(7, 100)
    first = reader.read(7, 1_100)
    wall.now_ms += 3_000
    again = RateSource(of, wall).open(split, reader.position)
    assert first is not None and first["value#1"].to_list() + values(again, 77_000) == list(range(30))


def test_a_wall_clock_that_jumps_changes_nothing_while_running() -> None:
    """T28."""
    wall, of = Wall(), scan(rowsPerSecond=10, numPartitions=1)
    (split,) = rate_enumerator(of, QueryConfig(), wall).discover(0)
    reader = RateSource(of, wall).open(split, None)
    assert values(reader, 0) == []
    wall.now_ms += 86_400_000
    assert values(reader, 1_000) == list(range(10))
    wall.now_ms -= 2 * 86_400_000
    assert values(reader, 2_000) == list(range(10, 20))


def test_timestamps_tell_when_a_value_was_due() -> None:
    wall, of = Wall(), scan(rowsPerSecond=4, numPartitions=1)
    (split,) = rate_enumerator(of, QueryConfig(), wall).discover(0)
    reader = RateSource(of, wall).open(split, None)
    reader.read(10, 0)
    frame = reader.read(10, 1_000)
    start = datetime.datetime.fromtimestamp(STARTED_MS / 1_000, datetime.UTC)
    assert frame is not None
    assert frame["timestamp#0"].to_list() == [start + datetime.timedelta(milliseconds=250 * n) for n in range(4)]


def test_the_speed_ramps_up_in_steps_and_no_value_comes_before_its_timestamp() -> None:
    config = RateConfig(rows_per_second=100, ramp_up_s=4)
    assert [config.due_at_second(second) for second in range(7)] == [0, 20, 60, 120, 200, 300, 400]
    offsets_us = config.offsets_us(np.arange(400))
    assert (np.diff(offsets_us) > 0).all()
    assert offsets_us[[0, 20, 60, 200, 300]].tolist() == [0, 1_000_000, 2_000_000, 4_000_000, 5_000_000]
    assert all(config.due(int(at_us) // 1_000) <= value for value, at_us in enumerate(offsets_us))


def test_a_source_without_end_cannot_be_read_to_its_end() -> None:
    with pytest.raises(InvalidQuery, match="no end"):
        rate_enumerator(scan(), QueryConfig(bounded=True))


def test_all_partitions_are_dealt_out_at_once() -> None:
    """None of them ever ends, so one that waited for another would wait for ever."""
    found = rate_enumerator(scan(numPartitions=9), QueryConfig(parallelism=2))
    assert found.endless
    assert found.ordered, "each tells its own time"


@pytest.mark.parametrize(
    "options", [{"rowsPerSecond": 0}, {"rampUpTime": "soon"}, {"rowsPerSecond": 2, "rampUpTime": "5s"}]
)
def test_rates_that_make_no_sense_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidQuery):
        rate_enumerator(scan(**options), QueryConfig())


def test_the_time_at_which_the_source_began_is_the_first_starts(tmp_path: Path) -> None:
    """As in Spark, which writes it down: values that were due since then come with the times that they were due at."""
    wall, of, store = Wall(), scan(rowsPerSecond=10, numPartitions=2), LocalBlobStore(tmp_path)

    def attempt() -> list[RateSplit]:
        enumerator = rate_enumerator(of, QueryConfig(), wall)
        known = RestoredSources(None, store).restore(OperatorId("source-0"), enumerator, 0)
        assert enumerator.discover(0) == ()
        return [msgspec.msgpack.decode(split.payload, type=RateSplit) for split in known]

    first = attempt()
    wall.now_ms += 60_000
    assert attempt() == first and [split.started_ms for split in first] == [STARTED_MS] * 2
