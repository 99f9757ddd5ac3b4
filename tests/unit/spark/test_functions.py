"""What Spark pickled, a slot can call."""

from __future__ import annotations

from pyspark import cloudpickle
from pyspark.sql import Row
from pyspark.sql.types import LongType

from tidegate.spark.functions import load, row_maker


def test_a_command_is_the_function_spark_pickled() -> None:
    step = 3
    assert load(cloudpickle.dumps((lambda x: x + step, LongType()))).function(4) == 7


def test_a_command_may_be_the_function_alone() -> None:
    assert load(cloudpickle.dumps(lambda x: x * 2)).function(4) == 8


def test_structs_are_pyspark_rows() -> None:
    row = row_maker(("a", "b"))([1, None])
    assert row == Row(a=1, b=None)
    assert row.asDict() == {"a": 1, "b": None}  # type: ignore[attr-defined]
