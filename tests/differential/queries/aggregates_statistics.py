"""Statistics over windows and running groups: spread, correlation, percentiles, estimates of cardinality."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from tests.differential.compare import Rules
from tests.differential.corpus import DELAY, query
from tests.differential.harness import Sources


def _windowed(s: Sources, *calls: Any, length: str = "20 seconds") -> DataFrame:
    grouped = s.events.withWatermark("ts", DELAY).groupBy(F.window("ts", length))
    return grouped.agg(*calls).select("window.start", *(f"c{number}" for number in range(len(calls))))


def _named(*texts: str) -> list[Any]:
    return [F.expr(text).alias(f"c{number}") for number, text in enumerate(texts)]


_LOOSE = tuple(f"c{number}" for number in range(10))


@query(rules=Rules(approximate=_LOOSE, keys=("start",)))
def all_kinds_of_variance(s: Sources) -> DataFrame:
    return _windowed(
        s,
        *_named(
            "stddev(price)", "stddev_pop(amount)", "var_samp(cost)", "var_pop(grp)", "std(small)", "variance(huge)"
        ),
    )


@query(rules=Rules(approximate=_LOOSE, keys=("start",)))
def skewness_and_kurtosis(s: Sources) -> DataFrame:
    return _windowed(s, *_named("skewness(price)", "kurtosis(price)", "skewness(grp)", "kurtosis(amount)"))


@query(mode="update", keys=("id",), rules=Rules(approximate=_LOOSE))
def statistics_of_groups_too_small_for_them(s: Sources) -> DataFrame:
    calls = _named(
        "stddev(price)", "var_pop(price)", "skewness(price)", "kurtosis(price)", "corr(price, amount)",
        "covar_samp(price, amount)", "regr_slope(price, amount)", "regr_r2(price, amount)", "regr_sxx(price, amount)",
    )  # fmt: skip
    return s.events.where("id < 300").groupBy((F.col("id") % 150).alias("id")).agg(*calls)


@query(rules=Rules(approximate=_LOOSE, keys=("start",)))
def correlation_and_covariance(s: Sources) -> DataFrame:
    return _windowed(s, *_named("corr(price, amount)", "covar_pop(price, amount)", "covar_samp(cost, grp)"))


@query(rules=Rules(approximate=_LOOSE, keys=("start",)))
def linear_regression(s: Sources) -> DataFrame:
    return _windowed(
        s,
        *_named(
            "regr_slope(price, amount)", "regr_intercept(price, amount)", "regr_r2(price, amount)", "regr_count(price, amount)",
            "regr_sxx(price, amount)", "regr_syy(price, amount)", "regr_sxy(price, amount)", "regr_avgx(price, amount)",
            "regr_avgy(price, amount)",
        ),
    )  # fmt: skip


@query(rules=Rules(approximate=("c0", "c1"), keys=("start",)))
def statistics_with_filters(s: Sources) -> DataFrame:
    return _windowed(
        s,
        *_named(
            "corr(price, amount) filter (where flag)",
            "stddev(price) filter (where grp > 2)",
            "median(amount) filter (where flag)",
        ),
    )


@query(rules=Rules(keys=("start",)))
def exact_percentiles(s: Sources) -> DataFrame:
    return _windowed(
        s,
        *_named(
            "percentile(amount, 0.3)", "percentile(price, array(0.0, 0.25, 0.5, 1.0))", "median(cost)", "median(grp)",
            "percentile(amount, 0.5, id % 4)", "percentile_cont(0.9) within group (order by amount desc)",
            "percentile_disc(0.4) within group (order by price)", "percentile_disc(0.4) within group (order by grp desc)",
        ),
    )  # fmt: skip


@query(mode="update", keys=("key",))
def running_percentiles(s: Sources) -> DataFrame:
    return s.events.groupBy("key").agg(*_named("median(amount)", "percentile(price, 0.9)", "percentile(ratio, 0.2)"))


@query(rules=Rules(keys=("start",)))
def approximate_percentiles_of_few_values_are_exact(s: Sources) -> DataFrame:
    return _windowed(
        s,
        *_named(
            "percentile_approx(amount, 0.5)", "approx_percentile(price, array(0.1, 0.5, 0.99), 10000)",
            "percentile_approx(cost, 0.75)", "percentile_approx(ts, 0.5)", "percentile_approx(day, array(0.0, 1.0))",
            "percentile_approx(small, 0.2) filter (where flag)",
        ),
    )  # fmt: skip


_ACCURACY = 20


def _within_the_error(s: Sources, rows: list[Any]) -> str:
    """Spark promises a value whose rank is off by at most count / accuracy, and so do we."""
    values: dict[Any, list[float]] = {}
    for grp, price in s.events.select("grp", "price").where("price is not null").collect():
        values.setdefault(grp, []).append(price)
    if {row[0] for row in rows} != values.keys():
        return f"groups {sorted(map(str, values))} gave rows for {sorted(str(row[0]) for row in rows)}"
    wrong: list[str] = []
    for grp, found in rows:
        ordered = sorted(values[grp])
        error = len(ordered) / _ACCURACY
        for percentage, value in zip((0.1, 0.5, 0.95), found, strict=True):
            wanted = percentage * len(ordered)
            below, up_to = sum(one < value for one in ordered), sum(one <= value for one in ordered)
            if value not in ordered or up_to < wanted - error or below > wanted + error:
                wrong.append(f"{grp}: {value} for {percentage} has the ranks {below} to {up_to} of {len(ordered)}")
    return "; ".join(wrong)


@query(mode="update", keys=("grp",), admits=_within_the_error)
def approximate_percentiles_stay_within_their_error(s: Sources) -> DataFrame:
    return s.events.groupBy("grp").agg(F.percentile_approx("price", [0.1, 0.5, 0.95], _ACCURACY).alias("p"))


@query(rules=Rules(keys=("start",)))
def estimated_cardinalities(s: Sources) -> DataFrame:
    return _windowed(
        s,
        *_named(
            "approx_count_distinct(key)", "approx_count_distinct(amount)", "approx_count_distinct(price, 0.02)",
            "approx_count_distinct(ratio)", "approx_count_distinct(cost, 0.1)", "approx_count_distinct(ts)",
            "approx_count_distinct(day)", "approx_count_distinct(flag)", "approx_count_distinct(text) filter (where grp = 1)",
        ),
    )  # fmt: skip


@query(mode="update")
def an_estimate_that_needs_its_bias_corrected(s: Sources) -> DataFrame:
    return s.bids.agg(
        *_named(
            "approx_count_distinct(url, 0.3)", "approx_count_distinct(url, 0.15)", "approx_count_distinct(url, 0.05)",
            "approx_count_distinct(price, 0.01)", "approx_count_distinct(bidder * auction, 0.08)",
        )
    )  # fmt: skip


@query(rules=Rules(keys=("start",)))
def most_frequent_values(s: Sources) -> DataFrame:
    return _windowed(s, *_named("mode(key, true)", "mode(grp, true)", "mode() within group (order by small desc)"))


@query(rules=Rules(approximate=("c0",), keys=("start",)))
def products(s: Sources) -> DataFrame:
    return _windowed(s, F.product(F.abs("grp") / 4 + 1).alias("c0"), F.product(F.sign("grp")).alias("c1"))
