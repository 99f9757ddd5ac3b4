"""Operators that keep rows or values by key, besides aggregates: deduplication, joins of two streams, sessions, stateful user code.

Like an Aggregate each stands at the head of its stage, behind keyed edges, so that all rows of a key meet in one subtask.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from tidegate.model.ids import OperatorId
from tidegate.model.types import Schema
from tidegate.plan.expressions import Expression

if TYPE_CHECKING:
    from tidegate.model.output_mode import OutputMode
    from tidegate.plan.relational import AggregateCall, EventTimeKey, Plan


def fields_named(names: tuple[str, ...], schema: Schema) -> Schema:
    """The fields of these names, in their order."""
    known = {field.name: field for field in schema}
    return tuple(known[name] for name in names)


@dataclass(frozen=True, slots=True, kw_only=True)
class Deduplicate:
    """Lets the first row of each key pass. Output: the rows as they came.

    ``event_time``: the column of the input that carries a watermark; a row is late when its time ≤ watermark. Among the keys, a key is
    forgotten when that time ≤ watermark. With ``within_watermark`` a key is forgotten when the time of its first row plus
    ``delay_us`` ≤ watermark. Otherwise never.
    """

    id: OperatorId
    keys: tuple[str, ...]
    event_time: EventTimeKey | None
    within_watermark: bool = False
    delay_us: int = 0
    schema: Schema
    meanings: tuple[tuple[str, str], ...] = ()
    pinned: bool = False
    inputs: tuple[Plan, ...] = ()

    @property
    def key_schema(self) -> Schema:
        return fields_named(self.keys, self.schema)

    @property
    def rows_of_a_key_are_late_together(self) -> bool:
        """Only then may one row stand for the others before it is known which of them are late."""
        return self.event_time is None or self.event_time.column in self.keys


@dataclass(frozen=True, slots=True, kw_only=True)
class PartialDeduplicate:
    """Lets the first row of each key of one batch pass, before the exchange: a hot key costs one row per batch. Operator."""

    deduplicate: Deduplicate
    schema: Schema
    inputs: tuple[Plan, ...] = ()


class StreamJoinKind(Enum):
    INNER = "inner"
    LEFT = "left"
    RIGHT = "right"
    FULL = "full"
    SEMI = "semi"


@dataclass(frozen=True, slots=True)
class Moment:
    """A time read off a row: column ``column``, a timestamp or (with ``field``) a struct that holds one, plus a constant."""

    column: str
    field: str | None = None
    plus_us: int = 0


@dataclass(frozen=True, slots=True)
class TimeRange:
    """Partners differ in time by ``low_us ≤ right − left ≤ high_us`` (None: not bounded that way): rows outside it need not be looked at.
    ``left`` and ``right`` name timestamp columns. It only narrows the search; the join's condition decides."""

    left: str
    right: str
    low_us: int | None = None
    high_us: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinSide:
    """One input of a join."""

    keys: tuple[str, ...]
    schema: Schema
    event_time: Moment | None = None
    """The column a watermark was assigned to, or the end of a window over it: a row is late when it is ≤ the watermark."""
    expires: Moment | None = None
    """When it is ≤ the watermark the row can find no more partner, and is forgotten. None: kept for ever."""
    lag_us: int | None = 0
    """Rows that still leave have an event time later than the watermark minus this; None: any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamJoin:
    """Joins two streams on equal keys, and on ``condition`` over the columns of both. Port 0 is the left side, port 1 the right.

    Output: left columns, then right columns; of a semi join the left ones only. Rows without a partner leave when they expire.
    """

    id: OperatorId
    kind: StreamJoinKind
    left: JoinSide
    right: JoinSide
    null_safe: tuple[bool, ...]
    condition: Expression | None
    within: TimeRange | None = None
    schema: Schema
    meanings: tuple[tuple[str, str], ...] = ()
    pinned: bool = False
    inputs: tuple[Plan, ...] = ()

    @property
    def lag_us(self) -> int | None:
        """How far the event time of the output may be behind the watermark of the input; None: as far as it likes."""
        sides = (self.left,) if self.kind is StreamJoinKind.SEMI else (self.left, self.right)
        lags = [side.lag_us for side in sides if side.event_time is not None]
        return None if None in lags else max((0, *(lag for lag in lags if lag is not None)))


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionAggregate:
    """Groups by ``keys`` and by sessions: intervals ``[start, end)`` of the struct column ``session``, merged where they overlap or touch.

    Append: a session leaves when the watermark reaches its end; complete: all leave at every barrier. Output: as ``Aggregate``, keys in
    the order of ``schema``.
    """

    id: OperatorId
    keys: tuple[str, ...]
    """Without the session."""
    session: str
    calls: tuple[AggregateCall, ...]
    event_time: bool
    """Whether the session carries a watermark."""
    mode: OutputMode
    schema: Schema
    input_schema: Schema = ()
    meanings: tuple[tuple[str, str], ...] = ()
    pinned: bool = False
    inputs: tuple[Plan, ...] = ()

    @property
    def key_schema(self) -> Schema:
        return fields_named(self.keys, self.input_schema)


class StatefulKind(Enum):
    TRANSFORM_PANDAS = "transformWithStateInPandas"
    TRANSFORM_ROW = "transformWithState"
    APPLY_PANDAS = "applyInPandasWithState"


class TimeMode(Enum):
    NONE = "none"
    PROCESSING = "processing time"
    EVENT = "event time"


@dataclass(frozen=True, slots=True, kw_only=True)
class StatefulProcess:
    """A user's stateful processor: rows of a key and its timers in, rows out; values, lists and maps per key are kept."""

    id: OperatorId
    kind: StatefulKind
    label: str
    command: bytes = field(repr=False)
    keys: tuple[str, ...]
    time_mode: TimeMode
    event_time: str | None
    """The column with the watermark, for late rows; None: there is none."""
    mode: OutputMode
    input_names: tuple[str, ...]
    """Under which the user's code sees the input columns."""
    output_names: tuple[str, ...]
    schema: Schema
    input_schema: Schema = ()
    state_schema: Schema = ()
    """Of ``applyInPandasWithState``: of the one value kept per key."""
    state_schemas: tuple[tuple[str, Schema], ...] = ()
    """Schemas that the user's code writes as text, when it declares its variables, and what they mean."""
    has_watermark: bool = False
    """Whether the input has one at all."""
    initial: bytes = field(default=b"", repr=False)
    """Initial state as an Arrow IPC stream of ``initial_schema``: the keys first, as in ``keys``, then the columns the user sees."""
    initial_schema: Schema = ()
    initial_names: tuple[str, ...] = ()
    """Under which the user's code sees the columns behind the keys."""
    zone: str = "UTC"
    meanings: tuple[tuple[str, str], ...] = ()
    pinned: bool = False
    inputs: tuple[Plan, ...] = ()

    @property
    def key_schema(self) -> Schema:
        return fields_named(self.keys, self.input_schema)
