"""Alarms out of a processor, counted by minute behind it: ``eventTimeColumnName`` carries the watermark on."""

import datetime

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

SCHEMA = "sensor string, ts timestamp, value int"
ROWS = [
    {"sensor": f"s{n % 2}", "ts": f"2024-05-01 12:{n // 6:02d}:{n % 6 * 10:02d}", "value": n * 7 % 10}
    for n in range(24)
]
SENTINEL = {"sensor": "sentinel", "ts": "2024-05-02 00:00:00", "value": 0}


class Alarms(StatefulProcessor):
    def init(self, handle: StatefulProcessorHandle) -> None:
        self.alarms = handle.getValueState("alarms", "n int")

    def handleInputRows(self, key, rows, timerValues):
        n = (self.alarms.get() or (0,))[0]
        for row in rows:
            if row.value > 5 or row.ts.day > 1:
                n += 1
                yield Row(sensor=key[0], at=row.ts.astimezone(datetime.UTC))
        self.alarms.update((n,))

    def close(self) -> None:
        pass


def query(readings: DataFrame) -> DataFrame:
    alarms = (
        readings.withWatermark("ts", "10 seconds")
        .groupBy("sensor")
        .transformWithState(Alarms(), "sensor string, at timestamp", "Append", "EventTime", eventTimeColumnName="at")
    )
    return (
        alarms.groupBy(F.window("at", "1 minute"))
        .count()
        .select(F.col("window.start").alias("minute"), "count")
        .where("minute < timestamp '2024-05-01 13:00:00'")
    )
