"""Orders not paid within a minute of event time: map state and several timers of one key, some of them deleted, pandas."""

import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

SCHEMA = "customer string, order_id int, event string, ts timestamp"
ROWS = [
    {"customer": customer, "order_id": order, "event": event, "ts": f"2024-05-01 12:{minute:02d}:00"}
    for customer, order, event, minute in [
        ("ann", 1, "ordered", 0),
        ("ann", 2, "ordered", 1),
        ("bob", 3, "ordered", 1),
        ("ann", 1, "paid", 1),
        ("eve", 4, "ordered", 2),
        ("eve", 4, "paid", 2),
    ]
]
SENTINEL = {"customer": "sentinel", "order_id": 0, "event": "paid", "ts": "2024-05-02 00:00:00"}


class UnpaidOrders(StatefulProcessor):
    def init(self, handle: StatefulProcessorHandle) -> None:
        self.handle = handle
        self.due = handle.getMapState("due", "order_id int", "due_ms bigint")
        self.paid = handle.getMapState("paid", "order_id int", "paid boolean")

    def handleInputRows(self, key, rows, timerValues):
        for pdf in rows:
            for order, event, ts in zip(pdf["order_id"], pdf["event"], pdf["ts"], strict=True):
                if event == "ordered":
                    due_ms = int(ts.timestamp() * 1000) + 60_000 + order
                    self.due.updateValue((order,), (due_ms,))
                    if not self.paid.containsKey((order,)):
                        self.handle.registerTimer(due_ms)
                else:
                    self.paid.updateValue((order,), (True,))
                    if self.due.containsKey((order,)):
                        self.handle.deleteTimer(self.due.getValue((order,))[0])
        return iter([])

    def handleExpiredTimer(self, key, timerValues, expiredTimerInfo):
        for (order,), (due_ms,) in list(self.due.iterator()):
            if due_ms == expiredTimerInfo.getExpiryTimeInMs():
                self.due.removeKey((order,))
                yield pd.DataFrame({"customer": [key[0]], "order_id": [order], "due_ms": [due_ms]})

    def close(self) -> None:
        pass


def query(events: DataFrame) -> DataFrame:
    return (
        events.withWatermark("ts", "1 minute")
        .groupBy("customer")
        .transformWithStateInPandas(
            UnpaidOrders(), "customer string, order_id int, due_ms bigint", "Append", "EventTime"
        )
    )
