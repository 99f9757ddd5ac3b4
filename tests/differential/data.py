"""Seeded tables for differential tests: nulls, unicode, extremes, negative numbers, times in no order, several files.

Floats are dyadic and bounded, so that their sums are exact in any order. Every file covers the whole time of its table, its rows in random
order: far more disorder than any query's delay. Times have microseconds, some are equal, also over files, and some events have none.
"""

from __future__ import annotations

import datetime
import decimal
import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

START = datetime.datetime(2026, 3, 1, 23, 59, 0, tzinfo=datetime.UTC)
"""A minute before midnight: windows, dates and hours all change inside the data."""
KEYS = ("ann", "bob", "Zoë", "日本", "emoji 🎈", "", " padded ", "ANN")
LONGS = (0, 1, -1, 2**53, -(2**53), 2**63 - 1, -(2**63))

EVENTS = pa.schema(
    [
        ("id", pa.int64()),
        ("key", pa.string()),
        ("grp", pa.int32()),
        ("amount", pa.int64()),
        ("small", pa.int16()),
        ("huge", pa.int64()),
        ("price", pa.float64()),
        ("ratio", pa.float64()),
        ("cost", pa.decimal128(12, 2)),
        ("flag", pa.bool_()),
        ("ts", pa.timestamp("us", "UTC")),
        ("day", pa.date32()),
        ("text", pa.string()),
        ("raw", pa.binary()),
        ("tags", pa.list_(pa.string())),
        ("point", pa.struct([("x", pa.int32()), ("y", pa.string())])),
    ]
)

BIDS = pa.schema(
    [
        ("auction", pa.int64()),
        ("bidder", pa.int64()),
        ("price", pa.int64()),
        ("channel", pa.string()),
        ("url", pa.string()),
        ("date_time", pa.timestamp("us", "UTC")),
    ]
)
AUCTIONS = pa.schema(
    [("id", pa.int64()), ("item", pa.string()), ("seller", pa.int64()), ("date_time", pa.timestamp("us", "UTC"))]
)
PERSONS = pa.schema([("id", pa.int64()), ("name", pa.string()), ("city", pa.string()), ("state", pa.string())])


def events(seed: int, rows: int = 1_500) -> list[dict[str, Any]]:
    chance = random.Random(seed)

    def maybe(value: Any, nulls: float = 0.08) -> Any:
        return None if chance.random() < nulls else value

    def event(number: int) -> dict[str, Any]:
        return {
            "id": number,
            "key": maybe(chance.choice(KEYS)),
            "grp": maybe(chance.randrange(-2, 5)),
            "amount": maybe(chance.randrange(-1_000, 1_000)),
            "small": maybe(chance.choice((-(2**15), -7, 0, 3, 2**15 - 1))),
            "huge": maybe(chance.choice(LONGS)),
            "price": maybe(chance.randrange(-(2**20), 2**20) / 8),
            "ratio": maybe(chance.choice((0.0, 1.5, -2.25, float("nan"), float("inf"), float("-inf")))),
            "cost": maybe(decimal.Decimal(chance.randrange(-(10**6), 10**6)).scaleb(-2)),
            "flag": maybe(chance.random() < 0.5),
            "ts": maybe(_moment(chance, 80 * number), nulls=0.02),
            "day": maybe(datetime.date(1969, 12, 1) + datetime.timedelta(days=chance.randrange(-400, 40_000))),
            "text": maybe(f"{chance.choice(('The quick', 'Ünïcode', 'tab	bed', ''))} {chance.choice(KEYS)}"),
            "raw": maybe(chance.randbytes(chance.randrange(4))),
            "tags": maybe([maybe(chance.choice(KEYS)) for _ in range(chance.randrange(4))]),
            "point": maybe({"x": maybe(chance.randrange(10)), "y": maybe(chance.choice(KEYS))}),
        }

    return [event(number) for number in range(rows)]


def _moment(chance: random.Random, about_ms: int) -> datetime.datetime:
    """Within five seconds, to the microsecond; one in ten at a full second."""
    moment = START + datetime.timedelta(milliseconds=about_ms, seconds=-5 * chance.random())
    return moment.replace(microsecond=0) if chance.random() < 0.1 else moment


def bids(seed: int, rows: int = 2_000) -> list[dict[str, Any]]:
    chance = random.Random(seed + 1)
    return [
        {
            "auction": 1_000 + (0 if chance.random() < 0.5 else chance.randrange(120)),
            "bidder": 1_000 + chance.randrange(60),
            "price": round(10 ** (chance.random() * 6) * 100),
            "channel": chance.choice(("Google", "Facebook", "Baidu", "Apple", f"channel-{chance.randrange(50)}")),
            "url": f"https://auction.test/{chance.randrange(65536):04x}/item.htm?query=1&channel_id={number % 97}",
            "date_time": _moment(chance, 25 * number),
        }
        for number in range(rows)
    ]


def auctions(seed: int, rows: int = 120) -> list[dict[str, Any]]:
    chance = random.Random(seed + 2)
    return [
        {
            "id": 1_000 + number,
            "item": f"item {number}",
            "seller": 1_000 + chance.randrange(60),
            "date_time": START + datetime.timedelta(milliseconds=400 * number),
        }
        for number in range(rows)
    ]


def persons(seed: int, rows: int = 50) -> list[dict[str, Any]]:
    chance = random.Random(seed + 3)
    return [
        {
            "id": 1_000 + number,
            "name": f"person {number}",
            "city": chance.choice(("Boise", "Bend", "Köln")),
            "state": chance.choice(("OR", "ID", "CA", None)),
        }
        for number in range(rows)
    ]


def write_tables(root: Path, seed: int) -> None:
    """One directory per table and format; see ``Sources``."""
    tables = {
        "events": (EVENTS, events(seed)),
        "more": (EVENTS, events(seed + 100, 600)),
        "bids": (BIDS, bids(seed)),
        "auctions": (AUCTIONS, auctions(seed)),
        "persons": (PERSONS, persons(seed)),
    }
    chance = random.Random(seed)
    for name, (schema, rows) in tables.items():
        _write_parquet(root / name, schema, dealt(chance, rows))
    _write_json(root / "bids_json", dealt(chance, bids(seed)))


def dealt(chance: random.Random, rows: list[dict[str, Any]], count: int = 5) -> list[list[dict[str, Any]]]:
    """Any row into any file, in random order."""
    shuffled = chance.sample(rows, len(rows))
    return [piece for number in range(count) if (piece := shuffled[number::count])]


def _write_parquet(folder: Path, schema: pa.Schema, pieces: list[list[dict[str, Any]]]) -> None:
    folder.mkdir(parents=True)
    for number, piece in enumerate(pieces):
        pq.write_table(pa.Table.from_pylist(piece, schema=schema), folder / f"part-{number}.parquet")


def _write_json(folder: Path, pieces: list[list[dict[str, Any]]]) -> None:
    folder.mkdir(parents=True)
    for number, piece in enumerate(pieces):
        lines = (json.dumps(row, default=_iso, ensure_ascii=False) for row in piece)
        (folder / f"part-{number}.json").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _iso(value: datetime.datetime) -> str:
    return value.strftime("%Y-%m-%dT%H:%M:%S.%f") + "Z"
