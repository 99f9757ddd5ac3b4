"""Every source and sink by its format name, for the driver and for the slots.

A format's package has a module ``format`` with ``source(scan)`` and ``enumerator(scan, config)``, with ``sink(node)`` and
``committer(node)``, or with all four. It is imported when the format is used: nobody needs the libraries of the others.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Protocol, TypeVar, cast

from tidegate.model.config import QueryConfig
from tidegate.model.errors import InvalidQuery
from tidegate.plan.relational import Scan, Sink
from tidegate.ports.directory import OpenDirectory
from tidegate.ports.side import ConnectorSide
from tidegate.ports.sink import SinkCommitter, SinkConnector
from tidegate.ports.source import SourceConnector, SplitEnumerator
from tidegate.ports.store import BlobStore

Side = TypeVar("Side", bound=ConnectorSide)


class SourceFormat(Protocol):
    """Both sides of a source."""

    def source(self, scan: Scan, /) -> SourceConnector:
        """Slot side."""
        ...

    def enumerator(self, scan: Scan, config: QueryConfig, /) -> SplitEnumerator:
        """Driver side. Validates all options and asks nobody; raises InvalidQuery before anything runs."""
        ...


class SinkFormat(Protocol):
    """Both sides of a sink."""

    def sink(self, node: Sink, /) -> SinkConnector:
        """Slot side. Validates all options, touches nothing."""
        ...

    def committer(self, node: Sink, /) -> SinkCommitter:
        """Driver side. Validates all options."""
        ...


@dataclass(frozen=True, slots=True)
class Package:
    """Where a format lives. ``extra``: what to install for it beyond Tidegate itself."""

    name: str
    extra: str = ""

    def load(self, form: str) -> object:
        try:
            return import_module(f"tidegate.connectors.{self.name}.format")
        except ModuleNotFoundError as error:
            if not self.extra or (error.name or "").startswith("tidegate"):
                raise
            raise InvalidQuery(
                f"format {form!r} needs the Python package {error.name!r}, which is not installed here",
                hint=f"pip install 'tidegate[{self.extra}]', on the driver and on every executor",
            ) from error


FILES = Package("files")
KAFKA = Package("kafka", "kafka")
PYTHON_SOURCE = Package("python_source")
PYTHON_SINK = Package("python_sink")

SOURCES = {
    "parquet": FILES,
    "json": FILES,
    "csv": FILES,
    "text": FILES,
    "rate": Package("rate"),
    "tidegate-nexmark": Package("nexmark"),
    "kafka": KAFKA,
    "tidegate-kafka": KAFKA,
}
SINKS = {
    "parquet": FILES,
    "json": FILES,
    "csv": FILES,
    "text": FILES,
    "delta": Package("delta", "delta"),
    "iceberg": Package("iceberg", "iceberg"),
    "memory": Package("memory"),
    "console": Package("console"),
    "noop": Package("noop"),
    "kafka": KAFKA,
    "foreach": Package("foreach"),
    "foreachbatch": Package("foreach_batch"),
    "postgres": Package("postgres", "postgres"),
}


class RealConnectors:
    """Stateless: as many as one likes may exist, in any process."""

    def __init__(self, store: BlobStore | None = None, open_directory: OpenDirectory | None = None) -> None:
        """``store``: the checkpoint location, for sinks that keep something there. ``open_directory``: for sources and
        sinks whose directories lie elsewhere. Without them they can be checked, not used."""
        self._store = store
        self._open_directory = open_directory

    def source(self, scan: Scan) -> SourceConnector:
        return self._at_home(_source(scan).source(scan))

    def enumerator(self, scan: Scan, config: QueryConfig) -> SplitEnumerator:
        return self._at_home(_source(scan).enumerator(scan, config))

    def sink(self, sink: Sink) -> SinkConnector:
        return self._at_home(_sink(sink).sink(sink))

    def committer(self, sink: Sink) -> SinkCommitter:
        return self._at_home(_sink(sink).committer(sink))

    def _at_home(self, side: Side) -> Side:
        if self._store is not None:
            side.use(self._store)
        if self._open_directory is not None:
            side.reach(self._open_directory)
        return side

    def formats(self) -> dict[str, tuple[str, ...]]:
        """What exists, for documentation and error messages."""
        return {"sources": tuple(SOURCES), "sinks": tuple(SINKS)}


def _source(scan: Scan) -> SourceFormat:
    """One of ours by its name, also where PySpark knows it as a Python data source; any other such source through its interface."""
    form = scan.format.lower()
    package = SOURCES.get(form) or (PYTHON_SOURCE if scan.payload else None)
    if package is None:
        raise unknown_source(scan.format)
    return cast("SourceFormat", package.load(form))


def _sink(sink: Sink) -> SinkFormat:
    """One of ours by its name, else a Python data source of the user's."""
    form = sink.format.lower()
    package = SINKS.get(form) or (PYTHON_SINK if sink.payload else None)
    if package is None:
        raise unknown_sink(sink.format)
    return cast("SinkFormat", package.load(form))


def unknown_source(name: str) -> InvalidQuery:
    return InvalidQuery(
        f"there is no source called {name!r}",
        hint=f"sources are {', '.join(SOURCES)} and every data source registered with spark.dataSource.register",
    )


def unknown_sink(name: str) -> InvalidQuery:
    return InvalidQuery(
        f"there is no sink called {name!r}",
        hint=f"sinks are {', '.join(SINKS)} and every data source registered with spark.dataSource.register",
    )
