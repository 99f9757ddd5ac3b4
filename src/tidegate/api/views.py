"""The memory sink's table as a temporary view, named like the query, as in Spark."""

from __future__ import annotations

import polars as pl
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from tidegate.model.types import Schema, simple_string
from tidegate.operators.arrow_columns import arrow_column


def keep_view(session: SparkSession, name: str, schema: Schema, table: pl.DataFrame) -> None:
    """The view shows this table from now on."""
    to_spark(session, table, schema).createOrReplaceTempView(name)


def to_spark(session: SparkSession, rows: pl.DataFrame, schema: Schema) -> DataFrame:
    """Rows under public names as a Spark DataFrame with exactly the types of ``schema``."""
    zone = str(session.conf.get("spark.sql.session.timeZone"))
    columns = [arrow_column(rows.get_column(field.name), field.type, zone) for field in schema]
    table = pa.table(columns, names=[field.name for field in schema])
    declared = ", ".join(f"`{field.name}` {simple_string(field.type)}" for field in schema)
    return session.createDataFrame(table, declared)
