"""What a query takes from the configuration of its Spark session: settings of Structured Streaming that mean the same here."""

from __future__ import annotations

import os

from pyspark.sql import SparkSession

from tidegate.model.config import WatermarkPolicy
from tidegate.model.errors import InvalidQuery
from tidegate.storage.options import HADOOP_PREFIX, S3_ENDPOINT, StorageOptions, from_environment

_HADOOP = "spark.hadoop."
_S3A = {
    "fs.s3a.access.key": "accessKeyId",
    "fs.s3a.secret.key": "secretAccessKey",
    "fs.s3a.session.token": "sessionToken",
    "fs.s3a.endpoint.region": "region",
}
_HDFS_PREFIXES = ("dfs.", "fs.defaultFS", "fs.viewfs.", "hadoop.security.")
WATERMARK_POLICY = "spark.sql.streaming.multipleWatermarkPolicy"


def session_fields(session: SparkSession) -> dict[str, object]:
    """Fields of QueryConfig, as the session says at the start of the query."""
    return {"watermark_policy": _policy(str(session.conf.get(WATERMARK_POLICY, "min")))}


def _policy(text: str) -> WatermarkPolicy:
    try:
        return WatermarkPolicy(text.lower())
    except ValueError:
        known = " or ".join(one.value for one in WatermarkPolicy)
        raise InvalidQuery(f"{WATERMARK_POLICY} is {text!r}", hint=f"set it to {known}") from None


def session_storage(session: SparkSession) -> StorageOptions:
    """How stores are reached: what the session says about Hadoop's own clients (``spark.hadoop.…``), else the environment."""
    values: dict[str, str] = {}
    for name, value in session.sparkContext.getConf().getAll():
        setting = name.removeprefix(_HADOOP)
        if setting == name or not value:
            continue
        if setting in _S3A:
            values[_S3A[setting]] = value
        elif setting == "fs.s3a.endpoint":
            values[S3_ENDPOINT] = value if "://" in value else f"https://{value}"
        elif setting == "fs.s3a.path.style.access":
            values["pathStyle"] = value.lower()
        elif setting.startswith(_HDFS_PREFIXES):
            values[HADOOP_PREFIX + setting] = value
    return StorageOptions(values).over(from_environment(os.environ))
