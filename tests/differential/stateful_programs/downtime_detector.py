"""Which sensor has been silent for a second: value state and timers in processing time, as in Spark's programming guide."""

from pyspark.sql import DataFrame, Row
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

SCHEMA = "sensor_id string, reading int"
ROWS = [{"sensor_id": sensor, "reading": n} for n in range(3) for sensor in ("s1", "s2")]
LIVE_ROWS = 2


class DownTimeDetectorStatefulProcessor(StatefulProcessor):
    def init(self, handle: StatefulProcessorHandle) -> None:
        self.handle = handle
        self.last_seen = handle.getValueState("last_seen", "last_seen bigint, readings int")

    def handleInputRows(self, key, rows, timerValues):
        for timer in self.handle.listTimers():
            self.handle.deleteTimer(timer)
        _, readings = self.last_seen.get() or (0, 0)
        now = timerValues.getCurrentProcessingTimeInMs()
        self.last_seen.update((now, readings + sum(1 for _ in rows)))
        self.handle.registerTimer(now + 1000)
        return iter([])

    def handleExpiredTimer(self, key, timerValues, expiredTimerInfo):
        last_seen, readings = self.last_seen.get()
        expected = last_seen + 1000
        yield Row(
            id=key[0],
            readings=readings,
            silent=timerValues.getCurrentProcessingTimeInMs() - last_seen >= 1000,
            own_time=expiredTimerInfo.getExpiryTimeInMs() == expected,
        )

    def close(self) -> None:
        pass


def query(readings: DataFrame) -> DataFrame:
    return readings.groupBy("sensor_id").transformWithState(
        statefulProcessor=DownTimeDetectorStatefulProcessor(),
        outputStructType="id string, readings int, silent boolean, own_time boolean",
        outputMode="Update",
        timeMode="ProcessingTime",
    )
