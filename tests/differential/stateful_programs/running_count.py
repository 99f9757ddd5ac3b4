"""How often a user has been seen, for every event: value state, rows."""

from pyspark.sql import DataFrame, Row
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

SCHEMA = "user string, page string"
ROWS = [{"user": user, "page": page} for page in ("home", "cart", "pay") for user in ("ann", "bob", "eve")]


class RunningCountStatefulProcessor(StatefulProcessor):
    def init(self, handle: StatefulProcessorHandle) -> None:
        self._count = handle.getValueState("count", "count long")

    def handleInputRows(self, key, rows, timerValues):
        count = self._count.get()[0] if self._count.exists() else 0
        for _ in rows:
            count += 1
            yield Row(user=key[0], count=count)
        self._count.update((count,))

    def close(self) -> None:
        pass


def query(events: DataFrame) -> DataFrame:
    return events.groupBy("user").transformWithState(
        statefulProcessor=RunningCountStatefulProcessor(),
        outputStructType="user string, count long",
        outputMode="Update",
        timeMode="None",
    )
