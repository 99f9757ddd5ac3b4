"""Every source and sink by its format name. What a format is made of is imported when it is used: nobody needs the libraries of the others."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import entry_points
from types import ModuleType

from tidegate.model.errors import InvalidQuery
from tidegate.ports.spec import ConnectorRequest, SinkSpec, SourceSpec

ENTRY_POINTS = "tidegate.connectors"


@dataclass(frozen=True, slots=True)
class Package:
    """A module that has its specs as ``SOURCE``, ``SINK`` or both. ``extra``: what to install for it beyond Tidegate itself."""

    module: str
    extra: str = ""

    def source(self, form: str) -> type[SourceSpec]:
        return self._load(form).SOURCE

    def sink(self, form: str) -> type[SinkSpec]:
        return self._load(form).SINK

    def _load(self, form: str) -> ModuleType:
        try:
            return import_module(self.module)
        except ModuleNotFoundError as error:
            if not self.extra or (error.name or "").startswith("tidegate"):
                raise
            raise InvalidQuery(
                f"format {form!r} needs the Python package {error.name!r}, which is not installed here",
                hint=f"pip install 'tidegate[{self.extra}]', on the driver and on every executor",
            ) from error


def _ours(name: str, extra: str = "") -> Package:
    return Package(f"tidegate.connectors.{name}.spec", extra)


FILES = _ours("files")
KAFKA = _ours("kafka", "kafka")
PYTHON_SOURCE = _ours("python_source")
PYTHON_SINK = _ours("python_sink")

SOURCES = {
    "parquet": FILES,
    "json": FILES,
    "csv": FILES,
    "text": FILES,
    "rate": _ours("rate"),
    "tidegate-nexmark": _ours("nexmark"),
    "kafka": KAFKA,
    "tidegate-kafka": KAFKA,
}
SINKS = {
    "parquet": FILES,
    "json": FILES,
    "csv": FILES,
    "text": FILES,
    "delta": _ours("delta", "delta"),
    "iceberg": _ours("iceberg", "iceberg"),
    "memory": _ours("memory"),
    "console": _ours("console"),
    "noop": _ours("noop"),
    "kafka": KAFKA,
    "foreach": _ours("foreach"),
    "foreachbatch": _ours("foreach_batch"),
    "postgres": _ours("postgres", "postgres"),
}


def parse_source(asked: ConnectorRequest) -> SourceSpec:
    """One of ours by its name, also where PySpark knows it as a Python data source; any other such source through its interface; or one
    that an installed package brings. Raises InvalidQuery."""
    package = SOURCES.get(asked.format.lower()) or (PYTHON_SOURCE if asked.payload else _brought(asked.format))
    if package is None:
        raise unknown_source(asked.format)
    return package.source(asked.format).parse(asked)


def parse_sink(asked: ConnectorRequest) -> SinkSpec:
    """One of ours by its name, else a Python data source of the user's, or one that an installed package brings. Raises InvalidQuery."""
    kind = sink_kind(asked.format) if asked.format.lower() in SINKS or not asked.payload else PYTHON_SINK.sink("python")
    if kind is None:
        raise unknown_sink(asked.format)
    return kind.parse(asked)


def sink_kind(form: str) -> type[SinkSpec] | None:
    """What is known of a sink before its options are; None: there is none of that name, but for data sources of the session."""
    package = SINKS.get(form.lower()) or _brought(form)
    return None if package is None else package.sink(form)


def _brought(form: str) -> Package | None:
    """What another installed package brings: an entry point of this group is called like the format, and names a module."""
    found = entry_points(group=ENTRY_POINTS, name=form.lower())
    return next((Package(one.module) for one in found), None)


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
