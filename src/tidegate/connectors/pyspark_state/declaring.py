"""A ``StatefulProcessor``'s variables, found out on the driver before the query runs, as Spark does: ``init`` is called on a copy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.sql.types import StructType

from tidegate.connectors.pyspark_state.handle import Handle
from tidegate.connectors.pyspark_state.transform import processor_of
from tidegate.model.errors import InvalidQuery, TidegateError
from tidegate.model.snapshot import KeyGroupRange
from tidegate.model.types import Schema
from tidegate.operators.stateful.keyed_state import KeyedState
from tidegate.operators.stateful.variables import Variables
from tidegate.operators.user_functions import record_maker, user_traceback
from tidegate.plan.keyed import TimeMode
from tidegate.state.entries import EntryTable
from tidegate.state.entries_in_memory import EntriesInMemory


def declared_schemas(
    function: Callable[..., Any], read_schema: Callable[[StructType | str], Schema], time_mode: TimeMode
) -> tuple[tuple[str, Schema], ...]:
    """The text of every schema ``init`` uses, and what it means. Raises InvalidQuery when ``init`` raises, or declares what cannot be."""
    found: dict[str, Schema] = {}

    def read(schema: StructType | str) -> Schema:
        text = schema if isinstance(schema, str) else schema.json()
        found[text] = read_schema(schema)
        return found[text]

    table = EntryTable(EntriesInMemory(), KeyGroupRange(0, 1), 1)
    state = KeyedState(table, Variables(), record_maker)
    user = processor_of(function)
    try:
        user.init(Handle(state, read, time_mode))
        user.close()
    except TidegateError:
        raise
    except Exception as error:
        raise InvalidQuery(
            f"{user_traceback(error)}\nwhile init() of {type(user).__name__} declared its state variables",
            hint="init() runs on the driver, too, before the query starts: let it declare variables and nothing else",
        ) from error
    return tuple(sorted(found.items()))
