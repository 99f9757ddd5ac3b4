"""What a Spark session must be like before anything is submitted to it. Each refusal names the setting and the way out."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, SparkSession

from tidegate.model.errors import InvalidQuery

PARALLELISM_SETTING = "spark.tidegate.parallelism"
"""Of the session: slots of a query that does not say how many it wants."""


def refuse_connect(df: object) -> None:
    """Raises InvalidQuery for a DataFrame of a Spark Connect session, or for something that is no DataFrame."""
    if type(df).__module__.startswith("pyspark.sql.connect"):
        raise InvalidQuery(
            "this DataFrame belongs to a Spark Connect session; its plan is out of reach of the client",
            hint="run the query in a classic session: SparkSession.builder.master(...) instead of .remote(...)",
        )
    if not isinstance(df, DataFrame):
        raise InvalidQuery(f"writeStream needs a PySpark DataFrame, not {type(df).__name__}")


def check_session(session: SparkSession) -> None:
    """Raises InvalidQuery for settings under which long-running slots cannot live."""
    conf = session.sparkContext.getConf()
    if conf.get("spark.dynamicAllocation.enabled", "false") == "true":
        raise InvalidQuery(
            "spark.dynamicAllocation.enabled is true: Spark runs no barrier stage while it may take executors away",
            hint="set spark.dynamicAllocation.enabled=false and a fixed number of executors",
        )
    if conf.get("spark.speculation", "false") == "true":
        raise InvalidQuery(
            "spark.speculation is true: a second copy of a running slot would be started beside the first",
            hint="set spark.speculation=false",
        )


def java_context(session: SparkSession) -> Any:
    """Spark's own SparkContext, behind PySpark's."""
    context: Any = session.sparkContext._jsc
    return context.sc()


def task_slots(session: SparkSession) -> int:
    """How many tasks the cluster can run at once right now."""
    context = java_context(session)
    return int(context.maxNumConcurrentTasks(context.resourceProfileManager().defaultResourceProfile()))


def is_one_host(session: SparkSession) -> bool:
    """Whether driver and executors share a process (``local[n]``), hence a host and a user."""
    return str(session.sparkContext.master).partition("[")[0] == "local"


def choose_parallelism(session: SparkSession, wanted: int, *, spare: bool) -> int:
    """``wanted``; when it is 0, the session's ``spark.tidegate.parallelism``, else all task slots of the cluster.

    ``spare``: leave one of them free if nothing was asked for, because the user will run Spark jobs beside the query. Raises
    InvalidQuery when a local session has too few; executors of a cluster may still be on their way, so there the deploy waits.
    """
    available = task_slots(session)
    said = wanted or _session_parallelism(session)
    if said == 0:
        return slots_for_queries(session, spare=spare)
    if said > available and is_one_host(session):
        raise too_few_slots(session, said, available)
    return said


def slots_for_queries(session: SparkSession, *, spare: bool) -> int:
    """How many task slots queries take when nobody says how many: the session's setting, else all, or all but a ``spare`` one."""
    available = task_slots(session)
    return _session_parallelism(session) or max(1, available - 1 if spare else available)


def _session_parallelism(session: SparkSession) -> int:
    return int(session.conf.get(PARALLELISM_SETTING, "0") or 0)


def too_few_slots(session: SparkSession, wanted: int, available: int) -> InvalidQuery:
    return InvalidQuery(
        f"the query asks for {wanted} slots, and {session.sparkContext.master} can run {available} tasks at once",
        hint=f'lower .option("parallelism", {max(1, available)}), or give Spark more cores: all slots run at the same time',
    )
