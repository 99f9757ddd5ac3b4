"""A query on Tidegate without Spark's stage: translated by Spark, run by the slots in one thread, killed and rescaled at will."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame
from tests.nodes import connectors_of

from tidegate.catalyst.translate import SinkRequest, translate
from tidegate.model.output_mode import OutputMode
from tidegate.operators.python_values import to_python
from tidegate.plan.relational import Sink
from tidegate.spark.functions import load, row_maker
from tidegate.testing.local import UNHARMED, Committed, Fate, run_locally

Rows = list[tuple[Any, ...]]


def translated(df: DataFrame, mode: str) -> Sink:
    return translate(df, mode=OutputMode(mode), sink=SinkRequest("memory")).plan


def run(plan: Sink, fate: Fate = UNHARMED, *, rows: int = 1_500) -> tuple[list[str], Rows, Committed]:
    """Columns, committed rows as PySpark's ``collect`` shows them, and what happened on the way."""
    committed = run_locally(plan, lambda config: connectors_of(config=config), fate, load=load, rows=rows)
    frame = committed.rows
    values = [to_python(frame.get_column(field.name), field.type, row_maker) for field in plan.schema]
    columns = [field.name for field in plan.schema]
    return columns, list(zip(*values, strict=True)), committed
