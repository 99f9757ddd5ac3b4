"""What lies in a shopping cart: map state, with entries that are changed and removed, pandas."""

import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

SCHEMA = "cart string, item string, amount int"
ROWS = [
    {"cart": cart, "item": item, "amount": amount}
    for cart, item, amount in [
        ("c1", "tea", 2),
        ("c1", "milk", 1),
        ("c2", "tea", 5),
        ("c1", "tea", -2),
        ("c2", "jam", 3),
        ("c2", "tea", 1),
        ("c3", "salt", 1),
        ("c3", "salt", -1),
    ]
]
LAST_PER = ("cart",)


class Cart(StatefulProcessor):
    def init(self, handle: StatefulProcessorHandle) -> None:
        self.items = handle.getMapState("items", "item string", "amount int")

    def handleInputRows(self, key, rows, timerValues):
        for pdf in rows:
            for item, amount in zip(pdf["item"], pdf["amount"], strict=True):
                held = self.items.getValue((item,))[0] if self.items.containsKey((item,)) else 0
                if held + amount:
                    self.items.updateValue((item,), (held + amount,))
                else:
                    self.items.removeKey((item,))
        content = sorted(f"{item}:{amount}" for (item,), (amount,) in self.items.iterator())
        yield pd.DataFrame({"cart": [key[0]], "content": [" ".join(content)], "empty": [not self.items.exists()]})

    def close(self) -> None:
        pass


def query(changes: DataFrame) -> DataFrame:
    return changes.groupBy("cart").transformWithStateInPandas(
        Cart(), "cart string, content string, empty boolean", "Update", "None"
    )
