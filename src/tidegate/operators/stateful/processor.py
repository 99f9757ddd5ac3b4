"""The border between the operator and the user's code: what the shell that knows PySpark must offer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol, TypeAlias

import polars as pl

from tidegate.operators.stateful.keyed_state import KeyedState
from tidegate.plan.keyed import StatefulProcess

Key: TypeAlias = tuple[Any, ...]
"""Values of the grouping columns as ``Codec`` reads them."""


class Processor(Protocol):
    """User code with its state. Before every call the state has entered the key, and knows the time and the watermark.

    What calls give is kept until ``results`` is asked for, so that many small results are converted at once.
    """

    def take(self, rows: pl.DataFrame) -> None:
        """Rows that the next calls of ``on_rows`` speak of, all those of a key side by side."""
        ...

    def on_rows(self, key: Key, start: int, stop: int) -> None: ...

    def on_timer(self, key: Key, at_ms: int) -> None: ...

    def on_initial(self, key: Key, rows: pl.DataFrame) -> None: ...

    @property
    def kept_rows(self) -> int: ...

    def results(self) -> Iterator[pl.DataFrame]:
        """Takes what was kept: frames with exactly the columns of the node's schema."""
        ...

    def close(self) -> None: ...


ProcessorFactory: TypeAlias = Callable[[StatefulProcess, KeyedState, Callable[..., Any]], Processor]
"""Node, state and the loaded function → the processor, whose variables are declared already."""
