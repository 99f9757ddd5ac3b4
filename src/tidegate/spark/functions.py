"""How user functions get from Spark's plan into a slot: Spark pickled them, PySpark's own pickler reads them back."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from pyspark import cloudpickle
from pyspark.sql import Row

from tidegate.operators.user_functions import LoadedFunction


def load(command: bytes) -> LoadedFunction:
    """Unpickles the command of a plan node: ``(function, return type)``, or the function alone.

    It runs the user's own code, as Spark's workers would; never hand it anything that came out of a snapshot.
    """
    loaded = cloudpickle.loads(command)
    function = loaded[0] if isinstance(loaded, tuple) else loaded
    return LoadedFunction(function, row_maker)


def row_maker(names: tuple[str, ...]) -> Callable[[Iterable[object]], object]:
    """Struct values are PySpark Rows: tuples with fields by name."""
    template = Row(*names)
    return lambda values: template(*values)
