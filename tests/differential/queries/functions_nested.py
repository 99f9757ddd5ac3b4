"""Functions of arrays, maps and structs, lambdas, and JSON."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from tests.differential.corpus import query
from tests.differential.harness import Sources


@query()
def arrays_as_sets(s: Sources) -> DataFrame:
    other = F.array(F.col("key"), F.lit("bob"))
    return s.events.select(
        "id",
        F.array_union("tags", other).alias("u"),
        F.array_intersect("tags", other).alias("i"),
        F.array_except("tags", other).alias("e"),
        F.arrays_overlap("tags", other).alias("o"),
        F.array_distinct("tags").alias("d"),
    )


@query()
def arrays_changed(s: Sources) -> DataFrame:
    return s.events.selectExpr(
        "id",
        "array_append(tags, key) as a",
        "array_prepend(tags, 'first') as b",
        "array_insert(tags, 2, 'second') as c",
        "array_remove(tags, 'bob') as d",
        "array_compact(tags) as e",
        "array_repeat(key, 2) as f",
        "slice(tags, 1, 2) as g",
    )


@query()
def arrays_searched(s: Sources) -> DataFrame:
    return s.events.selectExpr(
        "id",
        "array_position(tags, key) as a",
        "get(tags, 0) as b",
        "try_element_at(tags, 3) as c",
        "array_contains(tags, key) as d",
        "size(tags) as e",
    )


def pairs(s: Sources) -> DataFrame:
    pair = "if(x = 'bob', null, named_struct('name', x, 'size', length(x)))"
    return s.events.selectExpr("id", f"transform(tags, x -> {pair}) as pairs", "ts")


@query()
def one_field_of_all_elements(s: Sources) -> DataFrame:
    return pairs(s).select("id", "pairs.name", F.col("pairs.size").alias("sizes"))


@query(mode="complete")
def one_field_of_all_elements_as_key(s: Sources) -> DataFrame:
    return pairs(s).groupBy("pairs.size").agg(F.count("*").alias("n"))


@query()
def arrays_sorted_and_zipped(s: Sources) -> DataFrame:
    return s.events.selectExpr(
        "id",
        "array_sort(tags) as a",
        "array_sort(split(key, 'o')) as pieces",
        "sort_array(tags, false) as b",
        "to_json(arrays_zip(tags, array(1, 2))) as c",
        "flatten(array(tags, array(key))) as d",
    )


@query()
def arrays_that_count(s: Sources) -> DataFrame:
    return s.events.selectExpr(
        "id",
        "sequence(0, grp) as a",
        "sequence(10, 1, -3) as b",
        "sequence(day, date_add(day, 2), interval 1 day) as c",
        "array_max(sequence(0, grp)) as d",
    )


@query()
def lambdas_over_arrays(s: Sources) -> DataFrame:
    return s.events.select(
        "id",
        F.transform("tags", F.upper).alias("a"),
        F.transform("tags", lambda tag, place: F.concat(tag, place.cast("string"))).alias("b"),
        F.filter("tags", lambda tag: tag != F.col("key")).alias("c"),
        F.exists("tags", lambda tag: tag == "bob").alias("d"),
        F.forall("tags", lambda tag: F.length(tag) > 2).alias("e"),
    )


@query()
def lambdas_that_fold(s: Sources) -> DataFrame:
    return s.events.select(
        "id",
        F.aggregate("tags", F.lit(0), lambda total, tag: total + F.coalesce(F.length(tag), F.lit(0))).alias("a"),
        F.reduce("tags", F.lit(""), lambda text, tag: F.concat_ws("/", text, tag), lambda text: F.upper(text)).alias(
            "b"
        ),
        F.zip_with("tags", F.array(F.lit(1), F.lit(2)), lambda tag, n: F.concat_ws("=", tag, n.cast("string"))).alias(
            "c"
        ),
    )


@query()
def lambdas_inside_lambdas(s: Sources) -> DataFrame:
    return s.events.selectExpr(
        "id",
        "transform(array(tags, array(key)), inner -> transform(inner, tag -> concat(tag, '-', size(inner), '-', grp))) as a",
        "filter(sequence(1, 5), n -> exists(tags, tag -> length(tag) = n)) as b",
    )


@query()
def lambdas_over_maps(s: Sources) -> DataFrame:
    return s.events.selectExpr(
        "id",
        "to_json(map_filter(map('a', grp, 'b', amount), (k, v) -> v > 0)) as a",
        "to_json(transform_values(map('a', grp), (k, v) -> v * 2)) as b",
        "to_json(transform_keys(map('a', grp), (k, v) -> concat(k, coalesce(key, '-')))) as c",
        "to_json(map_zip_with(map('a', 1), map('b', grp), (k, x, y) -> coalesce(x, y))) as d",
    )


@query()
def maps_built_and_read(s: Sources) -> DataFrame:
    return s.events.selectExpr(
        "id",
        "map('a', grp, 'b', amount)['b'] as a",
        "element_at(map('ann', 1, 'bob', 2), key) as b",
        "map_keys(map_concat(map('x', 1), map('y', grp))) as c",
        "map_contains_key(map('ann', 1), key) as d",
        "map_values(str_to_map('a:1,b:2')) as e",
        "size(map_from_arrays(array('p', 'q'), array(grp, amount))) as f",
    )


@query()
def maps_of_entries(s: Sources) -> DataFrame:
    return s.events.selectExpr(
        "id", "map_entries(map('a', grp)) as a", "to_json(map_from_entries(array(struct('k' as x, grp as y)))) as b"
    )


@query()
def structs_written_as_json(s: Sources) -> DataFrame:
    return s.events.select(
        "id",
        F.to_json(F.struct("id", "key", "price", "flag", "day", "ts", "tags", "point", "cost")).alias("a"),
        F.to_json("tags").alias("b"),
    )


@query()
def json_read_into_columns(s: Sources) -> DataFrame:
    text = F.to_json(F.struct("id", "key", "grp", "price", "flag", "tags", "point", "day"))
    schema = "id bigint, key string, grp int, price double, flag boolean, tags array<string>, point struct<x int, y string>, day date"
    return s.events.select(F.from_json(text, schema).alias("row")).select("row.*")


@query()
def json_that_may_be_broken(s: Sources) -> DataFrame:
    broken = F.when(F.col("grp") == 1, F.concat(F.lit("{"), "key")).otherwise(F.to_json(F.struct("id", "key", "price")))
    return s.events.select("id", F.from_json(broken, "id int, key string, price string").alias("row")).selectExpr(
        "id", "row.id as a", "row.key as b", "row.price as c"
    )


@query()
def json_by_path(s: Sources) -> DataFrame:
    text = F.to_json(F.struct("id", "point", "tags"))
    return s.events.select(
        "id",
        F.get_json_object(text, "$.point.y").alias("a"),
        F.get_json_object(text, "$.tags[1]").alias("b"),
        F.get_json_object(text, "$.tags").alias("c"),
        F.json_array_length(F.to_json("tags")).alias("d"),
        F.json_object_keys(text).alias("e"),
    )


@query()
def nested_values_as_text(s: Sources) -> DataFrame:
    return s.events.selectExpr(
        "id",
        "cast(tags as string) as a",
        "cast(point as string) as b",
        "cast(array(grp, amount) as array<string>) as c",
        "cast(map('a', grp) as string) as d",
    )


@query()
def nested_values_filtered(s: Sources) -> DataFrame:
    return s.events.where("exists(tags, t -> t = 'ann') and point.x > 2").selectExpr("id", "tags", "point.y as y")
