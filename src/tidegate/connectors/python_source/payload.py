"""How a user's Python Data Source reaches the driver's enumerator and the slots."""

from __future__ import annotations

import json
from collections.abc import Mapping

from pyspark import cloudpickle
from pyspark.sql.datasource import CaseInsensitiveDict, DataSource
from pyspark.sql.types import StructType

from tidegate.connectors.spark_types import spark_schema
from tidegate.model.errors import InvalidQuery, UserCodeFailed
from tidegate.model.types import Schema
from tidegate.operators.user_functions import failure


def pack(datasource: type[DataSource] | DataSource, options: Mapping[str, str], schema: StructType | str) -> bytes:
    """``Scan.payload``: the class (or an instance), its options and the schema Spark agreed on (StructType or its JSON)."""
    schema_json = schema if isinstance(schema, str) else schema.json()
    try:
        return cloudpickle.dumps((datasource, dict(options), schema_json))
    except Exception as error:
        raise InvalidQuery(
            f"the data source {datasource!r} cannot be sent to the executors: {error}",
            hint="open connections in read(), not in the constructor",
        ) from error


def unpack(payload: bytes, source_schema: Schema) -> tuple[DataSource, StructType]:
    """The instance and its schema. Understands what ``pack`` makes and a pickled instance alone, whose schema the plan knows."""
    try:
        packed = cloudpickle.loads(payload)
    except Exception as error:
        raise UserCodeFailed(
            f"{type(error).__name__}: {error}\nwhile loading the user's data source",
            hint="install what it imports on every executor, or ship it with spark.submit.pyFiles",
        ) from error
    if isinstance(packed, DataSource):
        return packed, spark_schema(source_schema)
    datasource, options, schema_json = packed
    if isinstance(datasource, type):
        try:
            datasource = datasource(options=CaseInsensitiveDict(options))
        except Exception as error:
            raise failure(error, f"data source {datasource.__name__}", "in its constructor") from error
    return datasource, StructType.fromJson(json.loads(schema_json))
