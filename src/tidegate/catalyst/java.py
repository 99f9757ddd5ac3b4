"""Reading Scala objects of the driver's JVM from Python. A call costs about 0.1 ms: these helpers keep them few."""

from __future__ import annotations

from typing import Any, TypeAlias

from py4j.java_gateway import get_field
from pyspark.sql import SparkSession
from pyspark.sql.conf import RuntimeConfig

Java: TypeAlias = Any
"""An object that lives in the JVM."""


def items(seq: Java) -> list[Java]:
    """The elements of a Scala ``Seq``."""
    return [seq.apply(index) for index in range(seq.size())]


def present(option: Java) -> Java | None:
    """The value of a Scala ``Option``, or None."""
    return option.get() if option.isDefined() else None


def class_name(of: Java) -> str:
    """The simple name of the object's class: ``Project``."""
    return of.getClass().getSimpleName()


def pairs(scala_map: Java) -> dict[str, str]:
    """A Scala ``Map[String, String]``."""
    return {str(entry._1()): str(entry._2()) for entry in items(scala_map.toSeq())}


def byte_string(seq: Java) -> bytes:
    """A Scala ``Seq[Byte]`` in one call instead of one per byte."""
    return bytes(seq) if isinstance(seq, bytes | bytearray) else bytes(seq.unsafeArray())


def interval_parts(interval: Java) -> tuple[int, int, int]:
    """Months, days and microseconds of a ``CalendarInterval``."""
    months, days, microseconds = (int(get_field(interval, name) or 0) for name in ("months", "days", "microseconds"))
    return months, days, microseconds


def catalyst(spark: SparkSession) -> Java:
    """The package ``org.apache.spark.sql.catalyst``."""
    jvm: Java = spark._jvm
    return jvm.org.apache.spark.sql.catalyst


def session_zone(conf: RuntimeConfig) -> str:
    return str(conf.get("spark.sql.session.timeZone"))


def one_line(error: BaseException) -> str:
    """What an error of the JVM says, without the plan and the frames that Spark puts below it."""
    text = str(error).strip()
    first = text.splitlines()[0].strip() if text else type(error).__name__
    return first.rstrip(";").split(" SQLSTATE:")[0].rstrip()
