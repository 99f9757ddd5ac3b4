"""The relational plan: what a query means. Frozen, picklable, engine-neutral; built by ``catalyst/``, tests and the simulator.

Column names are unique in the whole plan (``price#3``); the user's names live in the Sink. A node of a *stage* is the same
value with ``inputs=()``: the graph of the stages carries the edges instead.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

from tidegate.model.ids import OperatorId
from tidegate.model.output_mode import OutputMode
from tidegate.model.snapshot import ChunkHandle
from tidegate.model.types import DataType, Schema
from tidegate.plan.expressions import Expression, Named, Scalar
from tidegate.plan.keyed import Deduplicate, PartialDeduplicate, SessionAggregate, StatefulProcess, StreamJoin
from tidegate.plan.ordering import Limit, PartialLimit, Sort
from tidegate.ports.spec import SinkSpec, SourceSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """Reads a source. Names of ``schema`` are the plan's; ``columns`` are the source's own names, in the same order."""

    id: OperatorId
    spec: SourceSpec
    schema: Schema
    columns: tuple[str, ...]
    event_time: str | None = None
    """The source's column that ``withWatermark`` reads as it is stored; empty: it reads something else; None: no ``withWatermark`` is in
    the chain. Written into the graph (``plan/event_times.py``): it says nothing about what the source gives."""
    pinned: bool = False
    """The user chose the id."""
    inputs: tuple[()] = ()

    @property
    def format(self) -> str:
        return self.spec.format


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignWatermark:
    """``withWatermark``: watermark = maximum of ``column`` per split, minus ``delay_us``; minimum over the splits."""

    id: OperatorId
    column: str
    delay_us: int
    schema: Schema
    pinned: bool = False
    stream: OperatorId | None = None
    """The ``withWatermark`` of which this is a branch; None: it is alone."""
    inputs: tuple[Plan, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    condition: Expression
    schema: Schema
    inputs: tuple[Plan, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    columns: tuple[Named, ...]
    schema: Schema
    inputs: tuple[Plan, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Expand:
    """Each row becomes one row per projection (sliding windows, grouping sets)."""

    projections: tuple[tuple[Expression, ...], ...]
    schema: Schema
    inputs: tuple[Plan, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Generate:
    """Each row becomes as many rows as its array or map has entries. Output: columns of the input, then the generated ones.

    ``function``: ``explode posexplode inline`` over one argument. ``outer``: a row without any entry gives one of nulls.
    """

    function: str
    args: tuple[Expression, ...]
    outer: bool
    generated: Schema
    schema: Schema
    inputs: tuple[Plan, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Repartition:
    """Rows go to other subtasks: by key, all of a key to one of them; without ``keys`` in turn, batch by batch; ``single``: all to
    one. Rows of one subtask that go to the same one keep their order, others mix."""

    keys: tuple[str, ...]
    schema: Schema
    single: bool = False
    inputs: tuple[Plan, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StampTime:
    """Appends ``column``: the time at which a row comes by, on its slot's clock, in milliseconds. Rows read again get a later one."""

    column: str
    schema: Schema
    inputs: tuple[Plan, ...] = ()


@dataclass(frozen=True, slots=True)
class AggregateCall:
    """One aggregate over plain columns of the input. ``function``: Spark's name (``count sum min max avg first …``).

    ``count`` without ``args`` is ``count(*)``. ``filter`` names a boolean column. ``type`` is the result's.
    """

    name: str
    function: str
    args: tuple[str, ...]
    type: DataType
    input_types: tuple[DataType, ...] = ()
    distinct: bool = False
    filter: str | None = None
    ansi: bool = True
    sql: str = ""
    ignore_nulls: bool = False
    """``first``, ``last``, ``any_value`` only."""
    params: tuple[Scalar, ...] = ()
    """Constant arguments, by position: percentages, a precision, a delimiter."""
    tables: tuple[tuple[float, ...], ...] = ()
    """Numbers that the function looks things up in, as Spark has them (``approx_count_distinct``)."""

    @property
    def reads(self) -> tuple[str, ...]:
        """Columns of the input."""
        return self.args if self.filter is None else (*self.args, self.filter)


@dataclass(frozen=True, slots=True)
class EventTimeKey:
    """The grouping key that carries event time. A group is closed, and a row late, when its end ≤ watermark.

    ``field`` is ``"end"`` when the column is a window struct, None when it is the timestamp itself.
    """

    column: str
    field: str | None

    @property
    def path(self) -> tuple[str, ...]:
        return (self.column,) if self.field is None else (self.column, self.field)


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregate:
    """Groups by plain key columns. Append: a group leaves once, when the watermark closes it; update: at every change.

    Output: the keys under their names, then one column per call.
    """

    id: OperatorId
    keys: tuple[str, ...]
    calls: tuple[AggregateCall, ...]
    event_time: EventTimeKey | None
    mode: OutputMode
    schema: Schema
    input_schema: Schema = ()
    """Schema of the rows aggregated: kept here because a stage's node has no inputs."""
    meanings: tuple[tuple[str, str], ...] = ()
    """Columns read whose name does not say what they are, in words; kept here for the same reason."""
    pinned: bool = False
    inputs: tuple[Plan, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PartialAggregate:
    """Combines the rows of one batch before the exchange: less traffic, and a hot key costs one row per batch.

    Stateless. Output: the keys, then the accumulator columns of every call (``operators/accumulators.py`` names them).
    """

    aggregate: Aggregate
    schema: Schema
    inputs: tuple[Plan, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Union:
    """All rows of all inputs; input columns are matched by position to ``schema``."""

    schema: Schema
    inputs: tuple[Plan, ...] = ()


class UdfKind(Enum):
    PYTHON = "python"
    """Row by row, results as Spark takes pickled ones: a value of another type becomes null."""
    PYTHON_ARROW = "python_arrow"
    """Row by row, results coerced as Arrow does (Spark's Arrow-optimised Python UDFs)."""
    PANDAS = "pandas"
    PANDAS_ITER = "pandas_iter"
    ARROW = "arrow"
    ARROW_ITER = "arrow_iter"


@dataclass(frozen=True, slots=True)
class PythonUdf:
    """A scalar user function. ``command`` is Spark's pickled ``(function, return type)``; ``chained`` UDFs are separate nodes."""

    name: str
    """Output column."""
    label: str
    """The user's name for it."""
    command: bytes
    kind: UdfKind
    args: tuple[Expression, ...]
    type: DataType
    keywords: tuple[str | None, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonEval:
    """Appends the results of scalar user functions to the input's columns."""

    udfs: tuple[PythonUdf, ...]
    schema: Schema
    zone: str = "UTC"
    inputs: tuple[Plan, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MapBatches:
    """``mapInArrow`` / ``mapInPandas``. The function sees the input columns under ``input_names``."""

    kind: UdfKind
    label: str
    command: bytes
    input_names: tuple[str, ...]
    schema: Schema
    output_names: tuple[str, ...]
    zone: str = "UTC"
    input_schema: Schema = ()
    """Types of the input columns; empty: read off the rows, where a map looks like an array of entries."""
    inputs: tuple[Plan, ...] = ()


class JoinKind(Enum):
    INNER = "inner"
    LEFT = "left"
    SEMI = "semi"
    ANTI = "anti"
    CROSS = "cross"
    EXISTENCE = "existence"
    """All rows of the stream, and a last column that says whether there is a partner."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticJoin:
    """Joins the stream (always the left side here) with rows that Spark computed before the deploy.

    ``table`` is the static side as an Arrow IPC stream with the plan's column names. ``condition``, if any, is evaluated over both sides after
    the equi-keys matched. LEFT keeps stream rows without a partner.
    """

    kind: JoinKind
    stream_keys: tuple[Expression, ...]
    static_keys: tuple[Expression, ...]
    null_safe: tuple[bool, ...]
    condition: Expression | None
    table: bytes = field(repr=False)
    static_schema: Schema
    schema: Schema
    parts: tuple[ChunkHandle, ...] = ()
    """Instead of ``table``: where its rows lie, by key group of the static keys. The stream comes by the same keys, which are columns."""
    inputs: tuple[Plan, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Sink:
    """Writes ``columns`` (plan name, public name) with a connector."""

    id: OperatorId
    spec: SinkSpec
    columns: tuple[tuple[str, str], ...]
    query: str = ""
    """Name of the query among those of a job; empty: it is alone."""
    dead_letters: bool = False
    """Last in its stage and beside the stream: it takes the rows that user functions of the stage raise for."""
    pinned: bool = False
    inputs: tuple[Plan, ...] = ()

    @property
    def format(self) -> str:
        return self.spec.format

    @property
    def schema(self) -> Schema:
        """Public names."""
        return self.spec.schema

    @property
    def mode(self) -> OutputMode:
        return self.spec.mode


Plan: TypeAlias = (
    Scan
    | AssignWatermark
    | Filter
    | Project
    | Expand
    | Aggregate
    | PartialAggregate
    | SessionAggregate
    | Deduplicate
    | PartialDeduplicate
    | Sort
    | Limit
    | PartialLimit
    | StreamJoin
    | StatefulProcess
    | Generate
    | StampTime
    | Repartition
    | Union
    | PythonEval
    | MapBatches
    | StaticJoin
    | Sink
)

Stateful: TypeAlias = (
    Scan | AssignWatermark | Aggregate | SessionAggregate | Deduplicate | StreamJoin | StatefulProcess | Limit | Sink
)
"""Operators with a name of their own, under which their state is stored."""
Keyed: TypeAlias = Aggregate | SessionAggregate | Deduplicate | StreamJoin | StatefulProcess
"""Operators at the head of a stage, behind keyed edges."""
