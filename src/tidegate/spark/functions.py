"""How user functions get from Spark's plan into a slot: Spark pickled them, PySpark's own pickler reads them back."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from pyspark import cloudpickle
from pyspark.sql import Row

from tidegate.operators.stateful.keyed_state import KeyedState
from tidegate.operators.stateful.processor import Processor
from tidegate.operators.user_functions import LoadedFunction
from tidegate.plan.keyed import StatefulProcess


def load(command: bytes) -> LoadedFunction:
    """Unpickles the command of a plan node: ``(function, return type)``, or the function alone.

    It runs the user's own code, as Spark's workers would; never hand it anything that came out of a snapshot.
    """
    loaded = cloudpickle.loads(command)
    function = loaded[0] if isinstance(loaded, tuple) else loaded
    return LoadedFunction(function, row_maker, _processor)


def _processor(node: StatefulProcess, state: KeyedState, function: Callable[..., Any]) -> Processor:
    from tidegate.connectors.pyspark_state.factory import (
        processor,  # pandas and Spark's streaming: for those who need them
    )

    return processor(node, state, function)


def row_maker(names: tuple[str, ...]) -> Callable[[Iterable[object]], object]:
    """Struct values are PySpark Rows: tuples with fields by name."""
    template = Row(*names)
    return lambda values: template(*values)
