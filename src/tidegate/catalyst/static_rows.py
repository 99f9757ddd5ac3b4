"""Static data of a query, computed by Spark once, before the stream starts."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyspark.errors import PySparkException

from tidegate.catalyst.context import Context
from tidegate.catalyst.java import Java, one_line
from tidegate.model.errors import InvalidQuery


def collected(context: Context, static: Java, names: Sequence[str], what: str, where: str) -> tuple[bytes, int]:
    """The rows as an Arrow IPC stream under these names, and how many. ``what`` they are and ``where`` they come from: for the error.

    Of rows without any column one is made up, so that they can be counted.
    """
    try:
        frame = context.expressions.run(static)
        rows = frame.toArrow() if frame.columns else pa.table({"any": pa.array([True] * frame.count(), pa.bool_())})
    except PySparkException as error:
        raise InvalidQuery(
            f"{what} could not be computed: {one_line(error)}",
            hint=f"run {where} on its own to see the whole error",
        ) from error
    rows = rows.rename_columns(list(names))
    rows = rows.cast(pa.schema([_in_utc(one) for one in rows.schema]))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    return sink.getvalue().to_pybytes(), rows.num_rows


def _in_utc(field: pa.Field) -> pa.Field:
    zoned = pa.types.is_timestamp(field.type) and field.type.tz is not None
    return field.with_type(pa.timestamp("us", "UTC")) if zoned else field
