"""First phase of a deduplication: rows that repeat a key of their own batch need not travel. Keeps no state that matters."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from tidegate.model.elements import Batch, Output
from tidegate.operators.partial_aggregate import normalised
from tidegate.operators.protocol import Operator
from tidegate.plan.keyed import PartialDeduplicate
from tidegate.state.leaves import leaf_expression, leaves_of

_PAYS_SHARE = 0.1
"""Repeated rows of a batch, below which looking for them costs more than sending them."""
_BATCHES_UNTIL_NEXT_TRY = 32


class PartialDeduplicateOperator(Operator):
    """Where keys hardly repeat within a batch it only looks at some of the batches: which ones changes nothing in the result."""

    def __init__(self, node: PartialDeduplicate) -> None:
        super().__init__()
        types = {field.name: field for field in node.deduplicate.schema}
        leaves = leaves_of(tuple(types[key] for key in node.deduplicate.keys))
        self._keys = [normalised(leaf_expression(leaf), leaf.type).alias(f"k{i}") for i, leaf in enumerate(leaves)]
        self._batches_to_skip = 0

    def on_batch(self, batch: Batch) -> Iterator[Output]:
        if self._batches_to_skip or batch.rows.height < 2:
            self._batches_to_skip = max(0, self._batches_to_skip - 1)
            yield batch
            return
        firsts = batch.rows.select(pl.struct(self._keys).is_first_distinct()).to_series()
        kept = batch.rows.filter(firsts)
        if kept.height > (1 - _PAYS_SHARE) * batch.rows.height:
            self._batches_to_skip = _BATCHES_UNTIL_NEXT_TRY
        yield batch.with_rows(kept)
