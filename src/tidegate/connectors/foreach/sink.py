"""``foreach``: the user's function or object sees every row, inside the slot."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import polars as pl
from pyspark import cloudpickle
from pyspark.sql import Row

from tidegate.model.errors import InvalidQuery, UserCodeFailed
from tidegate.model.ids import CheckpointId, OperatorId, SlotIndex
from tidegate.model.types import Schema
from tidegate.operators.python_values import to_python
from tidegate.operators.user_functions import describe_row, failure
from tidegate.ports.sink import SinkWriter


def pack(handler: object) -> bytes:
    """Payload of the Sink: a function of one row, or an object with ``process`` and perhaps ``open`` and ``close``.

    Refuses what Spark refuses, on the driver, before anything starts.
    """
    if not callable(handler):
        if not callable(getattr(handler, "process", None)):
            raise InvalidQuery(
                f"foreach needs a function or an object with a method process(row), not a {type(handler).__name__}",
                hint="write foreach(lambda row: …) or a class with open, process and close",
            )
        for name in ("open", "close"):
            if not callable(getattr(handler, name, lambda: None)):
                raise InvalidQuery(f"{name!r} of the foreach object is not a method", hint=f"make {name} a method")
    try:
        return cloudpickle.dumps(handler)
    except Exception as error:
        raise InvalidQuery(
            f"the foreach handler cannot be sent to the executors: {error}",
            hint="create connections and files in open(), not in the constructor",
        ) from error


class ForeachWriter(SinkWriter):
    """``open(partition_id, epoch_id)`` comes with the first row after a barrier, ``close(error)`` at the next barrier.

    ``partition_id`` is the subtask; ``epoch_id`` is the number of the checkpoint before the rows, and 0 until the first one after a start or
    restart. The rows of an epoch are not the same ones after a restart: do not skip rows by it.
    """

    def __init__(self, payload: bytes, schema: Schema, operator: OperatorId, subtask: SlotIndex) -> None:
        """``payload``: as ``pack`` has made it."""
        self._label = f"foreach of {operator}"
        self._schema = schema
        self._subtask = subtask
        self._epoch = 0
        self._opened = self._accepts = False
        try:
            handler: Any = cloudpickle.loads(payload)
        except Exception as error:
            raise UserCodeFailed(
                f"{type(error).__name__}: {error}\nwhile loading the handler of {self._label} in the slot",
                hint="install what it imports on every executor, or ship it with spark.submit.pyFiles",
            ) from error
        is_function = not hasattr(handler, "process")
        self._process: Callable[[Any], object] = handler if is_function else handler.process
        self._open: Callable[[int, int], object] | None = None if is_function else getattr(handler, "open", None)
        self._close: Callable[[BaseException | None], object] | None = (
            None if is_function else getattr(handler, "close", None)
        )

    def write(self, rows: pl.DataFrame) -> None:
        if not self._opened:
            self._call_open()
        if not self._accepts:
            return
        row = make_row(tuple(rows.columns))
        columns = [to_python(rows[field.name], field.type, make_row) for field in self._schema]
        done = 0
        try:
            for values in zip(*columns, strict=True):
                self._process(row(values))
                done += 1
        except Exception as error:
            self._call_close(error)
            raise failure(error, self._label, describe_row(rows, done)) from error

    def prepare(self, checkpoint: CheckpointId) -> tuple[bytes, ...]:
        if self._opened:
            self._call_close(None)
        self._epoch = checkpoint
        return ()

    def close(self) -> None:
        if self._opened:
            self._call_close(None)

    def _call_open(self) -> None:
        self._opened = True
        try:
            # A handler without open() takes everything; Spark wants a truthy answer from one that has it.
            self._accepts = self._open is None or bool(self._open(self._subtask, self._epoch))
        except Exception as error:
            self._opened = False
            raise failure(error, self._label, f"in open({self._subtask}, {self._epoch})") from error

    def _call_close(self, error: BaseException | None) -> None:
        self._opened = False
        if self._close is None:
            return
        try:
            self._close(error)
        except Exception as raised:
            raise failure(raised, self._label, "in close()") from raised


def make_row(names: tuple[str, ...]) -> Callable[[Iterable[object]], Row]:
    """Rows as PySpark makes them: fields by name and by position."""
    template = Row(*names)
    return lambda values: template(*values)
