"""Sources and sinks that stand in a plan and are made by the connectors of a test."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.model.errors import Bug
from tidegate.model.output_mode import OutputMode
from tidegate.model.types import Schema
from tidegate.plan.dead_letters import LETTERS, DeadLetters
from tidegate.ports.context import CommitterContext, EnumeratorContext, ReaderContext, WriterContext
from tidegate.ports.sink import SinkCommitter, SinkWriter
from tidegate.ports.source import SourceConnector, SplitEnumerator
from tidegate.ports.spec import NOWHERE, Place, SinkSpec, SourceSpec


@dataclass(frozen=True, kw_only=True)
class SourceStandIn(SourceSpec):
    place_name: str = ""
    calls_user: bool = False

    @property
    def place(self) -> Place:
        return Place(self.place_name) if self.place_name else NOWHERE

    @property
    def runs_user_code(self) -> bool:
        return self.calls_user

    def enumerator(self, context: EnumeratorContext) -> SplitEnumerator:
        raise Bug(f"{context.operator} stands in for a source: the connectors of the test make its enumerator")

    def reader(self, context: ReaderContext) -> SourceConnector:
        raise Bug(f"{context.operator} stands in for a source: the connectors of the test make its reader")


@dataclass(frozen=True, kw_only=True)
class SinkStandIn(SinkSpec):
    place_name: str = ""
    calls_user: bool = False
    is_log: bool = False

    @property
    def place(self) -> Place:
        return Place(self.place_name) if self.place_name else NOWHERE

    @property
    def runs_user_code(self) -> bool:
        return self.calls_user

    @property
    def keeps_every_result(self) -> bool:
        return self.is_log

    def writer(self, context: WriterContext) -> SinkWriter:
        raise Bug(f"{context.operator} stands in for a sink: the connectors of the test make its writers")

    def committer(self, context: CommitterContext) -> SinkCommitter:
        raise Bug(f"{context.operator} stands in for a sink: the connectors of the test make its committer")


def scripted_source(schema: Schema = (), *, format: str = "scripted", place: str = "") -> SourceStandIn:
    return SourceStandIn(format=format, schema=schema, place_name=place)


def scripted_sink(
    schema: Schema, mode: OutputMode = OutputMode.APPEND, *, format: str = "scripted", place: str = ""
) -> SinkStandIn:
    return SinkStandIn(format=format, schema=schema, mode=mode, place_name=place)


def scripted_letters(path: str, *, format: str = "json") -> DeadLetters:
    return DeadLetters(path, scripted_sink(LETTERS, format=format, place=path))
