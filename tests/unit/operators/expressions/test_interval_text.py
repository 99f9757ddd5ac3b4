"""Text as a length of time, as Spark casts it to an interval."""

from __future__ import annotations

from datetime import timedelta

import polars as pl
import pytest

from tidegate.model import types as t
from tidegate.model.errors import DataError
from tidegate.model.types import Field
from tidegate.operators.expressions import Projection
from tidegate.plan.expressions import Call, Column, Named

SECOND = timedelta(seconds=1)


def lengths(*texts: str | None) -> list[timedelta | None]:
    call = Call("calendar_interval", (Column("text", t.STRING),), t.DAY_TIME_INTERVAL)
    rows = pl.DataFrame({"text": list(texts)}, schema={"text": pl.String})
    return Projection((Named("length", call),), (Field("length", t.DAY_TIME_INTERVAL),)).apply(rows)["length"].to_list()


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("5 seconds", 5 * SECOND),
        (" 5  SECONDS ", 5 * SECOND),
        ("interval 2 hours", 7_200 * SECOND),
        ("INTERVAL  5 second", 5 * SECOND),
        ("1 minute 30 seconds", 90 * SECOND),
        ("1.5 seconds", 1.5 * SECOND),
        (".5 second", 0.5 * SECOND),
        ("1.0000001 second", SECOND),
        ("-3 seconds", -3 * SECOND),
        ("- 5 seconds", -5 * SECOND),
        ("+4 seconds", 4 * SECOND),
        ("1 hour -30 minutes", 1_800 * SECOND),
        ("500 milliseconds", 0.5 * SECOND),
        ("7 microseconds", timedelta(microseconds=7)),
        ("2 weeks", timedelta(days=14)),
        ("1 day", timedelta(days=1)),
        ("5seconds", None),
        ("interval5 seconds", None),
        ("5 sec", None),
        ("1.5 minutes", None),
        ("1 DAYS 00:00:01", None),
        ("5", None),
        ("abc", None),
        ("", None),
        (None, None),
    ],
)
def test_a_text_is_read_as_spark_reads_it(text: str | None, length: timedelta | None) -> None:
    assert lengths(text) == [length]


def test_each_row_has_its_own_length() -> None:
    assert lengths("1 second", None, "2 seconds", "1 second") == [SECOND, None, 2 * SECOND, SECOND]


def test_months_have_no_fixed_length() -> None:
    with pytest.raises(DataError, match="INTERVAL_WITH_MONTHS"):
        lengths("1 second", "1 month")
