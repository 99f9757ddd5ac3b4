"""User functions in Python."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from tests.differential.corpus import DELAY, query
from tests.differential.harness import Sources


@query()
def python_udf(s: Sources) -> DataFrame:
    @F.udf("string")
    def initials(text):
        return None if text is None else "".join(word[0] for word in text.split())

    return s.events.select("id", initials("text").alias("i"))


@query()
def python_udf_of_every_type(s: Sources) -> DataFrame:
    @F.udf("struct<when:timestamp,day:date,cost:decimal(12,2),tags:array<string>,x:int,raw:binary>")
    def echo(ts, day, cost, tags, point, raw):
        return (ts, day, cost, tags, None if point is None else point.x, raw)

    return s.events.select("id", echo("ts", "day", "cost", "tags", "point", "raw").alias("e"))


@query()
def python_udf_in_a_filter(s: Sources) -> DataFrame:
    odd = F.udf(lambda n: n % 2 == 1, "boolean")
    return s.events.where(odd("id")).select("id")


@query()
def chained_python_udfs(s: Sources) -> DataFrame:
    twice = F.udf(lambda n: n * 2, "long")
    return s.events.select("id", twice(twice("id") + 1).alias("four"))


@query()
def pandas_udf(s: Sources) -> DataFrame:
    @F.pandas_udf("double")
    def scaled(price: pd.Series, amount: pd.Series) -> pd.Series:
        return price * 2 + amount.fillna(0)

    return s.events.select("id", scaled("price", "amount").alias("v"))


@query()
def pandas_udf_with_structs(s: Sources) -> DataFrame:
    @F.pandas_udf("struct<x:bigint,y:string>")
    def moved(point: pd.DataFrame) -> pd.DataFrame:
        return pd.DataFrame({"x": point["x"].fillna(-1).astype("int64") + 1, "y": point["y"]})

    return s.events.where("point is not null").select("id", moved("point").alias("p"))


@query()
def iterator_pandas_udf(s: Sources) -> DataFrame:
    @F.pandas_udf("long")
    def plus_one(batches: Iterator[pd.Series]) -> Iterator[pd.Series]:
        for batch in batches:
            yield batch + 1

    return s.events.select("id", plus_one("id").alias("next"))


@query()
def map_in_arrow(s: Sources) -> DataFrame:
    def positive(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch.filter(pc.greater(batch["amount"], 0))

    return s.events.select("id", "key", "amount").mapInArrow(positive, "id long, key string, amount long")


@query()
def map_in_pandas(s: Sources) -> DataFrame:
    def twice(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        for frame in frames:
            yield frame.assign(hour=frame.ts.dt.hour)[["id", "ts", "hour"]]
            yield frame.assign(hour=-1)[["id", "ts", "hour"]]

    return s.events.select("id", "ts").mapInPandas(twice, "id long, ts timestamp, hour int")


@query()
def sliding_windows_behind_a_udf(s: Sources) -> DataFrame:
    bucket = F.udf(lambda text: 0 if text is None else len(text) % 3, "int")
    grouped = s.events.withColumn("bucket", bucket("text")).withWatermark("ts", DELAY)
    return (
        grouped.groupBy(F.window("ts", "20 seconds", "10 seconds"), "bucket")
        .count()
        .select("window.start", "bucket", "count")
    )
