"""Functions that Spark itself knows, and how Tidegate stands to each. The list is Spark's ``SHOW FUNCTIONS``."""

from __future__ import annotations

from pathlib import Path

NAMES = frozenset((Path(__file__).parent / "spark_functions.txt").read_text().split())

REWRITTEN = frozenset(
    [
        "array_append",
        "array_compact",
        "array_prepend",
        "assert_true",
        "between",
        "bigint",
        "binary",
        "boolean",
        "cast",
        "collation",
        "current_timezone",
        "date",
        "date_part",
        "datepart",
        "decimal",
        "decode",
        "double",
        "e",
        "extract",
        "float",
        "ilike",
        "int",
        "make_interval",
        "map_contains_key",
        "named_struct",
        "nullifzero",
        "pi",
        "regexp_count",
        "regexp_substr",
        "smallint",
        "string",
        "struct",
        "timestamp",
        "tinyint",
        "to_binary",
        "to_char",
        "to_date",
        "to_timestamp",
        "to_timestamp_ltz",
        "to_timestamp_ntz",
        "to_varchar",
        "try_to_binary",
        "try_to_date",
        "try_to_timestamp",
        "try_parse_url",
        "try_url_decode",
        "typeof",
        "version",
        "zeroifnull",
        "||",
    ]
)
"""Spark writes these out with other functions, or as constants, before Tidegate sees them."""

OF_THE_PLAN = frozenset(
    [
        "explode",
        "explode_outer",
        "posexplode",
        "posexplode_outer",
        "inline",
        "inline_outer",
        "stack",
        "window",
        "window_time",
        "session_window",
        "grouping",
        "grouping_id",
        "input_file_name",
        "count_min_sketch",
        "range",
    ]
)
"""Operators of a query, or parts of aggregations, rather than functions of a row."""

OVER_WINDOWS = frozenset(
    [
        "cume_dist",
        "dense_rank",
        "lag",
        "lead",
        "nth_value",
        "ntile",
        "percent_rank",
        "rank",
        "row_number",
        "counter_diff",
    ]
)
"""Functions of ``OVER (…)``, which no stream has."""


def missing(offered: frozenset[str], aggregates: frozenset[str]) -> list[str]:
    """Names of Spark's that a query cannot use as functions of a row."""
    words = {name for name in NAMES if name.replace("_", "").isalnum()} - {"when", "case"}
    return sorted(words - offered - REWRITTEN - OF_THE_PLAN - OVER_WINDOWS - aggregates)
