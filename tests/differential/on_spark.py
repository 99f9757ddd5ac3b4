"""The queries of the corpus that `make test` also runs as whole queries on Spark's stage: slots, channels, sinks, processes.

Every kind of operator, source, sink and mode is among them, by two queries where there are two, and two of every file of the corpus.
Write a new kind of query here, too: a test names the kinds that are missing.
"""

from __future__ import annotations

_BY_FILE = {
    "aggregates": """
        growing_windows
        windows_with_an_offset
    """,
    "aggregates_collections": """
        sums_of_intervals
        values_of_the_extreme_row
    """,
    "aggregates_distinct": """
        distinct_arrays_and_structs
        one_zero_and_one_nan_among_distinct_values
    """,
    "aggregates_running": """
        a_struct_as_running_key
        sliding_windows_as_they_grow
    """,
    "aggregates_statistics": """
        correlation_and_covariance
        linear_regression
    """,
    "aggregates_windows": """
        a_pivot_of_windows
        sliding_windows_that_do_not_divide
    """,
    "complete": """
        a_limit_of_a_limit
        a_sorted_result
        all_sessions_at_once
        the_first_rows_of_a_stream
        the_ten_largest_groups
    """,
    "deduplication": """
        a_running_count_of_deduplicated_rows
        distinct_rows
        drop_duplicates_by_the_event_time
        drop_duplicates_without_the_event_time_among_the_keys
        within_a_watermark_longer_than_the_data
        within_watermark_by_an_id
    """,
    "functions": """
        string_predicates
        texts_read_by_a_pattern
    """,
    "functions_nested": """
        json_read_into_columns
        lambdas_inside_lambdas
    """,
    "functions_text": """
        characters_by_code
        texts_overlaid_and_masked
    """,
    "functions_time": """
        distances_in_units
        intervals_scaled
    """,
    "generators": """
        explode_outer_an_array
        posexplode_an_array
    """,
    "inputs": """
        a_union_below_constants_only
        json_sink
        json_source
        metadata_of_json_files
        partitioned_sink
        repartition_by_a_column
        repartition_by_range
        rows_in_a_static_subquery
    """,
    "joins": """
        static_anti_join
        static_cross_join
        static_exists_or_something_else
        static_in_or_something_else
        static_in_subquery
        static_joins_one_after_another
        static_not_exists_subquery
        static_null_safe_join
    """,
    "nexmark": """
        nexmark_q10
        nexmark_q14
        nexmark_q5
        nexmark_q6
    """,
    "rows": """
        all_uses_of_the_clock_agree_for_a_row
        counts_with_the_time_of_the_last_row
    """,
    "sessions": """
        a_python_function_over_sessions
        sessions_with_many_aggregates
    """,
    "sql": """
        sql_expressions_over_aggregates
        sql_values_as_static_side
    """,
    "stateful": """
        first_seen_in_pandas
        pandas_rows_pass_through
        value_state_of_rows
        values_of_every_type
    """,
    "stream_joins": """
        streams_full_within_a_range
        streams_in_sql
        streams_of_nested_rows
        streams_of_unions_and_static_sides
        streams_right_within_a_range
        streams_semi_of_the_larger_side
        streams_semi_within_a_range
        streams_with_nulls_among_the_keys
        streams_without_a_watermark
    """,
    "user_functions": """
        iterator_pandas_udf
        map_in_arrow
        map_in_pandas
        pandas_udf
        pandas_udf_with_structs
        python_udf
    """,
}
ON_SPARK = frozenset(name for names in _BY_FILE.values() for name in names.split())
