"""``applyInPandasWithState`` as in PySpark's own documentation: a count per key."""

import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

SCHEMA = "id string, value int"
ROWS = [{"id": f"k{n % 3}", "value": n} for n in range(12)]
LAST_PER = ("id",)


def count_fn(key, pdf_iter, state: GroupState):
    count, total = state.get if state.exists else (0, 0)
    for pdf in pdf_iter:
        count += len(pdf)
        total += int(pdf["value"].sum())
    state.update((count, total))
    yield pd.DataFrame({"id": [key[0]], "count": [count], "total": [total], "again": [state.get == (count, total)]})


def query(rows: DataFrame) -> DataFrame:
    return rows.groupBy("id").applyInPandasWithState(
        count_fn,
        outputStructType="id string, count long, total long, again boolean",
        stateStructType="len long, total long",
        outputMode="Update",
        timeoutConf=GroupStateTimeout.NoTimeout,
    )
