"""Run an ordinary PySpark streaming query continuously, with exactly-once results, on the Spark cluster you have.

query = tidegate.writeStream(df).format("parquet").option("checkpointLocation", "/data/q1").start("/data/out")
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidegate.api.history import checkpoint_history
    from tidegate.api.job import Job, StreamingJob
    from tidegate.api.query import StreamingQuery
    from tidegate.api.writer import DataStreamWriter, writeStream
    from tidegate.connectors.current_batch import batch
    from tidegate.model import errors
    from tidegate.spark.session import local_session

__version__ = version("tidegate")

__all__ = [
    "DataStreamWriter",
    "Job",
    "StreamingJob",
    "StreamingQuery",
    "__version__",
    "batch",
    "checkpoint_history",
    "errors",
    "local_session",
    "writeStream",
]

_HOMES = {
    "DataStreamWriter": "tidegate.api.writer",
    "Job": "tidegate.api.job",
    "StreamingJob": "tidegate.api.job",
    "StreamingQuery": "tidegate.api.query",
    "batch": "tidegate.connectors.current_batch",
    "checkpoint_history": "tidegate.api.history",
    "local_session": "tidegate.spark.session",
    "writeStream": "tidegate.api.writer",
}


def __getattr__(name: str) -> Any:
    # On first use, not at import: a slot, or a test of the pure core, needs a part of the package and not PySpark's client.
    if name == "errors":
        return import_module("tidegate.model.errors")
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'tidegate' has no attribute {name!r}")
