"""Nasty values of every type, by column: what expressions are tried on, ours and Spark's."""

from __future__ import annotations

import math
import random
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal as D
from typing import Any

import pyarrow as pa

from tidegate.model import types as t
from tidegate.model.types import DataType, Field
from tidegate.operators.columns import arrow_schema, from_arrow

ROWS = 240

_TEXTS = ["", " ", "a", "abc", "Abc Def", "héllo wörld", "ß", "日本語 テキスト", "😀x", "a,b,,c", "  pad  ", "x\ty", "A-b_C",
          "foo123bar45", "100%", "under_score", "back\\slash", "new\nline", "aaa", "ab"]  # fmt: skip
_NUMBERS = ["12", " 12 ", "+7", "-0", "1.5", "-1.5e3", "1e400", "abc", "", " ", "9223372036854775807", "9223372036854775808",
            "128", "-129", "NaN", "inf", "-Infinity", "1d", "0x1A", "1_000", ".5", "5.", "1e", "--1", "\t3\n", "2147483648",
            "123456789.987654321", "1E-3", "0.005", "99999999.995", "true", "T", "no", "0", "1", "yes "]  # fmt: skip
_TIMES = ["2024-02-29", "2023-02-29", "2024-1-2", "2024", "2024-07", "2024-03-10 02:30:00", "2024-11-03 01:30:00",
          "2024-07-04T12:34:56.789", "2024-07-04 12:34:56.123456789", "2024-07-04T12:34:56Z", "2024-07-04 12:34:56+05:30",
          "2024-07-04 25:00:00", "1969-12-31 23:59:59.9", " 2020-01-01 ", "garbage", "", "2024-13-01", "2024-07-04 12:34",
          "2024-07-04 1:2:3", "0001-01-01", "9999-12-31 23:59:59.999999", "2024-07-04 12:34:56 UTC", "2024-07-04T",
          "2024-07-04 12:34:56-0800", "2024-07-04 12:34:56 +01:00", "+2024-07-04", "2024-07-04 12:34:60"]  # fmt: skip
_PATTERNED = ["2024-07-04 12:34:56", "2024/07/04", "04.07.2024 01:02", "2024-02-30 00:00:00", "x", "2024-7-4 1:2:3"]
_INSTANTS = [datetime(1970, 1, 1), datetime(1969, 12, 31, 23, 59, 59, 999999), datetime(2024, 2, 29, 12, 30, 15, 250000),
             datetime(2024, 3, 10, 6, 59, 59), datetime(2024, 3, 10, 7, 0), datetime(2024, 3, 10, 7, 30),
             datetime(2024, 11, 3, 5, 30), datetime(2024, 11, 3, 6, 30), datetime(2023, 12, 31, 23, 59, 59, 1),
             datetime(1900, 1, 1), datetime(2096, 2, 28, 1, 2, 3, 4), datetime(1883, 11, 18, 16, 0),
             datetime(2021, 1, 3, 10), datetime(2020, 12, 31, 4, 0, 0, 120000)]  # fmt: skip
_DATES = [date(1970, 1, 1), date(2024, 2, 29), date(2023, 2, 28), date(1969, 12, 31), date(2021, 1, 3), date(2020, 12, 31),
          date(1, 1, 1), date(9999, 12, 31), date(2024, 3, 10), date(2024, 11, 3), date(1582, 10, 10), date(2024, 1, 31)]  # fmt: skip
_DOUBLES = [0.0, -0.0, 1.0, -1.0, 1.5, 2.5, -2.5, 1.005, 0.285, 2.675, 0.1, math.nan, math.inf, -math.inf, 1e308, -1e308,
            5e-324, 1e-5, 123456.789, 1e7, 9999999.0, 1e16, 1e22, 12345678901234567.0, 9.2e18, 9.3e18, -9.3e18, 2147483647.5,
            0.001, 0.00099, 127.9, -128.9, 3.0, 0.5, 1e15 + 0.3, 100.0]  # fmt: skip


_JSON = ['{"a": 1, "b": "x", "c": [1, 2, null], "d": {"e": 2.5}}', '{"a": null, "b": "é\\n\\"q\\u00e9"}', "[1, 2, 3]", "[]", "{}", "", "null",
         "not json", '{"a": 1', '{"a": "1", "b": 2}', '{"a": 99999999999, "b": true}', '[{"a": 1}, {"a": 2}]', '"text"', "12",
         '{"a b": {"c": "d"}, "x": false}', '{"a": 1.0, "b": [1, "z"]}', '{"d": {"e": 1e3}, "c": "s"}']  # fmt: skip
_URLS = ["http://user:pw@host.org:8080/path/p.php?query=1&b=two#frag", "https://example.com", "ftp://ftp.x.org/a%20b",
         "http://example.com/?q=%C3%A9&q=2&empty=", "", "not a url", "mailto:a@b.c", "http://h/a?b", "//host/p", "http://h/#"]  # fmt: skip


def _ints(bits: int) -> list[int]:
    high = (1 << bits - 1) - 1
    return [0, 1, -1, 2, -2, 3, 7, -7, 10, 100, -100, high, -high, -high - 1, high - 1, high // 2 + 1, 31, 64, 120]


POOLS: dict[str, tuple[DataType, list[Any]]] = {
    "b": (t.BYTE, _ints(8)),
    "b2": (t.BYTE, _ints(8)),
    "s": (t.SHORT, _ints(16)),
    "s2": (t.SHORT, _ints(16)),
    "i": (t.INTEGER, _ints(32)),
    "i2": (t.INTEGER, _ints(32)),
    "k": (t.INTEGER, [-5, -3, -1, 0, 1, 2, 3, 4, 8, 20]),
    "l": (t.LONG, [*_ints(64), 3_037_000_500, -3_037_000_500, 1_720_000_000]),
    "l2": (t.LONG, [*_ints(64), 3_037_000_500]),
    "epoch": (t.LONG, [0, -1, 1_720_096_496, 1_710_054_000, 253_402_300_799, -62_135_596_800, 1_730_611_800_123]),
    "f": (t.FLOAT, [0.0, -0.0, 1.5, 2.5, -1.5, 0.1, 1e10, 3.4e38, 1e-10, math.nan, math.inf, 16777216.0, 0.285, 1.005]),
    "d": (t.DOUBLE, _DOUBLES),
    "d2": (t.DOUBLE, _DOUBLES),
    "p": (t.DOUBLE, [0.5, 1.0, 2.0, 10.0, 0.001, 123.456, 0.0, -1.0, 1e10, math.nan, math.inf]),
    "text": (t.STRING, _TEXTS),
    "part": (t.STRING, ["", "a", "b", "é", "x", "bc", "語"]),
    "number": (t.STRING, _NUMBERS),
    "time": (t.STRING, _TIMES),
    "patterned": (t.STRING, _PATTERNED),
    "flag": (t.BOOLEAN, [True, False]),
    "flag2": (t.BOOLEAN, [True, False]),
    "day": (t.DATE, _DATES),
    "day2": (t.DATE, _DATES),
    "ts": (t.TIMESTAMP, [moment.replace(tzinfo=UTC) for moment in _INSTANTS]),
    "ts2": (t.TIMESTAMP, [moment.replace(tzinfo=UTC) for moment in _INSTANTS]),
    "ntz": (t.TIMESTAMP_NTZ, [*_INSTANTS, datetime(2024, 3, 10, 2, 30), datetime(2024, 11, 3, 1, 30)]),
    "span": (t.DAY_TIME_INTERVAL, [timedelta(0), timedelta(days=1), timedelta(hours=-25), timedelta(microseconds=1),
                                   timedelta(days=-3), timedelta(days=30, hours=5)]),
    "m": (t.Decimal(10, 2), [D("0.00"), D("1.25"), D("-1.25"), D("99999999.99"), D("-99999999.99"), D("0.05"), D("2.50")]),
    "m2": (t.Decimal(12, 4), [D("0.0000"), D("0.3333"), D("-7.0001"), D("99999999.9999"), D("0.5000"), D("1.2500")]),
    "x": (t.Decimal(38, 18), [D("0E-18"), D("1.5"), D("-0.000000000000000001"), D("99999999999999999999.5"),
                              D("123456789.123456789123456789"), D("-2.5")]),
    "whole": (t.Decimal(20, 0), [D("0"), D("3"), D("-3"), D("99999999999999999999"), D("9223372036854775808")]),
    "xs": (t.Array(t.INTEGER), [[], [1], [3, None, 1], [None], [5, 5, -1, 2147483647]]),
    "words": (t.Array(t.STRING), [[], ["a"], ["b", None, "a"], [""], ["é", "x", "x"]]),
    "raw": (t.BINARY, [b"", b"abc", b"\x00\xff", "é".encode()]),
    "pair": (t.Struct((Field("a", t.INTEGER), Field("b", t.STRING))), [{"a": 1, "b": "x"}, {"a": None, "b": "y"}]),
    "xs2": (t.Array(t.INTEGER), [[], [1, 3], [None, 5], [2147483647, 3, 3, None], [7]]),
    "words2": (t.Array(t.STRING), [["a"], [], ["x", None], ["é", "b", "b"]]),
    "reals": (t.Array(t.DOUBLE), [[], [0.0, -0.0, 1.5], [math.nan, None, math.nan], [math.inf, 2.5], [1.5, 1.5]]),
    "grid": (t.Array(t.Array(t.INTEGER)), [[], [[1, 2], []], [[3], None], [[None], [4, 5], [6]]]),
    "people": (t.Array(t.Struct((Field("a", t.INTEGER), Field("b", t.STRING)))),
               [[], [{"a": 1, "b": "x"}], [{"a": None, "b": "y"}, {"a": 2, "b": None}], [None, {"a": 3, "b": "é"}]]),
    "dict2": (t.Map(t.STRING, t.INTEGER), [[], [("c", 7)], [("é", None), ("d", -1)]]),
    "json": (t.STRING, _JSON),
    "url": (t.STRING, _URLS),
    "encoded": (t.STRING, ["", "YWJj", "w6k=", "AP8=", "616263", "0AfF", "zz", "%C3%A9+a%2Fb", "a%2", "YQ", "é", "FFF", "C3A9"]),
    "seconds": (t.Decimal(16, 6), [D("0.000000"), D("59.999999"), D("60.000000"), D("12.5"), D("-1.000000"), D("61.000000")]),
    "near": (t.INTEGER, [0, 1, 2, 3, 12, 13, 23, 24, 28, 29, 30, 31, 59, 60, -1]),
    "dict": (t.Map(t.STRING, t.INTEGER), [[], [("a", 1)], [("b", 2), ("a", None)]]),
}  # fmt: skip
PLAN_SCHEMA = tuple(Field(name, kind) for name, (kind, _) in POOLS.items())


def _rows() -> pa.Table:
    """Each column walks through its whole pool, shuffled, with some nulls: every value occurs, in chance company."""
    chance = random.Random(20_240_229)
    columns = []
    for field, (_, pool) in zip(arrow_schema(PLAN_SCHEMA), POOLS.values(), strict=True):
        values: list[Any] = [None if n % 13 == 12 else pool[n % len(pool)] for n in range(ROWS)]
        chance.shuffle(values)
        columns.append(pa.array(values, type=field.type))
    ids = pa.array(range(ROWS), type=pa.int32())
    return pa.Table.from_arrays([*columns, ids], schema=arrow_schema((*PLAN_SCHEMA, Field("id", t.INTEGER))))


TABLE = _rows()
SPARK_SCHEMA = ", ".join(f"`{f.name}` {t.simple_string(f.type)}" for f in (*PLAN_SCHEMA, Field("id", t.INTEGER)))
FRAME = from_arrow(TABLE, (*PLAN_SCHEMA, Field("id", t.INTEGER)))
