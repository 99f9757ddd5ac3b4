"""``mapInArrow`` and ``mapInPandas``: one call per batch, results checked against the declared schema."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from tidegate.model import types as t
from tidegate.model.elements import Batch
from tidegate.model.errors import UserCodeFailed
from tidegate.operators.map_batches import MapBatchesOperator
from tidegate.plan.relational import MapBatches, UdfKind

ROWS = pl.DataFrame({"a#1": [1, 2, 3], "s#2": ["x", None, "z"]})
OUTPUT = (("n", t.LONG), ("s", t.STRING))


def run(
    function: Callable[[Iterator[Any]], Iterator[Any]],
    kind: UdfKind,
    rows: pl.DataFrame = ROWS,
    output: tuple[tuple[str, t.DataType], ...] = OUTPUT,
    input_schema: t.Schema = (),
) -> list[tuple[Any, ...]]:
    node = MapBatches(
        kind=kind,
        label="mine",
        command=b"",
        input_names=tuple(name.partition("#")[0] for name in rows.columns),
        schema=tuple(t.Field(f"{name}#9", type_) for name, type_ in output),
        output_names=tuple(name for name, _ in output),
        input_schema=input_schema,
    )
    operator = MapBatchesOperator(node, lambda _: function)
    return [row for out in operator.on_batch(Batch(rows)) for row in out.rows.rows()]  # type: ignore[union-attr]


def test_arrow_functions_see_the_users_names_and_spark_types() -> None:
    def check(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            assert batch.schema.names == ["a", "s"]
            assert batch.schema.types == [pa.int64(), pa.string()]
            yield pa.RecordBatch.from_arrays([batch["s"], batch["a"]], names=["s", "n"])

    assert run(check, UdfKind.ARROW) == [(1, "x"), (2, None), (3, "z")]


def test_pandas_functions_may_drop_and_multiply_rows() -> None:
    def twice_the_odd(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        for frame in frames:
            odd = frame[frame.a % 2 == 1].rename(columns={"a": "n"})
            yield odd
            yield odd.iloc[:0]
            yield odd

    assert run(twice_the_odd, UdfKind.PANDAS) == [(1, "x"), (3, "z")] * 2


def test_each_batch_is_a_call_of_its_own() -> None:
    calls: list[int] = []

    def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        calls.append(len(list(batches)))
        yield from ()

    run(count, UdfKind.ARROW)
    assert calls == [1]


def test_results_are_cast_to_the_declared_types_when_nothing_is_lost() -> None:
    small = pa.RecordBatch.from_arrays([pa.array([7], pa.int8()), pa.array(["q"], pa.large_string())], names=["n", "s"])
    assert run(lambda _: iter([small]), UdfKind.ARROW) == [(7, "q")]


def test_timestamps_reach_pandas_naive_and_come_back_as_instants() -> None:
    instant = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    rows = pl.DataFrame({"ts#1": [instant]}, schema={"ts#1": pl.Datetime("us", "UTC")})
    assert run(lambda frames: frames, UdfKind.PANDAS, rows, (("ts", t.TIMESTAMP),)) == [(instant,)]


def test_maps_are_maps_when_the_plan_says_so() -> None:
    rows = pl.DataFrame({"m#1": [[{"key": "k", "value": 1}], None, []]})
    kind = t.Map(t.STRING, t.LONG)

    def check(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            assert batch["m"].to_pylist() == [[("k", 1)], None, []]
            yield batch

    result = run(check, UdfKind.ARROW, rows, (("m", kind),), (t.Field("m#1", kind),))
    assert result == [([{"key": "k", "value": 1}],), (None,), ([],)]


@pytest.mark.parametrize(
    ("kind", "result", "message"),
    [
        (UdfKind.ARROW, pa.RecordBatch.from_pydict({"n": [1]}), r"missing \['s'\], unexpected none"),
        (UdfKind.ARROW, pa.RecordBatch.from_pydict({"n": ["x"], "s": ["x"]}), "'n' is string, .* declared bigint"),
        (UdfKind.ARROW, "rows", "must yield pyarrow.RecordBatch, not str"),
        (UdfKind.PANDAS, pd.DataFrame({"n": [1], "s": ["x"], "t": [1]}), r"missing none, unexpected \['t'\]"),
        (UdfKind.PANDAS, pd.DataFrame({"n": ["x"], "s": ["x"]}), "'n' holds object values .* declared type bigint"),
        (UdfKind.PANDAS, [1], "must yield pandas.DataFrame, not list"),
    ],
)
def test_a_result_that_breaks_the_schema_is_refused_with_the_reason(kind: UdfKind, result: Any, message: str) -> None:
    with pytest.raises(UserCodeFailed, match=message):
        run(lambda _: iter([result]), kind)


def test_what_the_function_raises_opens_the_message() -> None:
    def broken(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        for frame in frames:
            yield frame["no such column"]

    with pytest.raises(UserCodeFailed) as failure:
        run(broken, UdfKind.PANDAS)
    lines = failure.value.message.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert "in broken" in lines[1]
    assert lines[-2:] == ["in mapInPandas(mine)", "row: a=1, s='x'"]
