"""``applyInPandasWithState`` with time-outs in event time: a session leaves when nothing has come for ten seconds."""

import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

SCHEMA = "user string, ts timestamp"
ROWS = [
    {"user": user, "ts": f"2024-05-01 12:00:{second:02d}"}
    for user, second in [("ann", 1), ("bob", 2), ("ann", 5), ("ann", 12), ("bob", 9), ("eve", 20)]
]
SENTINEL = {"user": "sentinel", "ts": "2024-05-02 00:00:00"}


def sessions(key, pdf_iter, state: GroupState):
    if state.hasTimedOut:
        start_ms, end_ms, events = state.get
        state.remove()
        yield pd.DataFrame({"user": [key[0]], "start_ms": [start_ms], "end_ms": [end_ms], "events": [events]})
        return
    start_ms, end_ms, events = state.getOption or (2**62, 0, 0)
    for pdf in pdf_iter:
        times_ms = [int(ts.timestamp() * 1000) for ts in pdf["ts"]]
        start_ms, end_ms, events = min([start_ms, *times_ms]), max([end_ms, *times_ms]), events + len(times_ms)
    state.update((start_ms, end_ms, events))
    state.setTimeoutTimestamp(end_ms + 10_000)


def query(events: DataFrame) -> DataFrame:
    return (
        events.withWatermark("ts", "0 seconds")
        .groupBy("user")
        .applyInPandasWithState(
            sessions,
            "user string, start_ms long, end_ms long, events int",
            "start_ms long, end_ms long, events int",
            "Append",
            GroupStateTimeout.EventTimeTimeout,
        )
        .where("user <> 'sentinel'")
    )
