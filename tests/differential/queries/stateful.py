"""``transformWithState`` and ``transformWithStateInPandas``, judged by Spark batch: what leaves does not depend on the order of rows.

Timers, times to live and ``applyInPandasWithState`` have no answer in batch: ``stateful_programs`` compares them with streams.
"""

from __future__ import annotations

import pandas as pd
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.streaming import StatefulProcessor
from pyspark.sql.types import LongType, StringType, StructField, StructType
from tests.differential.corpus import query
from tests.differential.harness import Sources


def numbering(schema: str | StructType = "n bigint") -> StatefulProcessor:
    """Every row of a key gets the next number. Made inside a function, so that workers need not import this file."""

    class Numbering(StatefulProcessor):
        def init(self, handle):
            self.count = handle.getValueState("count", schema)

        def handleInputRows(self, key, rows, timerValues):
            count = self.count.get()[0] if self.count.exists() else 0
            for _ in rows:
                count += 1
                yield Row(key=repr(key), n=count)
            self.count.update((count,))

        def close(self):
            pass

    return Numbering()


def numbered(df: DataFrame, *keys: str) -> DataFrame:
    return df.groupBy(*keys).transformWithState(numbering(), "key string, n bigint", "Append", "None")


@query()
def value_state_of_rows(s: Sources) -> DataFrame:
    return numbered(s.events, "grp")


@query()
def value_state_by_a_string_that_may_be_null(s: Sources) -> DataFrame:
    return numbered(s.events.where("id % 3 = 0"), "text")


@query()
def value_state_by_several_keys(s: Sources) -> DataFrame:
    return numbered(s.events, "grp", "flag")


@query()
def value_state_by_a_date_and_a_decimal(s: Sources) -> DataFrame:
    return numbered(s.events.where("cost < 100"), "day", "cost")


@query()
def value_state_with_a_struct_type_for_schema(s: Sources) -> DataFrame:
    schema = StructType([StructField("n", LongType())])
    return s.events.groupBy("grp").transformWithState(numbering(schema), "key string, n bigint", "Append", "None")


@query()
def value_state_behind_a_filter_and_before_a_projection(s: Sources) -> DataFrame:
    return (
        numbered(s.events.where("amount > 0"), "grp").select((F.col("n") * 2).alias("twice"), "key").where("twice > 4")
    )


@query(mode="update", keys=("grp",))
def running_sum_in_pandas(s: Sources) -> DataFrame:
    class Sum(StatefulProcessor):
        def init(self, handle):
            self.total = handle.getValueState("total", "total bigint, rows int")

        def handleInputRows(self, key, rows, timerValues):
            total, count = self.total.get() or (0, 0)
            for frame in rows:
                total += int(frame["amount"].fillna(0).sum())
                count += len(frame)
            self.total.update((total, count))
            yield pd.DataFrame({"grp": [key[0]], "total": [total], "rows": [count]})

        def close(self):
            pass

    # A null among integer keys makes Spark hand out NaN, which is no key: see deviations.
    small = s.events.where("grp is not null").select("grp", (F.col("amount") % 1000).alias("amount"))
    return small.groupBy("grp").transformWithStateInPandas(Sum(), "grp int, total bigint, rows int", "Update", "None")


@query(mode="update", keys=("grp",))
def running_average_in_pandas(s: Sources) -> DataFrame:
    class Average(StatefulProcessor):
        def init(self, handle):
            self.state = handle.getValueState("state", "sum double, rows bigint")

        def handleInputRows(self, key, rows, timerValues):
            total, count = self.state.get() if self.state.exists() else (0.0, 0)
            for frame in rows:
                total += float(frame["price"].sum())
                count += int(frame["price"].count())
            self.state.update((total, count))
            yield pd.DataFrame({"grp": [key[0]], "mean": [total / count if count else None]})

        def close(self):
            pass

    known = s.events.where("grp is not null")
    return known.groupBy("grp").transformWithStateInPandas(Average(), "grp int, mean double", "Update", "None")


@query()
def first_seen_in_pandas(s: Sources) -> DataFrame:
    class FirstSeen(StatefulProcessor):
        def init(self, handle):
            self.seen = handle.getValueState("seen", "seen boolean")

        def handleInputRows(self, key, rows, timerValues):
            for _ in rows:
                if not self.seen.exists():
                    self.seen.update((True,))
                    yield pd.DataFrame({"key": [key[0]]})

        def close(self):
            pass

    named = s.events.where("key is not null")
    return named.groupBy("key").transformWithStateInPandas(FirstSeen(), "key string", "Append", "None")


@query(mode="update", keys=("grp",))
def list_state_keeps_every_id(s: Sources) -> DataFrame:
    class Ids(StatefulProcessor):
        def init(self, handle):
            self.ids = handle.getListState("ids", "id bigint")

        def handleInputRows(self, key, rows, timerValues):
            self.ids.appendList([(row.id,) for row in rows])
            known = sorted(value for (value,) in self.ids.get())
            yield Row(grp=key[0], known=len(known), smallest=known[0], largest=known[-1])

        def close(self):
            pass

    return s.events.groupBy("grp").transformWithState(
        Ids(), "grp int, known int, smallest bigint, largest bigint", "Update", "None"
    )


@query(mode="update", keys=("grp",))
def list_state_of_the_three_largest(s: Sources) -> DataFrame:
    class Largest(StatefulProcessor):
        def init(self, handle):
            self.top = handle.getListState(
                "top", StructType([StructField("id", LongType()), StructField("key", StringType())])
            )

        def handleInputRows(self, key, rows, timerValues):
            known = list(self.top.get()) if self.top.exists() else []
            for row in rows:
                known = sorted([*known, (row.id, row.key)], key=lambda one: -one[0])[:3]
            self.top.put(known)
            yield Row(grp=key[0], top=[one[0] for one in known])

        def close(self):
            pass

    return s.events.groupBy("grp").transformWithState(Largest(), "grp int, top array<bigint>", "Update", "None")


@query(mode="update", keys=("grp", "key"))
def map_state_counts_by_word(s: Sources) -> DataFrame:
    class Words(StatefulProcessor):
        def init(self, handle):
            self.counts = handle.getMapState("counts", "word string", "n int")

        def handleInputRows(self, key, rows, timerValues):
            for row in rows:
                word = (row.key,)
                seen = self.counts.getValue(word)[0] if self.counts.containsKey(word) else 0
                self.counts.updateValue(word, (seen + 1,))
            for (word,), (n,) in self.counts.iterator():
                yield Row(grp=key[0], key=word, n=n)

        def close(self):
            pass

    named = s.events.where("key is not null")
    return named.groupBy("grp").transformWithState(Words(), "grp int, key string, n int", "Update", "None")


@query(mode="update", keys=("grp",))
def map_state_in_pandas_with_keys_and_values(s: Sources) -> DataFrame:
    class Flags(StatefulProcessor):
        def init(self, handle):
            self.flags = handle.getMapState("flags", "flag boolean, day date", "rows bigint, last bigint")

        def handleInputRows(self, key, rows, timerValues):
            for frame in rows:
                for flag, day, one in zip(frame["flag"], frame["day"], frame["id"], strict=True):
                    n, last = self.flags.getValue((flag, day)) or (0, -1)
                    self.flags.updateValue((flag, day), (n + 1, max(last, one)))
            kinds = len(list(self.flags.keys()))
            total = sum(n for n, _ in self.flags.values())
            yield pd.DataFrame({"grp": [key[0]], "kinds": [kinds], "total": [total]})

        def close(self):
            pass

    known = s.events.where("grp is not null and flag is not null and day is not null")
    return known.groupBy("grp").transformWithStateInPandas(
        Flags(), "grp int, kinds int, total bigint", "Update", "None"
    )


@query(mode="update", keys=("grp",))
def several_variables_cleared_and_filled(s: Sources) -> DataFrame:
    class Several(StatefulProcessor):
        def init(self, handle):
            self.count = handle.getValueState("count", "n int")
            self.ids = handle.getListState("ids", "id bigint")
            self.keys = handle.getMapState("keys", "key string", "id bigint")

        def handleInputRows(self, key, rows, timerValues):
            n = self.count.get()[0] if self.count.exists() else 0
            for row in rows:
                n += 1
                self.ids.appendValue((row.id,))
                self.keys.updateValue((str(row.key),), (row.id,))
                if n % 7 == 0:
                    self.ids.clear()
                    self.keys.clear()
                if row.id % 2:
                    self.keys.removeKey((str(row.key),))
            self.count.clear()
            self.count.update((n,))
            yield Row(grp=key[0], n=n, ids=len(list(self.ids.get())), any=self.ids.exists())

        def close(self):
            pass

    return s.events.groupBy("grp").transformWithState(
        Several(), "grp int, n int, ids int, any boolean", "Update", "None"
    )


@query(mode="update", keys=("grp",))
def values_of_every_type(s: Sources) -> DataFrame:
    class Everything(StatefulProcessor):
        def init(self, handle):
            self.first = handle.getValueState(
                "first",
                "id bigint, key string, small smallint, price double, cost decimal(12,2), flag boolean, day date, raw binary, tags array<string>",
            )

        def handleInputRows(self, key, rows, timerValues):
            for row in rows:
                if not self.first.exists() or row.id < self.first.get()[0]:
                    self.first.update(
                        (row.id, row.key, row.small, row.price, row.cost, row.flag, row.day, row.raw, row.tags)
                    )
            yield Row(grp=key[0], first=repr(self.first.get()))

        def close(self):
            pass

    return s.events.groupBy("grp").transformWithState(Everything(), "grp int, first string", "Update", "None")


@query()
def output_of_every_type(s: Sources) -> DataFrame:
    class Echo(StatefulProcessor):
        def init(self, handle):
            self.count = handle.getValueState("count", "n int")

        def handleInputRows(self, key, rows, timerValues):
            for row in rows:
                yield Row(id=row.id, ts=row.ts, day=row.day, cost=row.cost, tags=row.tags, point=row.point, raw=row.raw)

        def close(self):
            pass

    return s.events.groupBy("grp").transformWithState(
        Echo(),
        "id bigint, ts timestamp, day date, cost decimal(12,2), tags array<string>, point struct<x:int,y:string>, raw binary",
        "Append",
        "None",
    )


@query()
def pandas_rows_pass_through(s: Sources) -> DataFrame:
    class Echo(StatefulProcessor):
        def init(self, handle):
            self.count = handle.getValueState("count", "n int")

        def handleInputRows(self, key, rows, timerValues):
            for frame in rows:
                yield frame[["id", "key", "ts", "price", "flag"]]

        def close(self):
            pass

    return s.events.groupBy("grp").transformWithStateInPandas(
        Echo(), "id bigint, key string, ts timestamp, price double, flag boolean", "Append", "None"
    )


@query(mode="update", keys=("grp",))
def initial_state_of_rows(s: Sources) -> DataFrame:
    class Continued(StatefulProcessor):
        def init(self, handle):
            self.count = handle.getValueState("count", "n bigint")

        def handleInputRows(self, key, rows, timerValues):
            n = (self.count.get() or (0,))[0] + sum(1 for _ in rows)
            self.count.update((n,))
            yield Row(grp=key[0], n=n)

        def handleInitialState(self, key, initialState, timerValues):
            self.count.update((initialState.start,))

        def close(self):
            pass

    initial = s.spark.createDataFrame([(0, 1000), (1, 2000), (99, 3000)], "grp int, start bigint")
    return s.events.groupBy("grp").transformWithState(
        Continued(), "grp int, n bigint", "Update", "None", initial.groupBy("grp")
    )


@query(mode="update", keys=("key",))
def initial_state_in_pandas(s: Sources) -> DataFrame:
    class Continued(StatefulProcessor):
        def init(self, handle):
            self.count = handle.getValueState("count", "n bigint")

        def handleInputRows(self, key, rows, timerValues):
            n = (self.count.get() or (0,))[0] + sum(len(frame) for frame in rows)
            self.count.update((n,))
            yield pd.DataFrame({"key": [key[0]], "n": [n]})

        def handleInitialState(self, key, initialState, timerValues):
            self.count.update((int(initialState["start"].sum()),))

        def close(self):
            pass

    named = s.events.where("key is not null")
    initial = s.spark.createDataFrame([("ann", 10), ("bob", 20), ("bob", 5)], "key string, start bigint")
    return named.groupBy("key").transformWithStateInPandas(
        Continued(), "key string, n bigint", "Update", "None", initial.groupBy("key")
    )


@query()
def a_processor_that_gives_nothing_for_most_keys(s: Sources) -> DataFrame:
    class Rare(StatefulProcessor):
        def init(self, handle):
            self.count = handle.getValueState("count", "n int")

        def handleInputRows(self, key, rows, timerValues):
            for row in rows:
                if row.id == 17:
                    yield Row(id=row.id, grp=key[0])

        def close(self):
            pass

    return s.events.groupBy("grp").transformWithState(Rare(), "id bigint, grp int", "Append", "None")
