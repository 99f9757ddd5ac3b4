"""Aggregates whose result is one of the values, or several of them."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from tests.differential.compare import Rules
from tests.differential.corpus import DELAY, query
from tests.differential.harness import Sources


@query(rules=Rules(unordered=("a", "b", "c", "d")))
def lists_of_every_type(s: Sources) -> DataFrame:
    grouped = s.events.withWatermark("ts", DELAY).groupBy(F.window("ts", "20 seconds"))
    return grouped.agg(
        F.collect_list("cost").alias("a"),
        F.expr("array_agg(point)").alias("b"),
        F.collect_list("tags").alias("c"),
        F.collect_list(F.struct("day", "flag")).alias("d"),
    ).select("window.start", "a", "b", "c", "d")


@query(rules=Rules(unordered=("a", "b", "c")))
def sets_of_every_type(s: Sources) -> DataFrame:
    grouped = s.events.withWatermark("ts", DELAY).groupBy(F.window("ts", "20 seconds"))
    return grouped.agg(
        F.collect_set("key").alias("a"), F.collect_set("tags").alias("b"), F.collect_set("point").alias("c")
    ).select("window.start", "a", "b", "c")


@query(rules=Rules(unordered=("a", "b")))
def collections_with_filters(s: Sources) -> DataFrame:
    grouped = s.events.withWatermark("ts", DELAY).groupBy(F.window("ts", "10 seconds"), "grp")
    return grouped.agg(
        F.expr("collect_list(key) filter (where amount > 900)").alias("a"),
        F.expr("collect_set(key) filter (where flag)").alias("b"),
    ).select("window.start", "grp", "a", "b")


@query(mode="update", keys=("key",), rules=Rules(unordered=("rows",)))
def a_running_list_of_structs(s: Sources) -> DataFrame:
    return s.events.where("id % 7 = 0").groupBy("key").agg(F.collect_list(F.struct("id", "amount")).alias("rows"))


@query()
def values_of_the_extreme_row(s: Sources) -> DataFrame:
    grouped = s.events.withWatermark("ts", DELAY).groupBy(F.window("ts", "10 seconds"), "flag")
    return grouped.agg(
        F.max_by("amount", "id").alias("a"),
        F.min_by("text", F.col("id")).alias("b"),
        F.max_by("point", F.struct("ts", "id")).alias("c"),
        F.expr("max_by(id, struct(grp, id))").alias("d"),
        F.expr("min_by(id, id) filter (where grp = 3)").alias("e"),
    ).select("window.start", "flag", "a", "b", "c", "d", "e")


@query()
def values_of_the_extreme_rows(s: Sources) -> DataFrame:
    grouped = s.events.withWatermark("ts", DELAY).groupBy(F.window("ts", "10 seconds"))
    return grouped.agg(
        F.expr("max_by(amount, id, 3)").alias("a"),
        F.expr("min_by(key, id, 2)").alias("b"),
        F.expr("max_by(id, struct(grp, id), 4) filter (where flag)").alias("c"),
    ).select("window.start", "a", "b", "c")


@query()
def extremes_of_arrays_structs_and_bytes(s: Sources) -> DataFrame:
    grouped = s.events.withWatermark("ts", DELAY).groupBy(F.window("ts", "10 seconds"))
    return grouped.agg(
        F.max("tags").alias("a"), F.min("tags").alias("b"), F.max("point").alias("c"), F.min("point").alias("d"),
        F.max("raw").alias("e"), F.min("raw").alias("f"), F.max(F.struct("flag", "ratio", "id")).alias("g"),
    ).select("window.start", "a", "b", "c", "d", "e", "f", "g")  # fmt: skip


@query()
def joined_text(s: Sources) -> DataFrame:
    grouped = s.events.where("id % 5 = 0").withWatermark("ts", DELAY).groupBy(F.window("ts", "20 seconds"))
    return grouped.agg(
        F.expr("listagg(key, ', ') within group (order by id)").alias("a"),
        F.expr("string_agg(text, '|') within group (order by grp desc, id)").alias("b"),
        F.expr("listagg(distinct key) within group (order by key desc)").alias("c"),
        F.expr("listagg(key, '-') within group (order by amount nulls last, id) filter (where flag)").alias("d"),
        F.expr("listagg(raw, x'2C') within group (order by id)").alias("e"),
    ).select("window.start", "a", "b", "c", "d", "e")


@query(mode="update", keys=("grp",))
def truth_and_bits(s: Sources) -> DataFrame:
    return s.events.groupBy("grp").agg(
        F.expr("bool_and(amount > -900)").alias("a"),
        F.expr("bool_or(amount > 990)").alias("b"),
        F.expr("every(flag)").alias("c"),
        F.expr("some(flag)").alias("d"),
        F.expr("any(flag) filter (where id > 100000)").alias("e"),
        F.bit_and("small").alias("f"),
        F.bit_or("amount").alias("g"),
        F.bit_xor("huge").alias("h"),
        F.count_if("flag").alias("i"),
    )


@query(mode="update", keys=("grp",))
def lenient_sums(s: Sources) -> DataFrame:
    return s.events.groupBy("grp").agg(
        F.expr("try_sum(amount)").alias("a"),
        F.expr("try_sum(cost)").alias("b"),
        F.expr("try_avg(amount)").alias("c"),
        F.expr("try_avg(cost)").alias("d"),
        F.expr("try_sum(price)").alias("e"),
    )


@query(mode="update")
def a_lenient_sum_that_does_not_fit(s: Sources) -> DataFrame:
    return s.events.agg(
        F.expr("try_sum(CASE WHEN huge > 0 THEN huge END)").alias("a"), F.expr("try_sum(amount)").alias("b")
    )


@query(mode="update", keys=("grp",))
def sums_of_intervals(s: Sources) -> DataFrame:
    spans = s.events.withColumn("span", F.make_dt_interval(F.lit(0), F.lit(0), F.col("amount"), F.lit(0.5)))
    return spans.groupBy("grp").agg(
        F.sum("span").alias("total"),
        F.avg("span").alias("mean"),
        F.max("span").alias("longest"),
        F.min("span").alias("shortest"),
    )


@query(mode="update", keys=("grp",))
def sums_of_every_number(s: Sources) -> DataFrame:
    return s.events.groupBy("grp").agg(
        F.sum("small").alias("a"),
        F.sum(F.col("amount").cast("float")).alias("b"),
        F.avg(F.col("amount").cast("float")).alias("c"),
        F.sum(F.col("cost").cast("decimal(38,10)")).alias("d"),
        F.avg(F.col("cost").cast("decimal(20,0)")).alias("e"),
        F.sum((F.col("grp") % 100).cast("tinyint")).alias("f"),
        F.avg("small").alias("g"),
    )
