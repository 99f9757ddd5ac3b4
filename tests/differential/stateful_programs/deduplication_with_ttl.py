"""The first message of an id passes, others within the hour do not: a value with a time to live."""

from pyspark.sql import DataFrame, Row
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

SCHEMA = "id string, text string"
ROWS = [{"id": f"m{n % 4}", "text": "hello"} for n in range(12)]
LIVE_ROWS = 4


class Deduplicate(StatefulProcessor):
    def init(self, handle: StatefulProcessorHandle) -> None:
        self.seen = handle.getValueState("seen", "seen boolean", ttlDurationMs=3_600_000)

    def handleInputRows(self, key, rows, timerValues):
        for row in rows:
            if not self.seen.exists():
                self.seen.update((True,))
                yield Row(id=row.id, text=row.text)

    def close(self) -> None:
        pass


def query(messages: DataFrame) -> DataFrame:
    return messages.groupBy("id").transformWithState(
        Deduplicate(), "id string, text string", outputMode="Append", timeMode="ProcessingTime"
    )
