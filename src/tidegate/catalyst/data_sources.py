"""Data sources written in Python that the session knows by name."""

from __future__ import annotations

from pyspark.cloudpickle import loads
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource

from tidegate.catalyst.java import Java, byte_string


def registered(session: SparkSession, name: str) -> type[DataSource] | None:
    """The class behind ``spark.dataSource.register``, as Spark pickled it; None: the session knows none of that name."""
    java: Java = session._jsparkSession
    manager = java.sessionState().dataSourceManager()
    if not manager.dataSourceExists(name):
        return None
    return loads(byte_string(manager.lookupDataSource(name).dataSourceCls().command()))
