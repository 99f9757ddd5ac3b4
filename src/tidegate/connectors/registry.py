"""Every source and sink by its format name. What a format is made of is imported when it is used: nobody needs the libraries of the others."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module

from tidegate.connectors.legacy import LegacySink, LegacySource
from tidegate.model.errors import InvalidQuery
from tidegate.ports.spec import ConnectorRequest, SinkSpec, SourceSpec


@dataclass(frozen=True, slots=True)
class Package:
    """Where a format lives: ``module`` has its spec as ``SOURCE``, ``SINK`` or both. ``extra``: what to install for it beyond Tidegate
    itself. ``legacy``: it still takes options as text."""

    name: str
    extra: str = ""
    legacy: bool = True

    def source(self, asked: ConnectorRequest) -> SourceSpec:
        module = self._load(asked.format)
        return LegacySource.of(self.name, asked) if self.legacy else module.SOURCE.parse(asked)

    def sink(self, asked: ConnectorRequest) -> SinkSpec:
        module = self._load(asked.format)
        return LegacySink.of(self.name, asked) if self.legacy else module.SINK.parse(asked)

    def _load(self, form: str):
        try:
            return import_module(f"tidegate.connectors.{self.name}.{'format' if self.legacy else 'spec'}")
        except ModuleNotFoundError as error:
            if not self.extra or (error.name or "").startswith("tidegate"):
                raise
            raise InvalidQuery(
                f"format {form!r} needs the Python package {error.name!r}, which is not installed here",
                hint=f"pip install 'tidegate[{self.extra}]', on the driver and on every executor",
            ) from error


FILES = Package("files")
KAFKA = Package("kafka", "kafka")
PYTHON_SOURCE = Package("python_source", legacy=False)
PYTHON_SINK = Package("python_sink", legacy=False)

SOURCES = {
    "parquet": FILES,
    "json": FILES,
    "csv": FILES,
    "text": FILES,
    "rate": Package("rate", legacy=False),
    "tidegate-nexmark": Package("nexmark", legacy=False),
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
    "memory": Package("memory", legacy=False),
    "console": Package("console", legacy=False),
    "noop": Package("noop", legacy=False),
    "kafka": KAFKA,
    "foreach": Package("foreach", legacy=False),
    "foreachbatch": Package("foreach_batch", legacy=False),
    "postgres": Package("postgres", "postgres"),
}


def parse_source(asked: ConnectorRequest) -> SourceSpec:
    """One of ours by its name, also where PySpark knows it as a Python data source; any other such source through its interface.
    Raises InvalidQuery."""
    package = SOURCES.get(asked.format.lower()) or (PYTHON_SOURCE if asked.payload else None)
    if package is None:
        raise unknown_source(asked.format)
    return package.source(asked)


def parse_sink(asked: ConnectorRequest) -> SinkSpec:
    """One of ours by its name, else a Python data source of the user's. Raises InvalidQuery."""
    package = SINKS.get(asked.format.lower()) or (PYTHON_SINK if asked.payload else None)
    if package is None:
        raise unknown_sink(asked.format)
    return package.sink(asked)


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
