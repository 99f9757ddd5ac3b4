"""The console sink."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tidegate.connectors.collected import CollectingWriter, whole_result
from tidegate.connectors.console.committer import ConsoleCommitter
from tidegate.ports.context import CommitterContext, WriterContext
from tidegate.ports.kinds import Made, WholeNumber
from tidegate.ports.options import option
from tidegate.ports.spec import NOWHERE, Place, SinkSpec


def _characters(text: str) -> int:
    known = {"true": 20, "false": 0}.get(text.lower())
    return WholeNumber().parse(text) if known is None else known


@dataclass(frozen=True, kw_only=True)
class ConsoleSpec(SinkSpec):
    rows_max: int = option("numRows", WholeNumber(1), 20, doc="most rows of a checkpoint that are printed")
    truncate: int = option(
        "truncate",
        Made(_characters, "`true`, `false`, or a number"),
        20,
        doc="characters per cell; `true`: 20, `false`: all",
        shown="`true`",
    )

    IGNORED: ClassVar = frozenset({"path"})
    OUTLIVES_QUERY: ClassVar = False

    @property
    def place(self) -> Place:
        return NOWHERE

    @property
    def guarantee(self) -> str:
        return "at_least_once"

    def writer(self, context: WriterContext) -> CollectingWriter:
        """No more rows travel to the driver than are printed."""
        return CollectingWriter(self.rows_max, whole=whole_result(self))

    def committer(self, context: CommitterContext) -> ConsoleCommitter:
        return ConsoleCommitter(self.rows_max, self.truncate)


SINK = ConsoleSpec
