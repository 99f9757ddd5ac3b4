"""What the plans of ordinary queries look like."""

from __future__ import annotations

import datetime
import io

import pandas as pd
import polars as pl
import pytest
from pyspark.sql import functions as F

from tidegate.model import types as t
from tidegate.model.output_mode import OutputMode
from tidegate.plan.expressions import Call, Column, Literal, MakeStruct, walk
from tidegate.plan.relational import Aggregate, AssignWatermark, EventTimeKey, JoinKind, Repartition, Scan, UdfKind

pytestmark = pytest.mark.spark


def scan_of(plan):
    while not isinstance(plan, Scan):
        plan = plan.inputs[0]
    return plan


def test_a_pass_through_is_a_scan_and_a_sink(bids, plan_of, shape_of):
    plan = plan_of(bids)
    assert shape_of(plan) == ["Sink", "Scan"]
    assert [public for _, public in plan.columns] == bids.columns
    assert [name for name, _ in plan.columns] == [field.name for field in plan.inputs[0].schema]


def test_a_python_data_source_keeps_its_name_schema_and_class(bids, plan_of):
    from tidegate.connectors.python_source.payload import unpack

    scan = scan_of(plan_of(bids))
    source, schema = unpack(scan.spec.payload, scan.spec.schema)
    assert scan.format == source.name() == "catalyst_bids"
    assert schema == bids.schema
    assert source.options["EVENTSPERSECOND"] == "100"
    assert scan.spec.shown == (("eventspersecond", "*****"),), "they are the user's own: nobody knows which are secret"


def test_a_file_source_keeps_format_path_options_and_session_zone(files, plan_of):
    scan = scan_of(plan_of(files))
    assert scan.format == "json"
    assert dict(scan.spec.shown).keys() == {"path", "maxfilespertrigger", "timezone"}
    assert [field.name for field in scan.spec.schema] == ["id", "kind", "at"]


def test_the_rate_source_is_scanned_by_its_name(spark, plan_of):
    scan = scan_of(plan_of(spark.readStream.format("rate").option("rowsPerSecond", 7).load()))
    assert (scan.format, scan.spec.shown) == ("rate", (("rowspersecond", "7"),))
    assert scan.columns == ("timestamp", "value")


def test_only_the_columns_that_are_used_are_scanned(bids, plan_of, shape_of):
    plan = plan_of(bids.where("price > 3").select((F.col("bidder") + 1).alias("next")))
    assert scan_of(plan).columns == ("bidder", "price")
    assert len(scan_of(plan).spec.schema) == 6
    assert shape_of(plan) == ["Sink", "Project", "Filter", "Scan"]


def test_counting_rows_still_scans_one_column(bids, plan_of):
    plan = plan_of(bids.groupBy().count(), "update")
    assert len(scan_of(plan).columns) == 1
    assert scan_of(plan).columns != ("url",), "a narrow one"


def test_nexmark_q1_converts_currency_with_ansi_arithmetic(bids, plan_of):
    plan = plan_of(bids.selectExpr("auction", "0.908 * price AS price", "bidder"))
    multiply = plan.inputs[0].columns[1].expression
    calls = [node for node in walk(multiply) if isinstance(node, Call)]
    assert calls[0].function == "multiply"
    assert calls[0].ansi
    assert isinstance(calls[0].type, t.Decimal)


def test_nexmark_q2_selects_auctions(bids, plan_of, shape_of):
    plan = plan_of(bids.where("auction % 123 = 0").select("auction", "price"))
    assert shape_of(plan)[1:] in (["Project", "Filter", "Scan"], ["Filter", "Scan"])
    assert scan_of(plan).columns == ("auction", "price")


def test_nexmark_q5_counts_bids_in_sliding_windows(timed, plan_of, shape_of):
    plan = plan_of(timed.groupBy(F.window("date_time", "10 seconds", "2 seconds"), "auction").count())
    assert shape_of(plan) == ["Sink", "Aggregate", "Expand", "Filter", "AssignWatermark", "Scan"]
    aggregate = plan.inputs[0]
    expand = aggregate.inputs[0]
    assert len(expand.projections) == 5
    assert len({projection[0] for projection in expand.projections}) == 5, "each branch is another window"
    assert all(isinstance(projection[0], MakeStruct) for projection in expand.projections)
    window, auction = (field.name for field in expand.schema)
    assert aggregate.keys == (window, auction)
    assert aggregate.event_time == EventTimeKey(window, "end")
    (call,) = aggregate.calls
    assert (call.function, call.args, call.type) == ("count", (), t.LONG)


def test_nexmark_q7_takes_the_highest_bid_of_a_window(timed, plan_of, shape_of):
    plan = plan_of(
        timed.groupBy(F.window("date_time", "10 seconds")).agg(
            F.max("price").alias("top"), F.max_by("bidder", "price").alias("who")
        )
    )
    assert shape_of(plan) == ["Sink", "Aggregate", "Project", "Filter", "AssignWatermark", "Scan"]
    aggregate = plan.inputs[0]
    assert [call.function for call in aggregate.calls] == ["max", "max_by"]
    assert aggregate.mode is OutputMode.APPEND
    assert aggregate.input_schema == aggregate.inputs[0].schema
    assert plan.inputs[0].inputs[0].inputs[0].inputs[0].delay_us == 4_000_000


def test_nexmark_q8_like_union_of_two_streams_groups_by_person_and_window(timed, plan_of, shape_of):
    sellers = timed.select(F.col("bidder").alias("id"), "date_time", F.lit(1).alias("sold"))
    people = timed.select(F.col("auction").alias("id"), "date_time", F.lit(0).alias("sold"))
    query = (
        sellers.unionByName(people)
        .groupBy("id", F.window("date_time", "10 seconds"))
        .agg(F.sum("sold").alias("n"))
        .where("n > 0")
    )
    plan = plan_of(query)
    assert shape_of(plan)[:4] == ["Sink", "Filter", "Aggregate", "Union"]
    assert shape_of(plan).count("Scan") == 2
    union = next(node for node in nodes(plan) if type(node).__name__ == "Union")
    for child in union.inputs:
        assert [field.type for field in child.schema] == [field.type for field in union.schema]


def nodes(plan):
    yield plan
    for child in plan.inputs:
        yield from nodes(child)


def test_aggregates_work_on_plain_columns_with_expressions_below_and_above(bids, plan_of):
    query = bids.groupBy((F.col("auction") % 10).alias("bucket")).agg(
        (F.sum(F.col("price") * 2) / F.count("channel")).alias("mean"),
        F.expr("sum(price * 2) FILTER (WHERE bidder > 3)").alias("some"),
        F.first("url", ignorenulls=True).alias("url"),
    )
    above = plan_of(query, "update").inputs[0]
    aggregate = above.inputs[0]
    offered = {field.name for field in aggregate.input_schema}
    assert set(aggregate.keys) <= offered
    assert [(call.function, call.ignore_nulls) for call in aggregate.calls] == [
        ("sum", False),
        ("count", False),
        ("sum", False),
        ("first", True),
    ]
    for call in aggregate.calls:
        assert set(call.args) <= offered
    assert aggregate.calls[0].args == aggregate.calls[2].args, "one column for equal inputs"
    assert aggregate.calls[2].filter in offered
    assert aggregate.event_time is None


def test_equal_aggregates_are_computed_once(bids, plan_of):
    plan = plan_of(bids.groupBy("auction").agg(F.sum("price").alias("a"), (F.sum("price") + 1).alias("b")), "update")
    assert len(plan.inputs[0].inputs[0].calls) == 1


def test_distinct_values_can_be_counted_though_spark_streaming_refuses_it(timed, plan_of):
    query = timed.groupBy(F.window("date_time", "5 seconds")).agg(
        F.countDistinct("bidder").alias("n"), F.sum("price").alias("s")
    )
    calls = plan_of(query).inputs[0].calls
    assert [(call.function, call.distinct) for call in calls] == [("count", True), ("sum", False)]


def test_an_aggregation_with_several_distinct_groups_stays_one(timed, plan_of):
    query = timed.groupBy(F.window("date_time", "5 seconds")).agg(
        F.countDistinct("bidder").alias("a"),
        F.countDistinct("auction").alias("b"),
        F.expr("count(DISTINCT bidder) FILTER (WHERE price > 3)").alias("c"),
    )
    (aggregate,) = (node for node in nodes(plan_of(query)) if hasattr(node, "calls"))
    assert [call.distinct for call in aggregate.calls] == [True, True, True]
    assert [call.filter is not None for call in aggregate.calls] == [False, False, True]
    assert aggregate.event_time is not None


def test_constant_arguments_of_aggregates_are_parameters(bids, plan_of):
    query = bids.groupBy("auction").agg(
        F.percentile_approx("price", [0.1, 0.9], 50).alias("p"),
        F.approx_count_distinct("bidder", 0.1).alias("d"),
        F.expr("max_by(bidder, price, 3)").alias("m"),
        F.expr("listagg(channel, '-') WITHIN GROUP (ORDER BY price DESC)").alias("t"),
    )
    plan = plan_of(query, "update")
    (aggregate,) = (node for node in nodes(plan) if hasattr(node, "calls"))
    assert [call.params for call in aggregate.calls] == [((0.1, 0.9), 50), (0.1,), (3,), ("-", "desc nulls last")]
    raw, biases, limit = aggregate.calls[1].tables
    assert len(raw) == len(biases)
    assert limit == (80.0,)


def test_having_is_a_filter_above(spark, bids, plan_of, shape_of):
    plan = plan_of(
        spark.sql("SELECT auction, count(*) AS n FROM catalyst_bid GROUP BY auction HAVING count(*) > 3"), "update"
    )
    assert shape_of(plan) == ["Sink", "Filter", "Aggregate", "Scan"]


def test_grouping_by_the_time_column_closes_groups_by_it(timed, plan_of):
    assert plan_of(timed.groupBy("date_time").count()).inputs[0].event_time.field is None


def test_windows_over_windows_name_their_operators_by_what_they_group_by(timed, plan_of):
    inner = timed.groupBy(F.window("date_time", "5 seconds"), "auction").count()
    plan = plan_of(inner.groupBy(F.window(F.window_time("window"), "10 seconds")).agg(F.max("count").alias("top")))
    assert [node.id for node in nodes(plan) if hasattr(node, "id")] == [
        "sink-memory",
        "aggregate-window",
        "aggregate-window_auction",
        "watermark-date_time_catalyst_bids",
        "source-catalyst_bids",
    ]


def test_python_and_pandas_functions_become_operators_and_chains_are_cut(bids, plan_of):
    twice = F.udf(lambda x: 2 * x, "long").asNondeterministic()

    @F.pandas_udf("long")
    def thrice(x: pd.Series) -> pd.Series:
        return 3 * x

    plan = plan_of(
        bids.select(twice(twice("price")).alias("a"), thrice("price").alias("b"), thrice(x="bidder").alias("c"))
    )
    evals = [node for node in nodes(plan) if type(node).__name__ == "PythonEval"]
    udfs = [udf for node in evals for udf in node.udfs]
    assert {udf.kind for udf in udfs} <= {UdfKind.PANDAS, UdfKind.PYTHON, UdfKind.PYTHON_ARROW}
    assert sum(udf.kind is not UdfKind.PANDAS for udf in udfs) == 2
    assert all(isinstance(arg, Column) for udf in udfs for arg in udf.args)
    assert sorted(udf.keywords for udf in udfs if udf.label == "thrice") == [(), ("x",)]
    from tidegate.spark.functions import load

    pandas = next(udf for udf in udfs if udf.label == "thrice")
    assert load(pandas.command).function(pd.Series([1, 2])).tolist() == [3, 6]


def test_a_non_deterministic_function_is_accepted_with_a_warning(bids, translated):
    result = translated(bids.select(F.udf(lambda x: x, "long").asNondeterministic()("price").alias("a")))
    assert "non-deterministic" in result.warnings[0]


def test_sliding_windows_behind_a_udf_keep_their_event_time(timed, plan_of, shape_of):
    label = F.udf(lambda c: f"<{c}>", "string")
    query = (
        timed.withColumn("tag", label("channel"))
        .groupBy(F.window("date_time", "6 seconds", "2 seconds"), "tag")
        .count()
    )
    plan = plan_of(query)
    assert "PythonEval" in shape_of(plan)
    assert plan.inputs[0].event_time.field == "end"


@pytest.mark.parametrize("way", ["mapInArrow", "mapInPandas"])
def test_functions_over_batches_see_exactly_their_input(bids, plan_of, way):
    def same(batches):
        yield from batches

    frame = bids.where("bidder > 1").select("price", F.col("price").alias("again"))
    node = next(
        n
        for n in nodes(plan_of(getattr(frame, way)(same, frame.schema).select("again")))
        if type(n).__name__ == "MapBatches"
    )
    assert node.input_names == node.output_names == ("price", "again")
    assert [field.name for field in node.inputs[0].schema] == [field.name for field in node.input_schema]
    assert node.kind is (UdfKind.ARROW if way == "mapInArrow" else UdfKind.PANDAS)
    assert node.label == "same"


@pytest.mark.parametrize("static_first", [False, True])
def test_a_static_side_is_computed_by_spark_and_the_stream_stands_on_the_left(spark, bids, translated, static_first):
    names = spark.createDataFrame([(1, "one"), (2, "two")], "id long, name string").withColumn(
        "at", F.lit("2024-01-01").cast("timestamp")
    )
    on = (bids.auction == names.id) & (bids.price > names.id)
    joined = names.join(bids, on, "right") if static_first else bids.join(names, on, "left")
    result = translated(joined.select("name", "price", "at"))
    join = result.plan.inputs[0].inputs[0]
    assert join.kind is JoinKind.LEFT
    assert [key.name.split("#")[0] for key in (*join.stream_keys, *join.static_keys)] == ["auction", "id"]
    assert isinstance(join.condition, Call)
    assert join.condition.function == "greaterthan"
    table = pl.read_ipc_stream(io.BytesIO(join.table))
    assert table.columns == [field.name for field in join.static_schema]
    assert sorted(table[table.columns[1]]) == ["one", "two"]
    assert table.dtypes[2] == pl.Datetime("us", "UTC")
    assert all(field.nullable for field in join.schema if field.name in table.columns), "a left join makes nulls"
    assert "read once" in result.warnings[0]


def test_an_in_subquery_is_a_semi_join_and_a_scalar_one_a_constant(spark, bids, plan_of):
    semi = plan_of(spark.sql("SELECT price FROM catalyst_bid WHERE price IN (SELECT id FROM range(10))")).inputs[0]
    assert semi.kind is JoinKind.SEMI
    assert semi.schema == semi.inputs[0].schema
    scalar = plan_of(spark.sql("SELECT price, (SELECT max(id) FROM range(10)) AS top FROM catalyst_bid")).inputs[0]
    assert scalar.columns[1].expression == Literal(9, t.LONG)


def test_a_self_union_reads_its_source_once_and_has_columns_of_its_own(bids, plan_of):
    union = plan_of(bids.union(bids).select("price")).inputs[0]
    left, right = union.inputs
    assert left is right
    assert left.schema[0].name != union.schema[0].name


def test_repartition_becomes_an_exchange_and_its_number_a_warning(bids, translated):
    result = translated(bids.repartition(3).select("price"))
    assert type(result.plan.inputs[0]) is Repartition
    assert "parallelism" in result.warnings[0]


@pytest.mark.parametrize("way", ["coalesce", "hint"])
def test_what_asks_for_no_exchange_is_passed_through_with_a_warning(bids, translated, way):
    frame = bids.coalesce(2) if way == "coalesce" else bids.hint("rebalance")
    result = translated(frame.select("price"))
    assert type(result.plan.inputs[0]) is Scan
    assert "no effect" in result.warnings[0]


def test_filters_stay_below_event_time_where_the_optimiser_puts_them(bids, timed, plan_of, shape_of):
    """T85: rows that are filtered away tell no time, unless the filter asks for the event time itself."""

    def shape(frame):
        names = shape_of(plan_of(frame.groupBy(F.window("date_time", "5 seconds")).count()))
        return [name for name in names if name in ("AssignWatermark", "Filter", "Scan", "Repartition", "Union")]

    above, chain = ["Filter"], ["AssignWatermark", "Filter", "Scan"]  # The uppermost one: event time is not null.
    assert shape(timed.where("price > 5")) == above + chain
    assert shape(bids.where("price > 5").withWatermark("date_time", "1 second")) == above + chain
    assert shape(timed.withColumn("dear", F.col("price") * 2).where("dear > 5")) == above + chain
    late = timed.where("date_time < TIMESTAMP'2030-01-01'")
    assert shape(late) == [*above, "AssignWatermark", "Scan"]
    both = bids.union(bids).withWatermark("date_time", "1 second")
    assert shape(both.where("price > 5")) == [*above, "Union", *chain, *chain]
    spread = bids.repartition(2).withWatermark("date_time", "1 second")
    assert shape(spread.where("price > 5")) == [*above, "Repartition", *chain]
    silent = shape_of(plan_of(timed.where("price > 5")))
    assert [name for name in silent if name != "Project"] == ["Sink", "Filter", "AssignWatermark", "Scan"]


def test_a_watermark_is_assigned_below_the_repartition_the_user_wrote_before_it(bids, plan_of):
    """Behind an exchange rows do not know their split, and files read out of time order would be late."""
    plan = plan_of(bids.repartition("auction").withWatermark("date_time", "5 seconds").select("auction", "price"))
    nodes = []
    while plan.inputs:
        (plan,) = plan.inputs
        nodes.append(type(plan))
    assert nodes.index(Repartition) < nodes.index(AssignWatermark)


def test_literals_of_every_type_are_read(spark, bids, plan_of):
    plan = plan_of(
        spark.sql(
            """SELECT 1Y b, 1.25BD d, 1.5D f, 's' s, x'00ff' x, DATE'2024-02-29' dt, TIMESTAMP'2024-02-29 01:02:03Z' ts,
                      TIMESTAMP_NTZ'2024-02-29 01:02:03' tn, INTERVAL '90' SECOND i, array(1, 2) a, map('k', 1) m,
                      named_struct('p', 1, 'q', 'r') st, CAST(NULL AS string) n, true t FROM catalyst_bid"""
        )
    )
    values = {named.name.split("#")[0]: named.expression.value for named in plan.inputs[0].columns}
    at = datetime.datetime(2024, 2, 29, 1, 2, 3)
    assert values == {
        "b": 1, "d": pytest.approx(1.25), "f": 1.5, "s": "s", "x": b"\x00\xff", "dt": at.date(), "ts": at.replace(tzinfo=datetime.UTC),
        "tn": at, "i": datetime.timedelta(seconds=90), "a": (1, 2), "m": ({"key": "k", "value": 1},), "st": {"p": 1, "q": "r"}, "n": None,
        "t": True,
    }  # fmt: skip


def test_sql_text_views_and_the_dataframe_api_give_equal_plans(spark, timed, plan_of):
    api = (
        timed.where("price > 10")
        .groupBy(F.window("date_time", "10 seconds"), "auction")
        .agg(F.sum("price").alias("total"))
    )
    timed.createOrReplaceTempView("catalyst_timed")
    sql = spark.sql(
        "SELECT window(date_time, '10 seconds') AS window, auction, sum(price) AS total FROM catalyst_timed WHERE price > 10 "
        "GROUP BY window(date_time, '10 seconds'), auction"
    )
    spark.sql("SELECT * FROM catalyst_timed WHERE price > 10").createOrReplaceTempView("catalyst_dear")
    view = spark.sql(
        "SELECT window(date_time, '10 seconds') AS window, auction, sum(price) AS total FROM catalyst_dear GROUP BY 1, 2"
    )
    assert plan_of(api) == plan_of(sql) == plan_of(view)


def test_two_sessions_give_equal_plans(spark, plan_of):
    """Catalyst numbers its expressions through the life of the JVM: nothing of that may reach the plan."""

    def query(session):
        rows = session.readStream.format("rate").load().withWatermark("timestamp", "1 second")
        names = session.createDataFrame([(1, "one")], "id long, name string")
        joined = rows.join(names, F.expr("value % 3 = id"), "left")
        return joined.groupBy(F.window("timestamp", "4 seconds", "2 seconds"), "name").agg(
            F.avg(F.col("value") + 1).alias("mean"), F.count("*").alias("n")
        )

    assert plan_of(query(spark)) == plan_of(query(spark.newSession()))


def test_a_stateless_operator_renames_no_stateful_one(timed, plan_of):
    plain = timed.groupBy(F.window("date_time", "10 seconds")).count()
    longer = (
        timed.where("price > 1")
        .withColumn("x", F.upper("channel"))
        .groupBy(F.window("date_time", "10 seconds"))
        .agg(F.count("x").alias("count"))
        .where("count > 1")
    )
    ids = [[node.id for node in nodes(plan_of(query)) if hasattr(node, "id")] for query in (plain, longer)]
    assert (
        ids[0]
        == ids[1]
        == ["sink-memory", "aggregate-window", "watermark-date_time_catalyst_bids", "source-catalyst_bids"]
    )


def test_windows_and_computed_columns_are_described_by_what_they_mean(timed, plan_of):
    """T48: the name of such a column says nothing about it, so a change of it would go unnoticed."""
    query = timed.groupBy(F.window("date_time", "10 seconds", "5 seconds", "1 second"), F.col("price") % 3).agg(
        F.sum(F.col("price") * 2)
    )
    (aggregate,) = [node for node in nodes(plan_of(query)) if isinstance(node, Aggregate)]
    assert [words for _, words in aggregate.meanings] == [
        "window of 10 s every 5 s from 1 s over date_time",
        "(price % 3)",
        "(price * 2)",
    ]
    tumbling = timed.groupBy(F.window("date_time", "2 minutes").alias("w")).count()
    (aggregate,) = [node for node in nodes(plan_of(tumbling)) if isinstance(node, Aggregate)]
    assert [words for _, words in aggregate.meanings] == ["window of 2 min over date_time"]


def test_the_sink_carries_what_was_asked_of_it(bids, translated):
    result = translated(
        bids.select("price", "channel"), "append", format="parquet", options={"path": "/x"}, partition_by=("channel",)
    )
    sink = result.plan
    assert (sink.format, sink.spec.place, sink.spec.partition_by) == ("parquet", "/x", ("channel",))
    assert (sink.mode, sink.spec.mode) == (OutputMode.APPEND, OutputMode.APPEND)
    assert [field.name for field in sink.schema] == ["price", "channel"]
    assert "StreamingRelationV2" in result.text
