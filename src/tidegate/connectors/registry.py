"""Every source and sink by its format name, for the driver and for the slots."""

from __future__ import annotations

from tidegate.connectors.console.sink import ConsoleCommitter, ConsoleSink, parse_console
from tidegate.connectors.files.config import SOURCE_FORMATS, parse_source
from tidegate.connectors.files.discovery import FileEnumerator
from tidegate.connectors.files.sink import SINK_FORMATS, FileSink, FileSinkCommitter, parse_sink
from tidegate.connectors.files.source import FileSource
from tidegate.connectors.foreach.sink import ForeachSink
from tidegate.connectors.memory.sink import MemoryCommitter, MemorySink
from tidegate.connectors.nexmark.config import FORMAT as NEXMARK
from tidegate.connectors.nexmark.source import NexmarkSource, nexmark_enumerator
from tidegate.connectors.noop.sink import NoopCommitter, NoopSink
from tidegate.connectors.python_source.enumerator import python_enumerator
from tidegate.connectors.python_source.source import PythonSource
from tidegate.connectors.rate.source import RateSource, rate_enumerator
from tidegate.model.config import QueryConfig
from tidegate.model.errors import InvalidQuery
from tidegate.operators.ports import SinkCommitter, SinkConnector, SourceConnector, SplitEnumerator
from tidegate.plan.relational import Scan, Sink

SOURCES = (*SOURCE_FORMATS, "rate", NEXMARK)
SINKS = (*SINK_FORMATS, "memory", "console", "noop", "foreach")


class RealConnectors:
    """Stateless: as many as one likes may exist, in any process."""

    def source(self, scan: Scan) -> SourceConnector:
        """Slot side. The generator of this package is known by name and read directly, not through PySpark's interface."""
        match scan.format.lower():
            case form if form in SOURCE_FORMATS:
                return FileSource(scan)
            case "rate":
                return RateSource(scan)
            case form if form == NEXMARK:
                return NexmarkSource(scan)
            case _ if scan.payload:
                return PythonSource(scan)
            case _:
                raise unknown_source(scan.format)

    def enumerator(self, scan: Scan, config: QueryConfig) -> SplitEnumerator:
        """Driver side. Validates all options; raises InvalidQuery before anything runs."""
        match scan.format.lower():
            case form if form in SOURCE_FORMATS:
                return FileEnumerator(parse_source(scan, warn=True), bounded=config.bounded)
            case "rate":
                return rate_enumerator(scan, config)
            case form if form == NEXMARK:
                return nexmark_enumerator(scan, config)
            case _ if scan.payload:
                return python_enumerator(scan, config)
            case _:
                raise unknown_source(scan.format)

    def sink(self, sink: Sink) -> SinkConnector:
        """Slot side. Validates all options, touches nothing."""
        match sink.format.lower():
            case form if form in SINK_FORMATS:
                parse_sink(sink)
                return FileSink()
            case "memory":
                return MemorySink()
            case "console":
                parse_console(sink)
                return ConsoleSink()
            case "noop":
                return NoopSink()
            case "foreach":
                return ForeachSink()
            case _:
                raise unknown_sink(sink.format)

    def committer(self, sink: Sink) -> SinkCommitter:
        """Driver side. Validates all options; for ``memory`` it is a MemoryCommitter, which holds the table."""
        match sink.format.lower():
            case form if form in SINK_FORMATS:
                return FileSinkCommitter(sink)
            case "memory":
                return MemoryCommitter(sink)
            case "console":
                return ConsoleCommitter(sink)
            case "noop" | "foreach":
                return NoopCommitter()
            case _:
                raise unknown_sink(sink.format)

    def formats(self) -> dict[str, tuple[str, ...]]:
        """What exists, for documentation and error messages."""
        return {"sources": SOURCES, "sinks": SINKS}


def unknown_source(name: str) -> InvalidQuery:
    return InvalidQuery(
        f"there is no source called {name!r}",
        hint=f"sources are {', '.join(SOURCES)} and every data source registered with spark.dataSource.register",
    )


def unknown_sink(name: str) -> InvalidQuery:
    return InvalidQuery(f"there is no sink called {name!r}", hint=f"sinks are {', '.join(SINKS)}")
