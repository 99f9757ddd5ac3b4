"""Values, list elements and map entries with a time to live are gone when a timer looks for them; those without one are not."""

from pyspark.sql import DataFrame, Row
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

SCHEMA = "key string, n int"
ROWS = [{"key": key, "n": n} for n in range(2) for key in ("a", "b")]
LIVE_ROWS = 2


class ShortMemory(StatefulProcessor):
    def init(self, handle: StatefulProcessorHandle) -> None:
        self.handle = handle
        self.kept = handle.getValueState("kept", "n int")
        self.value = handle.getValueState("value", "n int", 300)
        self.list = handle.getListState("list", "n int", 300)
        self.map = handle.getMapState("map", "n int", "m int", 300)

    def handleInputRows(self, key, rows, timerValues):
        for row in rows:
            self.kept.update((row.n,))
            self.value.update((row.n,))
            self.list.appendValue((row.n,))
            self.map.updateValue((row.n,), (row.n,))
        if not list(self.handle.listTimers()):
            self.handle.registerTimer(timerValues.getCurrentProcessingTimeInMs() + 1500)
        return iter([])

    def handleExpiredTimer(self, key, timerValues, expiredTimerInfo):
        yield Row(
            key=key[0],
            kept=self.kept.get()[0],
            value=self.value.exists(),
            elements=len(list(self.list.get())),
            entries=len(list(self.map.keys())),
        )

    def close(self) -> None:
        pass


def query(rows: DataFrame) -> DataFrame:
    return rows.groupBy("key").transformWithState(
        ShortMemory(), "key string, kept int, value boolean, elements int, entries int", "Append", "ProcessingTime"
    )
