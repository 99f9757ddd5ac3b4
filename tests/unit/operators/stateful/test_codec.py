"""Values of state variables and keys as bytes."""

from __future__ import annotations

import datetime
import decimal
import math

import numpy as np
import pandas as pd
import pytest

from tidegate.model import types as t
from tidegate.model.types import Field
from tidegate.operators.stateful.codec import Codec

WHEN = datetime.datetime(2024, 3, 31, 12, 30, 15, 123456)


def codec(*types: t.DataType) -> Codec:
    return Codec(tuple(Field(f"f{i}", of) for i, of in enumerate(types)), "state variable 'v'")


@pytest.mark.parametrize(
    ("of", "value"),
    [
        (t.BOOLEAN, True),
        (t.BYTE, -128),
        (t.LONG, -(2**63)),
        (t.DOUBLE, math.inf),
        (t.FLOAT, 0.5),
        (t.STRING, "żółw 🐢"),
        (t.BINARY, b"\x00\xff"),
        (t.DATE, datetime.date(1582, 10, 15)),
        (t.TIMESTAMP, WHEN),
        (t.TIMESTAMP_NTZ, datetime.datetime(1, 1, 1)),
        (t.DAY_TIME_INTERVAL, datetime.timedelta(days=-3, microseconds=7)),
        (t.Decimal(38, 18), decimal.Decimal("-12345678901234567890.000000000000000001")),
        (t.Array(t.Array(t.INTEGER)), [[1, None], None, []]),
        (t.Map(t.STRING, t.DATE), {"a": datetime.date(2024, 1, 1), "b": None}),
        (t.Struct((Field("x", t.INTEGER), Field("y", t.TIMESTAMP))), (1, WHEN)),
    ],
)
def test_a_value_comes_back_as_it_went(of: t.DataType, value: object) -> None:
    one = codec(of)
    assert one.decode(one.encode((value,))) == (value,)
    assert one.decode(one.encode((None,))) == (None,)


def test_scalars_of_numpy_and_pandas_are_taken_as_python_values() -> None:
    one = codec(t.LONG, t.DOUBLE, t.BOOLEAN, t.TIMESTAMP, t.TIMESTAMP)
    given = (np.int32(7), np.float32(0.5), np.bool_(True), pd.Timestamp(WHEN), pd.NaT)
    assert one.decode(one.encode(given)) == (7, 0.5, True, WHEN, None)


def test_an_aware_timestamp_is_the_same_instant_in_the_zone_of_the_process() -> None:
    one = codec(t.TIMESTAMP)
    aware = WHEN.astimezone(datetime.timezone(datetime.timedelta(hours=5)))
    assert one.decode(one.encode((aware,))) == (WHEN,)


def test_equal_keys_have_equal_bytes() -> None:
    one = codec(t.DOUBLE)
    assert one.encode((-0.0,)) == one.encode((0.0,)) == one.encode((0,))
    assert one.encode((math.nan,)) == one.encode((-math.nan,))


@pytest.mark.parametrize(
    ("of", "value", "error"),
    [
        (t.INTEGER, "7", TypeError),
        (t.INTEGER, 7.0, TypeError),
        (t.INTEGER, True, TypeError),
        (t.INTEGER, 2**31, OverflowError),
        (t.STRING, 7, TypeError),
        (t.DOUBLE, "x", TypeError),
        (t.Array(t.INTEGER), "ab", TypeError),
        (t.Struct((Field("x", t.INTEGER),)), (1, 2), TypeError),
    ],
)
def test_a_value_of_another_type_is_refused_and_named(of: t.DataType, value: object, error: type[Exception]) -> None:
    with pytest.raises(error, match="state variable 'v'"):
        codec(of).encode((value,))


def test_a_tuple_of_another_length_is_refused_with_the_fields() -> None:
    with pytest.raises(ValueError, match=r"2 fields \(f0, f1\) and got 1"):
        codec(t.LONG, t.LONG).encode((1,))
