"""What a source or a sink is: made once, on the driver, when a query starts; frozen, comparable, picklable. The slots get this very value.

Every fact about a connector that others need before it runs is here: nobody else keeps a table of formats.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, ClassVar, NewType, Self

from tidegate.model.errors import InvalidQuery
from tidegate.model.output_mode import OutputMode
from tidegate.model.types import Schema
from tidegate.ports.context import CommitterContext, EnumeratorContext, ReaderContext, WriterContext
from tidegate.ports.options import Options, Refused
from tidegate.ports.sink import SinkCommitter, SinkWriter
from tidegate.ports.source import SourceConnector, SplitEnumerator

Place = NewType("Place", str)
"""A path, topic or table, without any secret: part of the operator's identity."""
NOWHERE = Place("")
_LOCAL = re.compile(r"file:/+")


def place_of_path(path: str) -> Place:
    """The same for all spellings of a path."""
    return Place((_LOCAL.sub("/", path, count=1) if path.startswith("file:") else path).rstrip("/"))


class SparkJobs(Enum):
    """Whether Spark jobs run beside the slots for a sink, which need a task slot."""

    NEVER = "never"
    PERHAPS = "perhaps"
    ALWAYS = "always"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectorRequest:
    """What the user asked for, and what the query says about it."""

    format: str
    options: Mapping[str, str] = field(repr=False)
    schema: Schema
    """A source: all of its columns under its own names. A sink: the result."""
    mode: OutputMode = OutputMode.APPEND
    partition_by: tuple[str, ...] = ()
    zone: str = "UTC"
    """Of the session: times without a zone are in it."""
    payload: bytes = b""
    """Pickled code of the user. Ours or theirs, never state."""


@dataclass(frozen=True, kw_only=True)
class Spec(ABC):
    """Options are declared as fields (``ports.options.option``); rules between them belong into ``__post_init__``."""

    format: str
    schema: Schema
    shown: tuple[tuple[str, str], ...] = ()
    """The options that the user set, for people: values only of those that are declared to be harmless."""

    REFUSED: ClassVar[Mapping[str, Refused]] = {}
    """Options of Spark that would change results, with the way out."""
    IGNORED: ClassVar[frozenset[str]] = frozenset()
    """Options of Spark without effect here."""

    @property
    @abstractmethod
    def place(self) -> Place:
        """What it reads or writes; NOWHERE: nothing in particular."""

    @property
    def runs_user_code(self) -> bool:
        """What it raises is the user's to mend."""
        return False


@dataclass(frozen=True, kw_only=True)
class SourceSpec(Spec):
    @classmethod
    def parse(cls, asked: ConnectorRequest) -> Self:
        """Validates everything and asks nobody. Raises InvalidQuery."""
        return cls(**cls.said(asked))

    @classmethod
    def said(cls, asked: ConnectorRequest) -> dict[str, Any]:
        """Values of all fields that follow from the request."""
        options = Options(asked.options, f"{asked.format} source")
        values = options.read_all(cls, cls.REFUSED, cls.IGNORED)
        return {"format": asked.format, "schema": asked.schema, "shown": options.shown(cls), **values}

    @abstractmethod
    def enumerator(self, context: EnumeratorContext) -> SplitEnumerator:
        """Driver side. Asks nobody yet. Raises InvalidQuery for what does not fit the run."""

    @abstractmethod
    def reader(self, context: ReaderContext) -> SourceConnector:
        """Slot side."""


@dataclass(frozen=True, kw_only=True)
class SinkSpec(Spec):
    mode: OutputMode = OutputMode.APPEND
    partition_by: tuple[str, ...] = ()

    OUTLIVES_QUERY: ClassVar[bool] = True
    """False: a checkpoint location may be made up for it, as Spark does."""
    SPARK_JOBS: ClassVar[SparkJobs] = SparkJobs.NEVER

    @classmethod
    def parse(cls, asked: ConnectorRequest) -> Self:
        """Validates everything and asks nobody. Raises InvalidQuery."""
        return cls(**cls.said(asked))

    @classmethod
    def said(cls, asked: ConnectorRequest) -> dict[str, Any]:
        """Values of all fields that follow from the request."""
        options = Options(asked.options, f"{asked.format} sink")
        values = options.read_all(cls, cls.REFUSED, cls.IGNORED)
        cls.refuse_partitions(asked)
        own = {"format": asked.format, "schema": asked.schema, "shown": options.shown(cls)}
        return {**own, "mode": asked.mode, "partition_by": asked.partition_by, **values}

    @classmethod
    def refuse_partitions(cls, asked: ConnectorRequest) -> None:
        """Raises InvalidQuery unless ``partitionBy`` names columns of the result. A sink to which it means nothing may refuse it, or
        ignore it as Spark does."""
        names = [field.name for field in asked.schema]
        unknown = [name for name in asked.partition_by if name not in names]
        if unknown:
            raise InvalidQuery(
                f"partitionBy names {', '.join(unknown)}, which the result does not have",
                hint=f"its columns are {', '.join(names)}",
            )

    @property
    def guarantee(self) -> str:
        """``exactly_once``, ``at_least_once`` or ``idempotent``; stands in the query's description."""
        return "exactly_once"

    @property
    def keeps_every_result(self) -> bool:
        """The output is a log: in output mode complete, each checkpoint's result stands behind the one before. For all others a result
        takes the place of those that are not visible yet."""
        return False

    @abstractmethod
    def writer(self, context: WriterContext) -> SinkWriter:
        """Slot side."""

    @abstractmethod
    def committer(self, context: CommitterContext) -> SinkCommitter:
        """Driver side. May ask whether the target is there; raises InvalidQuery if it is not."""
