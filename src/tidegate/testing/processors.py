"""Stateful code without PySpark: what simulations, property tests and unit tests of ``stateful_process`` run instead of a user's.

``Tally`` counts the rows of a key and remembers their values in every kind of variable; timers report what it knows. What it gives does not
depend on how rows are cut into batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import polars as pl

from tidegate.model import types as t
from tidegate.model.types import Field
from tidegate.operators.stateful.keyed_state import KeyedState
from tidegate.operators.stateful.processor import Key
from tidegate.operators.user_functions import LoadedFunction
from tidegate.plan.keyed import StatefulProcess, TimeMode

TALLY_OUTPUT = (Field("key", t.STRING), Field("what", t.STRING), Field("number", t.LONG))
_VALUE = (Field("n", t.LONG),)
_WORD = (Field("w", t.STRING),)


def load_tally(command: bytes) -> LoadedFunction:
    """A ``Load``. The command says how long after a row, in milliseconds, its key is reported; empty: never."""
    delay_ms = int(command) if command else None

    def make(node: StatefulProcess, state: KeyedState, _function: Callable[..., Any]) -> Tally:
        return Tally(node, state, delay_ms)

    return LoadedFunction(lambda: None, processor=make)


class Tally:
    """A ``Processor``. Input columns behind the keys: a time in microseconds (event time) and a word."""

    def __init__(self, node: StatefulProcess, state: KeyedState, delay_ms: int | None) -> None:
        self._node = node
        self._state = state
        self._delay_ms = delay_ms
        self._count = state.value("count", _VALUE)
        self._words = state.map("words", _WORD, _VALUE)
        self._order = state.list("order", _WORD)
        self._rows: list[tuple[Any, ...]] = []
        self._kept: list[tuple[str, str, int]] = []

    def take(self, rows: pl.DataFrame) -> None:
        seen = rows.select(pl.nth(-2).to_physical(), pl.nth(-1))
        self._rows = seen.rows()

    def on_rows(self, key: Key, start: int, stop: int) -> None:
        for at_us, word in self._rows[start:stop]:
            count = (self._count.get() or (0,))[0] + 1
            self._count.update((count,))
            self._words.update((word,), ((self._words.get((word,)) or (0,))[0] + 1,))
            self._order.append([(word,)])
            self._keep(key, "row", count)
            if self._delay_ms is not None:
                by_event = self._node.time_mode is TimeMode.EVENT
                self._state.register_timer((at_us // 1_000 if by_event else self._state.now_ms) + self._delay_ms)

    def on_timer(self, key: Key, at_ms: int) -> None:
        self._keep(key, "timer", at_ms)

    def on_initial(self, key: Key, rows: pl.DataFrame) -> None:
        for (number,) in rows.rows():
            self._count.update(((self._count.get() or (0,))[0] + number,))

    @property
    def kept_rows(self) -> int:
        return len(self._kept)

    def results(self) -> Iterator[pl.DataFrame]:
        kept, self._kept = self._kept, []
        if kept:
            yield pl.DataFrame(kept, schema=[field.name for field in self._node.schema], orient="row")

    def close(self) -> None:
        return None

    def _keep(self, key: Key, what: str, number: int) -> None:
        self._kept.append((str(key[0]), what, number))
