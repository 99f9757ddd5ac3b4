"""Visits that end after ten seconds without an event: value state and timers in event time that move on with every event."""

import datetime

from pyspark.sql import DataFrame, Row
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

SCHEMA = "user string, ts timestamp"
ROWS = [
    {"user": user, "ts": f"2024-05-01 12:00:{second:02d}"}
    for user, second in [("ann", 1), ("bob", 2), ("ann", 5), ("ann", 12), ("bob", 9), ("eve", 20)]
]
SENTINEL = {"user": "sentinel", "ts": "2024-05-02 00:00:00"}


class VisitProcessor(StatefulProcessor):
    def init(self, handle: StatefulProcessorHandle) -> None:
        self.handle = handle
        self.visit = handle.getValueState("visit", "start timestamp, finish timestamp, events int")

    def handleInputRows(self, key, rows, timerValues):
        start, finish, events = self.visit.get() or (None, None, 0)
        for row in rows:
            ts = row.ts.replace(tzinfo=None)
            start = ts if start is None else min(start, ts)
            finish = ts if finish is None else max(finish, ts)
            events += 1
        self.visit.update((start, finish, events))
        for timer in list(self.handle.listTimers()):
            self.handle.deleteTimer(timer)
        end = finish.replace(tzinfo=datetime.UTC).timestamp() * 1000
        self.handle.registerTimer(int(end) + 10_000)
        return iter([])

    def handleExpiredTimer(self, key, timerValues, expiredTimerInfo):
        start, finish, events = self.visit.get()
        self.visit.clear()
        yield Row(user=key[0], start=start, finish=finish, events=events, ended_ms=expiredTimerInfo.getExpiryTimeInMs())

    def close(self) -> None:
        pass


def query(events: DataFrame) -> DataFrame:
    return (
        events.withWatermark("ts", "0 seconds")
        .groupBy("user")
        .transformWithState(
            statefulProcessor=VisitProcessor(),
            outputStructType="user string, start timestamp, finish timestamp, events int, ended_ms bigint",
            outputMode="Append",
            timeMode="EventTime",
        )
        .where("user <> 'sentinel'")
    )
