"""The key-group hash: golden vectors, and one hash for every representation of one value."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal as D
from pathlib import Path

import polars as pl
import pytest

from tidegate.model import types as t
from tidegate.model.types import Array, Decimal, Field, Map, Struct
from tidegate.state.hashing import hash_columns

GOLDEN = Path(__file__).with_name("golden_hashes.json")
POINT = Struct((Field("x", t.LONG), Field("y", t.STRING)))

COLUMNS: dict[str, tuple[t.DataType, pl.Series]] = {
    "boolean": (t.BOOLEAN, pl.Series([True, False, None])),
    "tinyint": (t.BYTE, pl.Series([0, 1, -1, 127, None], dtype=pl.Int8)),
    "int": (t.INTEGER, pl.Series([0, 1, -1, 2**31 - 1, None], dtype=pl.Int32)),
    "bigint": (t.LONG, pl.Series([0, 1, -1, 2**63 - 1, -(2**63), None], dtype=pl.Int64)),
    "float": (t.FLOAT, pl.Series([0.0, 1.5, math.nan, None], dtype=pl.Float32)),
    "double": (t.DOUBLE, pl.Series([0.0, -0.0, 1.5, math.nan, math.inf, None])),
    "string": (t.STRING, pl.Series(["", "a", "tidegate", "grüße, 世界", "x" * 100, None])),
    "binary": (t.BINARY, pl.Series([b"", b"a", b"\x00\xff", None])),
    "date": (t.DATE, pl.Series([date(1970, 1, 1), date(2026, 7, 1), None])),
    "timestamp": (t.TIMESTAMP, pl.Series([datetime(2026, 7, 1, tzinfo=UTC), None], dtype=pl.Datetime("us", "UTC"))),
    "interval": (t.DAY_TIME_INTERVAL, pl.Series([timedelta(seconds=1), None], dtype=pl.Duration("us"))),
    "decimal(10,2)": (Decimal(10, 2), pl.Series([D("0"), D("1.50"), D("-1.5"), None], dtype=pl.Decimal(10, 2))),
    "decimal(38,0)": (Decimal(38, 0), pl.Series([D(10**37), D(-(10**37)), None], dtype=pl.Decimal(38, 0))),
    "array<bigint>": (Array(t.LONG), pl.Series([[], [1], [1, 2], [2, 1], [None], None], dtype=pl.List(pl.Int64))),
    "map<string,bigint>": (
        Map(t.STRING, t.LONG),
        pl.Series([[{"key": "a", "value": 1}, {"key": "b", "value": None}], [], None]),
    ),
    "struct": (POINT, pl.Series([{"x": 1, "y": "a"}, {"x": None, "y": "a"}, None])),
    "array<struct>": (Array(POINT), pl.Series([[{"x": 1, "y": "a"}, {"x": 2, "y": None}], []])),
    "void": (t.NULL, pl.Series([None, None])),
}


def hashes(of: t.DataType, *values: object, dtype: pl.DataType | None = None) -> list[int]:
    return hash_columns(pl.DataFrame({"c": pl.Series(list(values), dtype=dtype)}), (of,)).tolist()


def computed() -> dict[str, list[int]]:
    vectors = {
        name: hash_columns(pl.DataFrame({"c": column}), (of,)).tolist() for name, (of, column) in COLUMNS.items()
    }
    two = pl.DataFrame({"a": [1, 1, None], "b": ["x", None, "x"]})
    return vectors | {"(bigint, string)": hash_columns(two, (t.LONG, t.STRING)).tolist()}


def test_hashes_equal_the_golden_vectors() -> None:
    """T44. A difference here orphans every stored checkpoint: mend the code, never the file."""
    assert computed() == json.loads(GOLDEN.read_text())


@pytest.mark.parametrize("seed", ["0", "12345"])
def test_another_interpreter_with_another_hash_seed_agrees(seed: str) -> None:
    """T44."""
    program = (
        "import polars as pl; from tidegate.model.types import LONG, STRING; from tidegate.state.hashing import hash_columns;"
        "print(hash_columns(pl.DataFrame({'a': [1, 1, None], 'b': ['x', None, 'x']}), (LONG, STRING)).tolist())"
    )
    environment = {**os.environ, "PYTHONHASHSEED": seed}
    answer = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    assert json.loads(answer.stdout) == computed()["(bigint, string)"]


def test_a_long_is_hashed_by_splitmix64() -> None:
    def splitmix64(x: int) -> int:
        x = (x + 0x9E3779B97F4A7C15) % 2**64
        x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
        x = (x ^ (x >> 27)) * 0x94D049BB133111EB % 2**64
        return x ^ (x >> 31)

    values = [0, 1, -1, 7, 2**62]
    assert hashes(t.LONG, *values) == [splitmix64(value % 2**64) for value in values]


def test_blocks_do_not_show() -> None:
    whole = pl.DataFrame({"a": pl.arange(0, 100_001, eager=True)})
    apart = [hash_columns(whole[i : i + 1], (t.LONG,))[0] for i in (0, 32_767, 32_768, 100_000)]
    together = hash_columns(whole, (t.LONG,))
    assert [together[i] for i in (0, 32_767, 32_768, 100_000)] == apart


def test_all_widths_of_an_integer_hash_alike() -> None:
    widths = ((t.BYTE, pl.Int8()), (t.SHORT, pl.Int16()), (t.INTEGER, pl.Int32()), (t.LONG, pl.Int64()))
    assert len({tuple(hashes(of, 7, -3, dtype=dtype)) for of, dtype in widths}) == 1


def test_equal_floats_hash_alike() -> None:
    negative_nan = pl.Series([math.nan]) * -1
    double = hashes(t.DOUBLE, 0.0, -0.0, math.nan, negative_nan[0], 1.5)
    assert double[0] == double[1] and double[2] == double[3]
    assert hashes(t.FLOAT, 1.5, dtype=pl.Float32()) == double[4:]


def test_a_decimal_is_hashed_by_value() -> None:
    narrow = hashes(Decimal(5, 1), D("1.5"), D("-7"), dtype=pl.Decimal(5, 1))
    assert narrow == hashes(Decimal(38, 20), D("1.5"), D("-7"), dtype=pl.Decimal(38, 20))
    assert len(set(hashes(Decimal(20, 3), *[D(i) / 8 for i in range(1000)], dtype=pl.Decimal(20, 3)))) == 1000


def test_the_order_of_a_list_matters_and_that_of_a_map_does_not() -> None:
    assert len(set(hashes(Array(t.LONG), [1, 2], [2, 1], [1], [], [None], None, [1, 2, None]))) == 7
    forth = [{"key": "a", "value": 1}, {"key": "b", "value": 2}]
    one, other, swapped = hashes(
        Map(t.STRING, t.LONG), forth, forth[::-1], [{"key": "a", "value": 2}, {"key": "b", "value": 1}]
    )
    assert one == other != swapped


def test_a_struct_hashes_as_its_fields_do() -> None:
    fields = pl.DataFrame({"x": [1, None], "y": ["a", "b"]})
    whole = fields.select(pl.struct("x", "y"))
    assert hash_columns(whole, (POINT,)).tolist() == hash_columns(fields, (t.LONG, t.STRING)).tolist()


def test_sliced_columns_hash_like_whole_ones() -> None:
    for of, column in COLUMNS.values():
        frame = pl.DataFrame({"c": column})
        assert hash_columns(frame[1:], (of,)).tolist() == hash_columns(frame, (of,)).tolist()[1:]


def test_without_columns_every_row_hashes_to_zero() -> None:
    assert hash_columns(pl.DataFrame(height=3), ()).tolist() == [0, 0, 0]


if __name__ == "__main__":
    GOLDEN.write_text(json.dumps(computed(), indent=1, ensure_ascii=False) + "\n")
