"""The mean temperature of each sensor, as of now: value state, pandas. The last row of a sensor counts: how many there are depends on batches."""

import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

SCHEMA = "sensor int, temperature double"
ROWS = [{"sensor": n % 3, "temperature": n / 4} for n in range(30)]
LAST_PER = ("sensor",)


class AverageProcessor(StatefulProcessor):
    def init(self, handle: StatefulProcessorHandle) -> None:
        self.average = handle.getValueState("average", "sum double, rows bigint")

    def handleInputRows(self, key, rows, timerValues):
        total, count = self.average.get() if self.average.exists() else (0.0, 0)
        for pdf in rows:
            total += pdf["temperature"].sum()
            count += pdf["temperature"].count()
        self.average.update((total, count))
        yield pd.DataFrame({"sensor": key, "average": total / count})

    def close(self) -> None:
        pass


def query(readings: DataFrame) -> DataFrame:
    return readings.groupBy("sensor").transformWithStateInPandas(
        statefulProcessor=AverageProcessor(),
        outputStructType="sensor int, average double",
        outputMode="Update",
        timeMode="None",
    )
