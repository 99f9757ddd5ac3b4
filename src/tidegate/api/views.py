"""The memory sink's table as a temporary view, named like the query, as in Spark."""

from __future__ import annotations

import polars as pl
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from tidegate.connectors.memory.sink import MemoryCommitter
from tidegate.model.ids import CheckpointId
from tidegate.model.types import Schema, simple_string
from tidegate.operators.arrow_columns import arrow_column
from tidegate.plan.relational import Sink


def keep_view(session: SparkSession, name: str, sink: Sink, committer: MemoryCommitter) -> None:
    """The view exists from now on, empty at first; each commit replaces it before it counts as done."""

    def refresh(_checkpoint: CheckpointId | None, _rows: pl.DataFrame | None) -> None:
        to_spark(session, committer.table(), sink.schema).createOrReplaceTempView(name)

    refresh(None, None)
    committer.subscribe(refresh)


def to_spark(session: SparkSession, rows: pl.DataFrame, schema: Schema) -> DataFrame:
    """Rows under public names as a Spark DataFrame with exactly the types of ``schema``."""
    zone = str(session.conf.get("spark.sql.session.timeZone"))
    columns = [arrow_column(rows.get_column(field.name), field.type, zone) for field in schema]
    table = pa.table(columns, names=[field.name for field in schema])
    declared = ", ".join(f"`{field.name}` {simple_string(field.type)}" for field in schema)
    return session.createDataFrame(table, declared)
