"""User functions see PySpark's values and give PySpark's results; what they raise names the row."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable, Iterator
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tidegate.model import types as t
from tidegate.model.elements import Batch
from tidegate.model.errors import UserCodeFailed
from tidegate.operators.python_eval import PythonEvalOperator
from tidegate.plan.expressions import Call, Column, Expression
from tidegate.plan.relational import PythonEval, PythonUdf, UdfKind

POINT = t.Struct((t.Field("x", t.LONG), t.Field("label", t.STRING)))


def column(name: str, kind: t.DataType) -> Column:
    return Column(name, kind)


def evaluate(
    function: Callable[..., Any],
    rows: pl.DataFrame,
    args: tuple[Expression, ...],
    result: t.DataType,
    kind: UdfKind = UdfKind.PYTHON_ARROW,
    keywords: tuple[str | None, ...] = (),
    zone: str = "UTC",
) -> list[Any]:
    udf = PythonUdf("out#9", "mine", b"f", kind, args, result, keywords)
    schema = (*(t.Field(name, t.NULL) for name in rows.columns), t.Field("out#9", result))
    operator = PythonEvalOperator(PythonEval(udfs=(udf,), schema=schema, zone=zone), lambda _: function)
    return [value for out in operator.on_batch(Batch(rows)) for value in out.rows["out#9"].to_list()]  # type: ignore[union-attr]


def test_results_are_appended_to_the_input_columns() -> None:
    udf = PythonUdf("b#2", "twice", b"", UdfKind.PYTHON, (column("a#1", t.LONG),), t.LONG)
    node = PythonEval(udfs=(udf,), schema=(t.Field("a#1", t.LONG), t.Field("b#2", t.LONG)))
    operator = PythonEvalOperator(node, lambda _: lambda a: a * 2)
    (out,) = operator.on_batch(Batch(pl.DataFrame({"a#1": [1, 2]}), origin=7))
    assert isinstance(out, Batch)
    assert out.rows.rows() == [(1, 2), (2, 4)]
    assert out.origin == 7


def test_null_arrives_as_none_and_none_leaves_as_null() -> None:
    rows = pl.DataFrame({"a": [1, None]})
    assert evaluate(lambda a: None if a is None else a + 1, rows, (column("a", t.LONG),), t.LONG) == [2, None]


def test_arguments_are_expressions() -> None:
    rows = pl.DataFrame({"a": [1, 2], "b": [10, 20]})
    total = Call("add", (column("a", t.LONG), column("b", t.LONG)), t.LONG)
    assert evaluate(lambda v: v, rows, (total,), t.LONG) == [11, 22]


def test_a_function_without_arguments_is_called_once_per_row() -> None:
    assert evaluate(lambda: 7, pl.DataFrame({"a": [1, 2, 3]}), (), t.LONG) == [7, 7, 7]


def test_keyword_arguments_arrive_under_their_names() -> None:
    rows = pl.DataFrame({"a": [10], "b": [3]})
    args = (column("a", t.LONG), column("b", t.LONG))
    assert evaluate(lambda x, minus: x - minus, rows, args, t.LONG, keywords=(None, "minus")) == [7]


def test_timestamps_are_naive_in_the_zone_of_the_process() -> None:
    instant = datetime.datetime(2026, 7, 1, 12, 30, 15, 123456, tzinfo=datetime.UTC)
    rows = pl.DataFrame({"ts": [instant, None]}, schema={"ts": pl.Datetime("us", "UTC")})
    seen: list[Any] = []

    def keep(ts: Any) -> Any:
        seen.append(ts)
        return ts

    assert evaluate(keep, rows, (column("ts", t.TIMESTAMP),), t.TIMESTAMP) == [instant, None]
    assert seen[0] == instant.astimezone().replace(tzinfo=None)
    assert seen[0].tzinfo is None


def test_every_kind_of_value_survives_the_round_trip() -> None:
    kinds: dict[str, tuple[t.DataType, pl.DataType, Any]] = {
        "decimal": (t.Decimal(10, 2), pl.Decimal(10, 2), decimal.Decimal("12.30")),
        "date": (t.DATE, pl.Date(), datetime.date(1969, 12, 31)),
        "ntz": (t.TIMESTAMP_NTZ, pl.Datetime("us"), datetime.datetime(2020, 1, 1, 1, 2, 3, 4)),
        "interval": (t.DAY_TIME_INTERVAL, pl.Duration("us"), datetime.timedelta(days=1, microseconds=3)),
        "binary": (t.BINARY, pl.Binary(), b"\x00\xff"),
        "boolean": (t.BOOLEAN, pl.Boolean(), True),
        "double": (t.DOUBLE, pl.Float64(), -0.5),
        "array": (t.Array(t.STRING), pl.List(pl.String()), ["ü", None]),
    }
    for name, (kind, dtype, value) in kinds.items():
        rows = pl.DataFrame({"v": [value, None]}, schema={"v": dtype})
        for how in (UdfKind.PYTHON, UdfKind.PYTHON_ARROW):
            assert evaluate(lambda v: v, rows, (column("v", kind),), kind, how) == [value, None], (name, how)


def test_structs_are_rows_and_maps_are_dictionaries() -> None:
    scores = t.Map(t.STRING, t.LONG)
    rows = pl.DataFrame(
        {"p": [{"x": 1, "label": "a"}], "m": [[{"key": "k", "value": 5}]]},
        schema={
            "p": pl.Struct({"x": pl.Int64(), "label": pl.String()}),
            "m": pl.List(pl.Struct({"key": pl.String(), "value": pl.Int64()})),
        },
    )
    args = (column("p", POINT), column("m", scores))
    assert evaluate(lambda p, m: f"{p.x}{p[1]}{m['k']}", rows, args, t.STRING) == ["1a5"]
    assert evaluate(lambda p, m: (p.x + 1, "b"), rows, args, POINT) == [{"x": 2, "label": "b"}]
    assert evaluate(lambda p, m: {"label": "only"}, rows, args, POINT) == [{"x": None, "label": "only"}]
    assert evaluate(lambda p, m: {"z": 1, **m}, rows, args, scores) == [
        [{"key": "z", "value": 1}, {"key": "k", "value": 5}]
    ]


@pytest.mark.parametrize(
    ("result", "value", "pickled", "arrow"),
    [
        (t.LONG, 1.5, None, 1),
        (t.DOUBLE, 1, None, 1.0),
        (t.STRING, 1, "1", "1"),
        (t.STRING, True, "true", "true"),
        (t.BOOLEAN, 1, None, True),
        (t.Decimal(10, 2), decimal.Decimal("1.239"), decimal.Decimal("1.24"), decimal.Decimal("1.24")),
    ],
)
def test_results_of_another_type_are_taken_as_spark_takes_them(
    result: t.DataType, value: Any, pickled: Any, arrow: Any
) -> None:
    rows = pl.DataFrame({"a": [1]})
    args = (column("a", t.LONG),)
    assert evaluate(lambda a: value, rows, args, result, UdfKind.PYTHON) == [pickled]
    assert evaluate(lambda a: value, rows, args, result, UdfKind.PYTHON_ARROW) == [arrow]


def test_pickled_integers_wrap_as_in_java() -> None:
    rows = pl.DataFrame({"a": [1]})
    assert evaluate(lambda a: 2**40 + 3, rows, (column("a", t.LONG),), t.INTEGER, UdfKind.PYTHON) == [3]


def test_the_one_row_that_raises_is_named_and_the_users_traceback_comes_first() -> None:
    rows = pl.DataFrame({"id#1": range(100_000), "name#2": [f"n{i}" for i in range(100_000)]})

    def picky(value: int) -> int:
        if value == 54_321:
            raise RuntimeError("cannot digest this one")
        return value

    with pytest.raises(UserCodeFailed) as failure:
        evaluate(picky, rows, (column("id#1", t.LONG),), t.LONG)
    lines = failure.value.message.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert "test_python_eval.py" in lines[1]
    assert "in picky" in lines[1]
    assert not any("tidegate/operators" in line for line in lines)
    assert "RuntimeError: cannot digest this one" in lines
    assert lines[-2] == "in user function mine(id)"
    assert lines[-1] == "row: id=54321, name='n54321'"


def test_a_result_that_does_not_fit_names_its_row_too() -> None:
    rows = pl.DataFrame({"id#1": [1, 2, 3]})
    with pytest.raises(UserCodeFailed, match="returned 'two', which does not fit date") as failure:
        evaluate(lambda v: "two" if v == 2 else None, rows, (column("id#1", t.LONG),), t.DATE)
    assert failure.value.message.endswith("row: id=2")


def test_pandas_functions_see_series() -> None:
    rows = pl.DataFrame({"a": [1, None, 3]})

    def plus(a: pd.Series) -> pd.Series:
        assert a.dtype == "float64"  # As in PySpark: pandas has no integers with nulls.
        return a + 1

    assert evaluate(plus, rows, (column("a", t.LONG),), t.LONG, UdfKind.PANDAS) == [2, None, 4]


def test_pandas_timestamps_are_naive_in_the_session_zone() -> None:
    instant = datetime.datetime(2026, 7, 1, 22, 30, tzinfo=datetime.UTC)
    rows = pl.DataFrame({"ts": [instant]}, schema={"ts": pl.Datetime("us", "UTC")})
    args = (column("ts", t.TIMESTAMP),)
    zone = "Europe/Berlin"
    assert evaluate(lambda s: s.dt.hour, rows, args, t.INTEGER, UdfKind.PANDAS, zone=zone) == [0]
    assert evaluate(lambda s: s, rows, args, t.TIMESTAMP, UdfKind.PANDAS, zone=zone) == [instant]


def test_pandas_structs_are_data_frames_both_ways() -> None:
    rows = pl.DataFrame({"p": [{"x": 1, "label": "a"}, {"x": 2, "label": None}]})

    def grow(p: pd.DataFrame) -> pd.DataFrame:
        return pd.DataFrame({"label": p["label"], "x": p["x"] * 10})

    assert evaluate(grow, rows, (column("p", POINT),), POINT, UdfKind.PANDAS) == [
        {"x": 10, "label": "a"},
        {"x": 20, "label": None},
    ]
    with pytest.raises(UserCodeFailed, match=r"missing \['x'\]"):
        evaluate(lambda p: p[["label"]], rows, (column("p", POINT),), POINT, UdfKind.PANDAS)


def test_an_iterator_function_gets_one_batch_and_may_answer_in_pieces() -> None:
    rows = pl.DataFrame({"a": [1, 2, 3]})

    def pieces(batches: Iterator[pd.Series]) -> Iterator[pd.Series]:
        for batch in batches:
            yield batch[:1]
            yield batch[1:]

    assert evaluate(pieces, rows, (column("a", t.LONG),), t.LONG, UdfKind.PANDAS_ITER) == [1, 2, 3]


def test_arrow_functions_see_arrays() -> None:
    rows = pl.DataFrame({"s": ["a", None]})

    def upper(s: pa.Array) -> pa.Array:
        assert s.type == pa.string()
        return pc.utf8_upper(s)

    assert evaluate(upper, rows, (column("s", t.STRING),), t.STRING, UdfKind.ARROW) == ["A", None]


def test_a_batch_function_must_return_one_value_per_row() -> None:
    rows = pl.DataFrame({"a#1": [5, 6]})
    with pytest.raises(UserCodeFailed, match="returned 1 values for 2 rows") as failure:
        evaluate(lambda a: a[:1], rows, (column("a#1", t.LONG),), t.LONG, UdfKind.PANDAS)
    assert failure.value.message.endswith("first row of the batch of 2: a=5")


def test_a_function_that_cannot_be_loaded_says_what_is_missing() -> None:
    def load(command: bytes) -> object:
        raise ModuleNotFoundError("No module named 'theirs'")

    udf = PythonUdf("b", "mine", b"", UdfKind.PYTHON, (), t.LONG)
    with pytest.raises(UserCodeFailed, match="No module named 'theirs'") as failure:
        PythonEvalOperator(PythonEval(udfs=(udf,), schema=()), load)
    assert "on every executor" in failure.value.hint
