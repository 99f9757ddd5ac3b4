"""Rows that user functions raise for: rejected one by one when there is a place for them, named exactly when there is none."""

from __future__ import annotations

import datetime
import decimal
import json
from collections.abc import Callable, Iterator
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from tidegate.model import types as t
from tidegate.model.elements import Batch, Rejected
from tidegate.model.errors import DataError, UserCodeFailed
from tidegate.operators.letters import fingerprint, row_json
from tidegate.operators.map_batches import MapBatchesOperator
from tidegate.operators.python_eval import PythonEvalOperator
from tidegate.plan.expressions import Call, Column, Expression, Literal
from tidegate.plan.relational import MapBatches, PythonEval, PythonUdf, UdfKind

NUMBERS = pl.DataFrame({"a#1": list(range(20)), "b#2": ["x"] * 20})
BAD = {3, 4, 17}


def udf(name: str, kind: UdfKind, result: t.DataType = t.LONG, *args: Expression) -> PythonUdf:
    return PythonUdf(name, name.partition("#")[0], name.encode(), kind, args or (Column("a#1", t.LONG),), result)


def evaluating(functions: dict[str, Callable[..., Any]], *udfs: PythonUdf, tolerant: bool = True) -> PythonEvalOperator:
    schema = (t.Field("a#1", t.LONG), *(t.Field(one.name, one.type) for one in udfs))
    return PythonEvalOperator(
        PythonEval(udfs=udfs, schema=schema), lambda command: functions[command.decode()], tolerant=tolerant
    )


def mapping(function: Callable[..., Any], kind: UdfKind, *, tolerant: bool = True) -> MapBatchesOperator:
    node = MapBatches(
        kind=kind,
        label="mine",
        command=b"",
        input_names=("a", "b"),
        schema=(t.Field("a#9", t.LONG),),
        output_names=("a",),
    )
    return MapBatchesOperator(node, lambda _: function, tolerant=tolerant)


def outcome(operator: PythonEvalOperator | MapBatchesOperator, rows: pl.DataFrame = NUMBERS) -> tuple[Any, Any]:
    """Rows that went on, and the letters."""
    produced = list(operator.on_batch(Batch(rows, origin=5)))
    good = [row for one in produced if isinstance(one, Batch) for row in one.rows.rows()]
    assert all(one.origin == 5 for one in produced if isinstance(one, Batch))
    letters = [letter for one in produced if isinstance(one, Rejected) for letter in one.letters.to_dicts()]
    return good, letters


def by_row(a: int) -> int:
    if a in BAD:
        raise KeyError(f"no {a}")
    return a * 10


def by_pandas(a: pd.Series) -> pd.Series:
    return a.map(by_row)


def by_pandas_iterator(batches: Iterator[pd.Series]) -> Iterator[pd.Series]:
    return (by_pandas(batch) for batch in batches)


def by_arrow(a: pa.Array) -> pa.Array:
    return pa.array([by_row(value) for value in a.to_pylist()])


@pytest.mark.parametrize(
    ("kind", "function"),
    [
        (UdfKind.PYTHON, by_row),
        (UdfKind.PYTHON_ARROW, by_row),
        (UdfKind.PANDAS, by_pandas),
        (UdfKind.PANDAS_ITER, by_pandas_iterator),
        (UdfKind.ARROW, by_arrow),
    ],
)
def test_a_scalar_function_loses_exactly_the_rows_it_raises_for(kind: UdfKind, function: Callable[..., Any]) -> None:
    good, letters = outcome(evaluating({"f#3": function}, udf("f#3", kind)))
    assert good == [(a, a * 10) for a in range(20) if a not in BAD]
    assert [json.loads(letter["row"]) for letter in letters] == [{"a": a, "b": "x"} for a in sorted(BAD)]
    assert [letter["message"] for letter in letters] == [f"'no {a}'" for a in sorted(BAD)]
    assert {(letter["function"], letter["error"]) for letter in letters} == {("f", "KeyError")}
    assert all("in by_row" in letter["traceback"] for letter in letters)


def frames(batches: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    for batch in batches:
        yield pd.DataFrame({"a": [0] * 0}, dtype="int64")
        for value in batch.a:  # Raises after it has yielded something: that must not be seen.
            yield pd.DataFrame({"a": [by_row(value)]})


def record_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield pa.RecordBatch.from_arrays([by_arrow(batch["a"])], names=["a"])


@pytest.mark.parametrize(("kind", "function"), [(UdfKind.PANDAS, frames), (UdfKind.ARROW, record_batches)])
def test_a_map_function_loses_exactly_the_rows_it_raises_for(kind: UdfKind, function: Callable[..., Any]) -> None:
    good, letters = outcome(mapping(function, kind))
    assert good == [(a * 10,) for a in range(20) if a not in BAD]
    assert [json.loads(letter["row"])["a"] for letter in letters] == sorted(BAD)


def test_a_row_refused_by_one_function_is_not_seen_by_the_next_and_has_one_letter() -> None:
    seen: list[int] = []

    def second(a: int) -> int:
        seen.append(a)
        if a == 5:
            raise ValueError("five")
        return -a

    operator = evaluating(
        {"f#3": by_row, "g#4": second}, udf("f#3", UdfKind.PYTHON_ARROW), udf("g#4", UdfKind.PYTHON_ARROW)
    )
    good, letters = outcome(operator)
    assert seen == [a for a in range(20) if a not in BAD]
    assert good == [(a, a * 10, -a) for a in range(20) if a not in BAD | {5}]
    assert [(json.loads(one["row"])["a"], one["function"]) for one in letters] == [
        (3, "f"),
        (4, "f"),
        (17, "f"),
        (5, "g"),
    ]


def test_a_result_that_does_not_fit_its_type_is_a_letter_as_well() -> None:
    def mixed(a: int) -> object:
        return by_row(a) if a != 9 else {"not": "a number"}

    good, letters = outcome(evaluating({"f#3": mixed}, udf("f#3", UdfKind.PYTHON_ARROW)))
    assert [a for a, _ in good] == [a for a in range(20) if a not in BAD | {9}]
    assert all(result == a * 10 for a, result in good)
    assert [json.loads(one["row"])["a"] for one in letters] == [3, 4, 9, 17]


def test_when_every_row_is_refused_nothing_goes_on() -> None:
    good, letters = outcome(evaluating({"f#3": lambda a: 1 // 0}, udf("f#3", UdfKind.PANDAS)))
    assert good == [] and len(letters) == 20


def test_an_error_of_sql_in_an_argument_stays_an_error() -> None:
    huge = Call("add", (Literal((1 << 63) - 3, t.LONG), Column("a#1", t.LONG)), t.LONG)
    with pytest.raises(DataError):
        outcome(evaluating({"f#3": lambda a: a}, udf("f#3", UdfKind.PANDAS, t.LONG, huge)))


@pytest.mark.parametrize("height", [1, 2, 20])
def test_the_same_row_has_the_same_position_in_whatever_batch_it_comes(height: int) -> None:
    """T62: a function over batches is asked for the row, so that the second failure is known to be the first one again."""
    positions = set[str]()
    operators = (
        mapping(frames, UdfKind.PANDAS, tolerant=False),
        mapping(record_batches, UdfKind.ARROW, tolerant=False),
        evaluating({"f#3": by_pandas}, udf("f#3", UdfKind.PANDAS), tolerant=False),
        evaluating({"f#3": by_row}, udf("f#3", UdfKind.PYTHON), tolerant=False),
    )
    for operator in operators:
        with pytest.raises(UserCodeFailed) as caught:
            for part in NUMBERS.iter_slices(height):
                list(operator.on_batch(Batch(part)))
        assert "row: a=3, b='x'" in caught.value.message and "KeyError: 'no 3'" in caught.value.message
        assert caught.value.message.count("Traceback") == 1, "the calls that searched for it are not its causes"
        positions.add(caught.value.position)
    assert positions == {fingerprint(NUMBERS, 3)}


def test_a_failure_of_the_batch_and_of_no_row_says_so_and_ends_nothing_when_parts_will_do() -> None:
    def impatient(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if batch.num_rows > 10:
                raise MemoryError("too much at once")
            yield batch.select(["a"])

    with pytest.raises(UserCodeFailed, match="no row alone; first row of the batch of 20: a=0"):
        outcome(mapping(impatient, UdfKind.ARROW, tolerant=False))
    good, letters = outcome(mapping(impatient, UdfKind.ARROW))
    assert good == [(a,) for a in range(20)] and letters == []


def test_the_text_of_a_row_holds_every_type_and_every_column() -> None:
    rows = pl.DataFrame(
        {
            "v#1": [7],
            "v#2": [8],
            "when#3": [datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)],
            "price#4": pl.Series([decimal.Decimal("1.50")], dtype=pl.Decimal(10, 2)),
            "raw#5": [b"\x00\xff"],
            "none#6": [None],
            "deep#7": [{"x": [1, None]}],
            "day#8": [datetime.date(2026, 1, 2)],
            "took#9": [datetime.timedelta(seconds=90)],
        }
    )
    assert json.loads(row_json(rows, 0)) == {
        "v#1": 7,
        "v#2": 8,
        "when": "2026-01-02T03:04:05Z",
        "price": "1.50",
        "raw": "AP8=",
        "none": None,
        "deep": {"x": [1, None]},
        "day": "2026-01-02",
        "took": "PT90S",
    }


def test_an_exception_that_cannot_be_printed_or_stored_is_a_letter_all_the_same() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no words")

    def odd(a: int) -> int:
        if a == 1:
            raise Mute
        if a == 2:
            raise OSError("no file caf\udce9")
        return a

    good, letters = outcome(evaluating({"f#3": odd}, udf("f#3", UdfKind.PYTHON)))
    assert len(good) == 18
    assert [letter["message"] for letter in letters] == ["<unprintable Mute>", "no file caf?"]
