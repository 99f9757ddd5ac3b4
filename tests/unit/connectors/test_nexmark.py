from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
import pytest
from tests.nodes import ByNode, look_context, planned_scan, read_context
from tests.unit.connectors.reading import drain, positions, read_all, scan_of

from tidegate.connectors.fixed_splits import FixedEnumerator
from tidegate.connectors.legacy import Scan
from tidegate.connectors.nexmark import source as module
from tidegate.connectors.nexmark.config import BASE_TIME_MS, TABLES, NexmarkConfig, parse_nexmark
from tidegate.connectors.nexmark.generator import NexmarkGenerator
from tidegate.connectors.nexmark.spec import NexmarkSpec
from tidegate.connectors.pacing import wall_ms
from tidegate.model.config import QueryConfig
from tidegate.model.errors import InvalidQuery


def scan(table: str, columns: tuple[str, ...] | None = None, **options: Any) -> Scan:
    return scan_of("tidegate-nexmark", TABLES[table], columns, table=table, **options)


def config_of(of: Scan) -> NexmarkConfig:
    spec = planned_scan(of).spec
    assert isinstance(spec, NexmarkSpec)
    return spec.nexmark


def nexmark_enumerator(of: Scan, config: QueryConfig, wall: Callable[[], int] = wall_ms) -> FixedEnumerator:
    return module.nexmark_enumerator(config_of(of), look_context(config), wall)


def NexmarkSource(of: Scan, wall: Callable[[], int] = wall_ms) -> module.NexmarkSource:
    return module.NexmarkSource(config_of(of), read_context(of), wall)


def table(name: str, rows: int, **config: Any) -> pl.DataFrame:
    return NexmarkGenerator(NexmarkConfig(table=name, **config)).rows(np.arange(rows, dtype=np.int64))


@pytest.mark.parametrize("events", [0, 1, 2, 49, 50, 51, 99, 12_345])
def test_of_fifty_events_one_is_a_person_three_are_auctions_and_the_rest_bids(events: int) -> None:
    counts = {name: NexmarkConfig(table=name, events=events).rows for name in TABLES}
    by_hand = dict.fromkeys(TABLES, 0)
    for event in range(events):
        place = event % 50
        by_hand["person" if place == 0 else "auction" if place < 4 else "bid"] += 1
    assert counts == by_hand


@pytest.mark.parametrize("name", list(TABLES))
def test_any_cut_into_splits_and_batches_gives_the_same_rows(name: str) -> None:
    whole = read_all(scan(name, events=5_000, partitions=1, seed=3))
    cut = read_all(scan(name, events=5_000, partitions=7, seed=3), rows_max=13)
    assert len(whole) == NexmarkConfig(table=name, events=5_000).rows
    assert sorted(cut, key=str) == sorted(whole, key=str)


@pytest.mark.parametrize("name", list(TABLES))
def test_a_restore_from_every_position_yields_exactly_the_remaining_rows(name: str) -> None:
    of = scan(name, events=3_000, partitions=2)
    split = nexmark_enumerator(of, QueryConfig()).discover(0)[1]
    everything = drain(NexmarkSource(of).open(split, None))
    for position, emitted in positions(NexmarkSource(of), split, rows_max=50):
        assert drain(NexmarkSource(of).open(split, position)) == everything[emitted:]


def test_another_seed_gives_other_rows_at_the_same_times() -> None:
    one, other = table("bid", 1_000), table("bid", 1_000, seed=1)
    assert one["date_time"].equals(other["date_time"])
    assert not one["price"].equals(other["price"]) and not one["channel"].equals(other["channel"])


def test_rows_are_the_same_in_every_process() -> None:
    code = (
        "import numpy as np, zlib\nfrom tidegate.connectors.nexmark.config import NexmarkConfig\n"
        "from tidegate.connectors.nexmark.generator import NexmarkGenerator\n"
        "rows = NexmarkGenerator(NexmarkConfig(table='bid', seed=5)).rows(np.arange(500))\n"
        "print(zlib.crc32(rows.write_csv().encode()))"
    )
    answers = {
        subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        ).stdout
        for seed in ("1", "2")
    }
    assert len(answers) == 1


def test_half_of_the_bids_go_to_hot_auctions_and_three_of_four_come_from_hot_bidders() -> None:
    bids = table("bid", 200_000)
    hot_auctions = (bids["auction"] % 100 == 0).mean()
    hot_bidders = (bids["bidder"] % 100 == 1).mean()
    assert isinstance(hot_auctions, float) and isinstance(hot_bidders, float)
    assert 0.48 < hot_auctions < 0.54 and 0.73 < hot_bidders < 0.79


def test_bids_refer_to_auctions_and_auctions_to_persons_that_mostly_exist() -> None:
    bids, auctions, persons = table("bid", 46_000), table("auction", 3_000), table("person", 1_000)
    assert bids["auction"].is_in(auctions["id"].implode()).mean() > 0.9  # type: ignore[operator]
    assert auctions["seller"].is_in(persons["id"].implode()).mean() > 0.9  # type: ignore[operator]
    assert persons["id"].is_unique().all() and auctions["id"].is_unique().all()
    assert (auctions["expires"] > auctions["date_time"]).all() and (auctions["reserve"] > auctions["initial_bid"]).all()


def test_event_time_rises_with_the_event_number_at_the_rate_asked_for() -> None:
    times = table("bid", 92_000, event_rate=1_000)["date_time"].dt.epoch("ms")
    assert times.is_sorted() and times[0] == BASE_TIME_MS + 4
    assert times[-1] == BASE_TIME_MS + 99_999


def test_only_wanted_columns_are_made() -> None:
    assert read_all(scan("bid", columns=("price",), events=50))[:3] == [(p,) for p in table("bid", 3)["price"]]
    assert len(read_all(scan("bid", columns=(), events=50))) == 46


def test_a_paced_source_brings_what_is_due_and_no_more() -> None:
    of = scan("bid", rate=1_000, partitions=1)
    (split,) = nexmark_enumerator(of, QueryConfig(), lambda: 5_000).discover(0)
    reader = NexmarkSource(of, lambda: 5_000).open(split, None)
    assert reader.read(10_000, 0) is None
    frame = reader.read(10_000, 1_000)
    assert frame is not None and frame.height == 920 and reader.read(10_000, 1_000) is None
    restored = NexmarkSource(of, lambda: 7_000).open(split, reader.position).read(10_000, 0)
    assert restored is not None and restored.height == 920 and not reader.finished


def test_a_stream_without_end_cannot_be_read_to_its_end() -> None:
    with pytest.raises(InvalidQuery, match="no end"):
        ByNode().enumerator(scan("bid"), QueryConfig(bounded=True))


def test_a_stream_with_an_end_is_bounded_by_itself() -> None:
    enumerator = nexmark_enumerator(scan("bid", events=100), QueryConfig(parallelism=3))
    assert not enumerator.bounded and len(enumerator.discover(0)) == 3 and enumerator.bounded


def test_the_number_of_splits_is_fixed_at_the_first_start() -> None:
    first = nexmark_enumerator(scan("bid", events=100), QueryConfig(parallelism=3))
    splits = first.discover(0)
    second = nexmark_enumerator(scan("bid", events=100), QueryConfig(parallelism=5))
    assert second.restore(first.snapshot(), ()) == splits and second.discover(1) == ()


def test_a_checkpoint_before_the_first_discovery_restores_to_a_fresh_start() -> None:
    first = nexmark_enumerator(scan("bid", events=100), QueryConfig(parallelism=3))
    second = nexmark_enumerator(scan("bid", events=100), QueryConfig(parallelism=3))
    assert second.restore(first.snapshot(), ()) == () and len(second.discover(0)) == 3


@pytest.mark.parametrize("options", [{"table": "bids"}, {"events": "-1"}, {"eventRate": "0"}])
def test_options_that_make_no_sense_are_refused(options: dict[str, str]) -> None:
    with pytest.raises(InvalidQuery):
        parse_nexmark(options)


def test_the_table_may_be_called_type_too() -> None:
    assert parse_nexmark({"TYPE": "Person"}).table == "person"
