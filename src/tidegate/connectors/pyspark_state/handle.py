"""What ``StatefulProcessor.init`` gets: PySpark's handle, variables and timers, answered by the state of the slot."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from pyspark.sql.streaming.stateful_processor import ListState, MapState, StatefulProcessorHandle, ValueState
from pyspark.sql.types import StructType

from tidegate.model.errors import InvalidQuery
from tidegate.model.types import Schema
from tidegate.operators.stateful.keyed_state import KeyedState, ListVariable, MapVariable, ValueVariable
from tidegate.plan.keyed import TimeMode

ReadSchema: TypeAlias = Callable[[StructType | str], Schema]


class Handle(StatefulProcessorHandle):
    """Variables are declared in ``init`` only; everything else speaks of the key that is being processed."""

    def __init__(self, state: KeyedState, read_schema: ReadSchema, time_mode: TimeMode) -> None:
        self._state = state
        self._read_schema = read_schema
        self._time_mode = time_mode
        self.declaring = True

    def getValueState(self, stateName: str, schema: StructType | str, ttlDurationMs: int | None = None) -> ValueState:
        self._check_declaring(stateName)
        return Value(self._state.value(stateName, self._read_schema(schema), self._ttl(stateName, ttlDurationMs)))

    def getListState(self, stateName: str, schema: StructType | str, ttlDurationMs: int | None = None) -> ListState:
        self._check_declaring(stateName)
        return List(self._state.list(stateName, self._read_schema(schema), self._ttl(stateName, ttlDurationMs)))

    def getMapState(
        self,
        stateName: str,
        userKeySchema: StructType | str,
        valueSchema: StructType | str,
        ttlDurationMs: int | None = None,
    ) -> MapState:
        self._check_declaring(stateName)
        key, value = self._read_schema(userKeySchema), self._read_schema(valueSchema)
        return Map(self._state.map(stateName, key, value, self._ttl(stateName, ttlDurationMs)))

    def deleteIfExists(self, stateName: str) -> None:
        self._check_declaring(stateName)
        self._state.forget(stateName)

    def registerTimer(self, expiryTimestampMs: int) -> None:
        self._check_timers()
        self._state.register_timer(int(expiryTimestampMs))

    def deleteTimer(self, expiryTimestampMs: int) -> None:
        self._check_timers()
        self._state.delete_timer(int(expiryTimestampMs))

    def listTimers(self) -> Iterator[int]:
        self._check_timers()
        return iter(self._state.list_timers())

    def _check_declaring(self, name: str) -> None:
        if not self.declaring:
            raise RuntimeError(f"state variable {name!r} must be declared in init(), not while rows are processed")

    def _check_timers(self) -> None:
        if self._time_mode is TimeMode.NONE:
            raise RuntimeError("timers need timeMode='ProcessingTime' or 'EventTime'")
        if self.declaring:
            raise RuntimeError("timers belong to a key: register them in handleInputRows() or handleExpiredTimer()")

    def _ttl(self, name: str, ttl_ms: int | None) -> int | None:
        if ttl_ms is None:
            return None
        if self._time_mode is not TimeMode.PROCESSING:
            raise InvalidQuery(
                f"state variable {name!r} has a TTL, which counts processing time",
                hint="use timeMode='ProcessingTime', or leave ttlDurationMs out",
            )
        if ttl_ms <= 0:
            raise InvalidQuery(
                f"the TTL of state variable {name!r} is {ttl_ms} ms", hint="give it more than zero milliseconds"
            )
        return int(ttl_ms)


class Value(ValueState):
    def __init__(self, variable: ValueVariable) -> None:
        self._variable = variable

    def exists(self) -> bool:
        return self._variable.exists()

    def get(self) -> tuple[Any, ...] | None:
        return self._variable.get()

    def update(self, newValue: tuple[Any, ...]) -> None:
        self._variable.update(newValue)

    def clear(self) -> None:
        self._variable.clear()


class List(ListState):
    def __init__(self, variable: ListVariable) -> None:
        self._variable = variable

    def exists(self) -> bool:
        return self._variable.exists()

    def get(self) -> Iterator[tuple[Any, ...]]:
        return iter(self._variable.get())

    def put(self, newState: list[tuple[Any, ...]]) -> None:
        self._variable.put(_not_empty(newState))

    def appendValue(self, newState: tuple[Any, ...]) -> None:
        self._variable.append([newState])

    def appendList(self, newState: list[tuple[Any, ...]]) -> None:
        self._variable.append(_not_empty(newState))

    def clear(self) -> None:
        self._variable.clear()


def _not_empty(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    if not rows:
        raise ValueError("a list state takes at least one value; clear() empties it")
    return rows


class Map(MapState):
    def __init__(self, variable: MapVariable) -> None:
        self._variable = variable

    def exists(self) -> bool:
        return self._variable.exists()

    def getValue(self, key: tuple[Any, ...]) -> tuple[Any, ...] | None:
        return self._variable.get(key)

    def containsKey(self, key: tuple[Any, ...]) -> bool:
        return self._variable.contains(key)

    def updateValue(self, key: tuple[Any, ...], value: tuple[Any, ...]) -> None:
        self._variable.update(key, value)

    def iterator(self) -> Iterator[tuple[tuple[Any, ...], tuple[Any, ...]]]:
        return iter(self._variable.items())

    def keys(self) -> Iterator[tuple[Any, ...]]:
        return iter([key for key, _ in self._variable.items()])

    def values(self) -> Iterator[tuple[Any, ...]]:
        return iter([value for _, value in self._variable.items()])

    def removeKey(self, key: tuple[Any, ...]) -> None:
        self._variable.remove(key)

    def clear(self) -> None:
        self._variable.clear()
