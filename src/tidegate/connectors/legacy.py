"""Connectors that still take the user's options as text, behind the specs that everybody else sees. It goes with the last of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, ClassVar, Self, TypeVar

from tidegate.connectors.python_source.options import place_of, shown_by_sound
from tidegate.model.ids import Attempt, OperatorId, SlotIndex
from tidegate.model.output_mode import OutputMode
from tidegate.model.types import Schema
from tidegate.ports.context import CommitterContext, EnumeratorContext, ReaderContext, SinkContext, WriterContext
from tidegate.ports.side import ConnectorSide
from tidegate.ports.sink import SinkCommitter, SinkWriter
from tidegate.ports.source import SourceConnector, SplitEnumerator
from tidegate.ports.spec import ConnectorRequest, Place, SinkSpec, SourceSpec

PIPELINE = "tidegate.pipeline"
COMMIT_WITHIN = "tidegate.commitWithin"
Side = TypeVar("Side", bound=ConnectorSide)

_UNNAMED = OperatorId("source")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    id: OperatorId
    format: str
    options: dict[str, str]
    schema: Schema
    columns: tuple[str, ...]
    payload: bytes = b""
    source_schema: Schema = ()
    event_time: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sink:
    id: OperatorId
    format: str
    options: dict[str, str]
    schema: Schema
    columns: tuple[tuple[str, str], ...] = ()
    mode: OutputMode = OutputMode.APPEND
    partition_by: tuple[str, ...] = ()
    payload: bytes = b""


class SinkConnector(ConnectorSide, ABC):
    guarantee: str
    keeps_every_result: bool = False

    @abstractmethod
    def writer(self, sink: Sink, attempt: Attempt, subtask: SlotIndex) -> SinkWriter: ...


@dataclass(frozen=True, kw_only=True)
class LegacySource(SourceSpec):
    options: dict[str, str] = field(repr=False)
    payload: bytes = field(default=b"", repr=False)

    PACKAGE: ClassVar[str]

    @classmethod
    def parse(cls, asked: ConnectorRequest) -> Self:
        package = cls.PACKAGE
        options = dict(sorted(asked.options.items()))
        if package == "files" and "timezone" not in map(str.lower, options):
            options["timezone"] = asked.zone
        made = cls(
            format=asked.format,
            schema=asked.schema,
            shown=_shown(options),
            options=options,
            payload=asked.payload,
        )
        _module(package).source(made._scan((), ()))
        return made

    @property
    def place(self) -> Place:
        return place_of(self.options)

    @property
    def runs_user_code(self) -> bool:
        return bool(self.payload)

    def enumerator(self, context: EnumeratorContext) -> SplitEnumerator:
        scan = self._scan((), (), context.event_time, context.operator)
        return _at_home(_module(self.PACKAGE).enumerator(scan, context), context)

    def reader(self, context: ReaderContext) -> SourceConnector:
        scan = self._scan(context.columns, context.schema, operator=context.operator)
        return _at_home(_module(self.PACKAGE).source(scan), context)

    def _scan(
        self,
        columns: tuple[str, ...],
        schema: Schema,
        event_time: str | None = None,
        operator: OperatorId = _UNNAMED,
    ) -> Scan:
        return Scan(
            id=operator,
            format=self.format,
            options=self.options,
            schema=schema,
            columns=columns,
            payload=self.payload,
            source_schema=self.schema,
            event_time=event_time,
        )


@dataclass(frozen=True, kw_only=True)
class LegacySink(SinkSpec):
    options: dict[str, str] = field(repr=False)
    payload: bytes = field(default=b"", repr=False)

    PACKAGE: ClassVar[str]

    @classmethod
    def parse(cls, asked: ConnectorRequest) -> Self:
        package = cls.PACKAGE
        options = dict(asked.options)
        if package == "files" and asked.zone != "UTC" and "timezone" not in map(str.lower, options):
            options["timeZone"] = asked.zone
        made = cls(
            format=asked.format,
            schema=asked.schema,
            mode=asked.mode,
            partition_by=asked.partition_by,
            shown=_shown(options),
            options=options,
            payload=asked.payload,
        )
        made._connector()
        return made

    @property
    def place(self) -> Place:
        return place_of(self.options)

    @property
    def runs_user_code(self) -> bool:
        return bool(self.payload)

    @property
    def guarantee(self) -> str:
        return self._connector().guarantee

    @property
    def keeps_every_result(self) -> bool:
        return self._connector().keeps_every_result

    def writer(self, context: WriterContext) -> SinkWriter:
        sink = self._sink(context)
        connector = _at_home(_module(self.PACKAGE).sink(sink), context)
        connector.use(context.store)
        return connector.writer(sink, context.attempt, context.subtask)

    def committer(self, context: CommitterContext) -> SinkCommitter:
        committer = _at_home(_module(self.PACKAGE).committer(self._sink(context)), context)
        committer.use(context.store)
        return committer

    def _connector(self) -> SinkConnector:
        return _module(self.PACKAGE).sink(self._sink(None))

    def _sink(self, context: SinkContext | None) -> Sink:
        own = {}
        if context is not None:
            own = {PIPELINE: str(context.pipeline), COMMIT_WITHIN: str(context.commit_within_ms)}
        return Sink(
            id=OperatorId("sink") if context is None else context.operator,
            format=self.format,
            options={**self.options, **own},
            schema=self.schema,
            mode=self.mode,
            partition_by=self.partition_by,
            payload=self.payload,
        )


def _shown(options: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return shown_by_sound({name: value for name, value in options.items() if not name.startswith("tidegate.")})


def _at_home(side: Side, context: EnumeratorContext | ReaderContext | SinkContext) -> Side:
    side.reach(context.open_directory)
    return side


def _module(package: str) -> Any:
    return import_module(f"tidegate.connectors.{package}.format")  # Goes with this module.
