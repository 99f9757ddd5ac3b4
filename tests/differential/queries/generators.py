"""explode and its relatives: a row becomes several."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from tests.differential.corpus import DELAY, query
from tests.differential.harness import Sources


@query()
def explode_an_array(s: Sources) -> DataFrame:
    return s.events.select("id", F.explode("tags").alias("tag"))


@query()
def explode_outer_an_array(s: Sources) -> DataFrame:
    return s.events.select("id", F.explode_outer("tags").alias("tag"))


@query()
def posexplode_an_array(s: Sources) -> DataFrame:
    return s.events.select("id", F.posexplode("tags"))


@query()
def posexplode_outer_an_array(s: Sources) -> DataFrame:
    return s.events.select("id", "tags", F.posexplode_outer("tags").alias("at", "tag"))


@query()
def explode_a_map(s: Sources) -> DataFrame:
    return s.events.select("id", F.explode(F.create_map(F.lit("a"), "amount", F.lit("b"), F.col("grp").cast("long"))))


@query()
def explode_outer_a_map_that_may_be_null(s: Sources) -> DataFrame:
    entries = F.when(F.col("flag"), F.create_map(F.lit("a"), "amount"))
    return s.events.select("id", F.explode_outer(entries).alias("k", "v"))


@query()
def posexplode_a_map(s: Sources) -> DataFrame:
    return s.events.select("id", F.posexplode(F.create_map(F.lit("x"), "key", F.lit("y"), "text")))


@query()
def explode_a_constant(s: Sources) -> DataFrame:
    return s.events.selectExpr("id", "explode(array(1, 2, null)) as n")


@query()
def explode_a_computed_array(s: Sources) -> DataFrame:
    return s.events.select("id", F.explode(F.split("text", " ")).alias("word")).where("word <> ''")


@query()
def explode_structs(s: Sources) -> DataFrame:
    pairs = F.array(F.struct("grp", "flag"), F.struct(F.lit(1).alias("grp"), F.lit(True).alias("flag")))
    return s.events.select("id", F.explode(pairs).alias("p")).select("id", "p.grp", "p.flag")


@query()
def one_generator_after_another(s: Sources) -> DataFrame:
    tags = s.events.select("id", F.explode("tags").alias("tag"))
    return tags.select("id", F.posexplode(F.split("tag", " ")).alias("at", "word"))


@query()
def inline_an_array_of_structs(s: Sources) -> DataFrame:
    return s.events.selectExpr(
        "id", "inline(array(named_struct('a', amount, 'b', key), named_struct('a', id, 'b', text)))"
    )


@query()
def inline_with_null_structs(s: Sources) -> DataFrame:
    return s.events.selectExpr("id", "inline(array(point, point))")


@query()
def inline_outer_of_null(s: Sources) -> DataFrame:
    return s.events.selectExpr("id", "inline_outer(if(flag, array(point), null)) as (a, b)")


@query()
def stack_columns_into_rows(s: Sources) -> DataFrame:
    return s.events.selectExpr("id", "stack(2, 'amount', amount, 'huge', huge) as (name, value)")


@query()
def stack_with_a_row_that_is_too_short(s: Sources) -> DataFrame:
    return s.events.selectExpr("id", "stack(2, key, text, key) as (a, b)")


@query()
def lateral_views(s: Sources) -> DataFrame:
    s.view("tagged_events", s.events)
    return s.spark.sql(
        "select id, tag, n, v from tagged_events lateral view explode(tags) t as tag "
        "lateral view outer posexplode(array(amount, grp)) u as n, v where n = 0 or v > 1"
    )


@query()
def lateral_view_outer_of_an_empty_array(s: Sources) -> DataFrame:
    s.view("events_with_tags", s.events)
    return s.spark.sql("select id, tag from events_with_tags lateral view outer explode(tags) as tag")


@query()
def explode_below_a_windowed_count(s: Sources) -> DataFrame:
    tags = s.events.withWatermark("ts", DELAY).select("ts", F.explode("tags").alias("tag"))
    return tags.groupBy(F.window("ts", "10 seconds"), "tag").count().selectExpr("window.start", "tag", "count")


@query(mode="update", keys=("tag",))
def a_running_count_of_exploded_words(s: Sources) -> DataFrame:
    return s.events.select(F.explode("tags").alias("tag")).groupBy("tag").count()


@query()
def distinct_exploded_values(s: Sources) -> DataFrame:
    return s.events.select(F.explode_outer("tags").alias("tag")).distinct()


@query()
def explode_collected_values_of_a_window(s: Sources) -> DataFrame:
    grouped = (
        s.events.withWatermark("ts", DELAY).groupBy(F.window("ts", "20 seconds")).agg(F.collect_set("grp").alias("g"))
    )
    return grouped.select("window.start", F.explode("g").alias("grp"))


@query()
def only_the_generated_column(s: Sources) -> DataFrame:
    return s.events.select(F.explode(F.array("grp", "small")).alias("n"))


@query()
def count_of_rows_that_a_generator_makes(s: Sources) -> DataFrame:
    rows = s.events.withWatermark("ts", DELAY).select("ts", F.explode("tags"))
    return rows.groupBy(F.window("ts", "1 minute")).agg(F.count("*").alias("n")).select("n")


@query()
def fields_of_json_text(s: Sources) -> DataFrame:
    text = s.events.selectExpr("id", """concat('{"a": ', id, ', "b": {"c": [1, 2.50]}, "d e": "', grp, '"}') as text""")
    return text.selectExpr("id", "json_tuple(text, 'a', 'b', 'd e', 'none') as (a, b, d, n)")
