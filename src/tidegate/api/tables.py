"""``toTable(name)``: from the name of a table to the sink that writes it.

| format | the name is | the table is made |
| --- | --- | --- |
| ``parquet json csv text`` | one of Spark's catalogue | by Spark, in its warehouse, as Spark's own ``toTable`` does |
| ``delta`` | ``delta.`/path` ``, or one of Spark's catalogue | by the sink, at the path |
| ``iceberg`` | one of the Iceberg catalogue that the options name | by the sink |
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tidegate.model.errors import InvalidQuery
from tidegate.spark.checks import refuse_connect

FILES = ("parquet", "json", "csv", "text")
_BY_PATH = re.compile(r"(?P<format>[a-z]+)\.`(?P<path>[^`]+)`", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class NamedTable:
    """What to write, and where."""

    format: str
    path: str
    partition_by: tuple[str, ...]


def named_table(df: DataFrame, name: str, format: str, partition_by: tuple[str, ...]) -> NamedTable:
    """Makes a table of files that Spark's catalogue does not have yet. InvalidQuery for whatever cannot be written."""
    refuse_connect(df)
    by_path = _BY_PATH.fullmatch(name.strip())
    if by_path is not None:
        _refuse_other_format(name, by_path["format"].lower(), format)
        if format != "delta":
            raise InvalidQuery(
                f"toTable({name!r}) names a directory, which {format} writes by start",
                hint=f'.format("{format}").start("{by_path["path"]}")',
            )
        return NamedTable(format, by_path["path"], partition_by)
    if format == "iceberg":
        return NamedTable(format, name, partition_by)
    if format not in (*FILES, "delta"):
        raise InvalidQuery(
            f"format {format!r} writes no tables: toTable({name!r}) is refused",
            hint=f"tables are made of {', '.join(FILES)}, delta and iceberg; other sinks begin with start()",
        )
    return _of_spark(df, name, format, partition_by)


def _of_spark(df: DataFrame, name: str, format: str, partition_by: tuple[str, ...]) -> NamedTable:
    session = df.sparkSession
    try:
        if not session.catalog.tableExists(name):
            _make(df, name, format, partition_by)
        facts = _facts(session, name)
        columns = session.catalog.listColumns(name)
    except PySparkException as error:
        raise InvalidQuery(
            f"toTable({name!r}): {str(error).splitlines()[0]}", hint="the words are Spark's own"
        ) from error
    if facts.get("Type", "").upper() not in ("MANAGED", "EXTERNAL") or "Location" not in facts:
        raise InvalidQuery(f"{name!r} is a view: only tables can be written", hint="choose another name")
    _refuse_other_format(name, facts.get("Provider", "").lower(), format)
    keys = tuple(column.name for column in columns if column.isPartition)
    if partition_by and partition_by != keys:
        raise InvalidQuery(
            f"partitionBy names {', '.join(partition_by)}, but the table {name} is partitioned by {', '.join(keys) or 'nothing'}",
            hint="leave partitionBy out, or name the columns of the table in its order",
        )
    if format in FILES:
        _refuse_mismatch(df, name, {column.name: column.dataType for column in columns})
    return NamedTable(format, facts["Location"], keys)


def _make(df: DataFrame, name: str, format: str, partition_by: tuple[str, ...]) -> None:
    if format == "delta":
        raise InvalidQuery(
            f"there is no table {name!r} in Spark's catalogue",
            hint=f'name a Delta table by its path: toTable("delta.`/data/{name.rpartition(".")[2]}`"), or start(path)',
        )
    quoted = ", ".join(f"`{column.replace('`', '``')}`" for column in partition_by)
    of_jvm: Any = df._jdf
    schema = of_jvm.schema().toDDL()  # Unlike simpleString, it leaves nothing out however wide the schema is.
    df.sparkSession.sql(
        f"CREATE TABLE IF NOT EXISTS {name} ({schema}) USING {format}{f' PARTITIONED BY ({quoted})' if quoted else ''}"
    )


def _facts(session: SparkSession, name: str) -> dict[str, str]:
    """What ``DESCRIBE TABLE EXTENDED`` says about the table itself."""
    rows = session.sql(f"DESCRIBE TABLE EXTENDED {name}").collect()
    return {row["col_name"].strip(): row["data_type"] for row in rows if row["data_type"]}


def _refuse_other_format(name: str, has: str, format: str) -> None:
    if has != format:
        raise InvalidQuery(
            f"the table {name} is made of {has}, but the query writes {format}", hint=f'.format("{has}") writes it'
        )


def _refuse_mismatch(df: DataFrame, name: str, has: dict[str, str]) -> None:
    """File readers match columns by name and type: what does not fit would come back as nulls or not at all."""
    gives = {field.name: field.dataType.simpleString() for field in df.schema}
    problems = [f"{column} is not there" for column in gives if column not in has]
    problems += [f"{column} is missing in the result" for column in has if column not in gives]
    problems += [
        f"{column} is {gives[column]} here and {kind} there"
        for column, kind in has.items()
        if column in gives and gives[column] != kind
    ]
    if problems:
        raise InvalidQuery(
            f"the result does not fit the table {name}: {'; '.join(problems)}",
            hint="cast, rename or drop the columns in the query",
        )
