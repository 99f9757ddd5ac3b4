"""Results that leave whole, once per checkpoint (output mode ``complete``): how large they may be."""

from __future__ import annotations

from tidegate.model.errors import InvalidQuery
from tidegate.model.ids import OperatorId
from tidegate.operators.protocol import OperatorContext


def check_size(rows: int, context: OperatorContext, operator: OperatorId) -> None:
    """Raises InvalidQuery for a result that would stop the stream at every checkpoint."""
    if rows > context.complete_rows_max:
        raise InvalidQuery(
            f"the result of {operator} has {rows:,} rows in one slot, more than completeRowsMax ({context.complete_rows_max:,}): "
            "outputMode('complete') writes all of them at every checkpoint",
            hint="use outputMode('update') for changed rows, or 'append' with a watermark; or raise the option completeRowsMax",
        )
