"""What a query takes from the configuration of its Spark session: settings of Structured Streaming that mean the same here."""

from __future__ import annotations

from pyspark.sql import SparkSession

from tidegate.model.config import WatermarkPolicy
from tidegate.model.errors import InvalidQuery

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
